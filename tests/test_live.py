"""The trained pair in a browser: its tokens, verdicts and distributions are the library's, it asks for nothing outside,
and a reader can use it."""
import functools, http.server, statistics, threading
from math import sqrt
import live_site, pytest, torch
from specdec.decoding import autoregressive, generate
from specdec.live import live
from specdec.verification import as_rule, judge
from specdec.zoo import held_out_prompts, load_pair

pytestmark = pytest.mark.slow
PAGE = '''<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>live</title><link rel="icon" href="data:,"><style>body {{ margin: 8px; font: 16px sans-serif; {style} }}</style>
<body><main><h1>Live</h1>{body}</main></body></html>'''

@pytest.fixture(scope='module')
def site(tmp_path_factory):
    "A site of one page, with the files beside it"
    folder = tmp_path_factory.mktemp('site')
    for name, style in dict(live='', dark='background: #222; color: #eee').items():
        (folder/f'{name}.html').write_text(PAGE.format(body=live(), style=style), encoding='utf-8')
    said = live_site.add(folder)
    if 'recorded run instead' in said: pytest.skip(said)
    assert said.endswith('for 2 pages') and 'data-mb="2' in (folder/'live.html').read_text(encoding='utf-8')
    return folder

@pytest.fixture(scope='module')
def served(site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=str(site))) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{s.server_port}'
        s.shutdown()

@pytest.fixture
def opened(browser, served):
    "A function that opens the page; at the end nothing was asked of others, nothing complained, nothing too wide"
    pages, faults = [], []
    def opened(path='live.html', width=1280, refuse=None):
        page = browser.new_page(viewport=dict(width=width, height=900))
        page.asked = []
        page.on('request', lambda r: page.asked.append(r.url))
        page.on('pageerror', lambda e: faults.append(str(e)))
        if refuse: page.route(refuse, lambda route: route.abort())
        page.goto(f'{served}/{path}')
        pages.append(page)
        return page
    yield opened
    for page in pages:
        assert not [url for url in page.asked if not url.startswith((served, 'data:', f'blob:{served}'))]
        assert page.evaluate('document.documentElement.scrollWidth - innerWidth') <= 0, 'wider than the screen'
        page.close()
    assert not faults

@pytest.fixture(scope='module')
def loaded(browser, served):
    "One page whose models are loaded, for the tests that only call"
    page = browser.new_page()
    page.asked = []
    page.on('request', lambda r: page.asked.append(r.url))
    page.goto(f'{served}/live.html')
    before = len(page.asked)
    assert before == 1, f'asked for before the button was pressed: {page.asked[1:]}'
    page.evaluate('specdecLive.load()')
    yield page
    assert len(page.asked) > 5 and all(url.startswith((served, f'blob:{served}')) for url in page.asked), page.asked
    page.close()

@pytest.fixture(scope='module')
def pair(): return load_pair(device='cpu')

PROMPTS = [o for texts in held_out_prompts(5).values() for o in texts]

def test_greedy_tokens_are_those_of_python(loaded, pair):
    "Ten prompts, both rules, several draft lengths: tokens, and round by round what was drafted and kept"
    assert len(PROMPTS) == 10
    for i, prompt in enumerate(PROMPTS):
        gamma, rule = 1 + i % 6, ('token', 'block')[i % 2]
        ours = generate(pair.target, pair.draft, prompt, 48, gamma, tokenizer=pair.tokenizer)
        theirs = loaded.evaluate('o => specdecLive.generate(o)', dict(prompt=prompt, maxNewTokens=48, gamma=gamma, temperature=0, seed=1, rule=rule))
        assert theirs['tokens'] == ours.tokens.tolist() and theirs['text'] == ours.text, prompt
        assert theirs['rounds'] == [dict(x=r.x.tolist(), n=r.n, tokens=r.tokens.tolist()) for r in ours.rounds]
        alone = loaded.evaluate('o => specdecLive.plain(o)', dict(prompt=prompt, maxNewTokens=48))
        assert alone['tokens'] == autoregressive(pair.target, prompt, 48, tokenizer=pair.tokenizer).tokens.tolist()

def test_to_the_end_of_the_context(loaded, pair):
    prompt = 'x = 1\n'*120
    room = 512 - len(pair.tokenizer(prompt).input_ids)
    assert 0 < room < 60, room
    ours = generate(pair.target, pair.draft, prompt, room + 50, 4, tokenizer=pair.tokenizer)
    theirs = loaded.evaluate('o => specdecLive.generate(o)', dict(prompt=prompt, maxNewTokens=room + 50, gamma=4))
    assert theirs['tokens'] == ours.tokens.tolist() and len(theirs['tokens']) == room

ODD = ['', ' ', 'a'*300, ' '*77 + 'x', '\t\n\r\n  \n', 'naïve café', 'e\u0301', '👩‍👩‍👧‍👦 🇨🇭 👍🏽', '日本語 한국어 العربية', '<|endoftext|>', 'a<|endoftext|>b', '\u200b\u00a0\u2028', '\x00\x07',
       "it's we'll I'M", '123456789 3.14e-10', 'don’t', '𝔘𝔫𝔦𝔠𝔬𝔡𝔢', 'x' + ' '*1000, '\u0600\ufdfa', 'ﬁ ﷽ Ǆ', '\ud7ff\ue000\uffff']

def test_tokenizer(loaded, pair):
    "Ids of prompts and of odd text, there and back; also ids that end inside a character"
    tok = pair.tokenizer
    texts = [*(o for texts in held_out_prompts(5).values() for o in texts), *ODD]
    ids = loaded.evaluate('async texts => { const out = []; for (const o of texts) out.push(await specdecLive.encode(o)); return out }', texts)
    assert ids == [tok(o).input_ids for o in texts]
    halves = [o[:k] for o in ids[-len(ODD):] for k in range(1, min(len(o), 12))]
    assert any('\ufffd' in tok.decode(o) for o in halves)
    back = loaded.evaluate('async all => { const out = []; for (const o of all) out.push(await specdecLive.decode(o)); return out }', ids + halves)
    assert back == [tok.decode(o) for o in ids + halves]

def case(i):
    "p, q, x, u of some shape: rows near each other, far apart, with zeros, or the same"
    g = torch.Generator().manual_seed(i)
    V, gamma, kind = 2 + i % 6, 1 + i % 5, i % 4
    z = torch.randn(gamma + 1, V, generator=g)*(1 + kind)
    p = z.double().softmax(-1)
    q = p[:gamma] if kind == 3 else (z[:gamma] + torch.randn(gamma, V, generator=g)).double().softmax(-1)
    if kind == 2:
        p, q = (torch.where(o < .5*o.amax(-1, keepdim=True), 0., o) for o in (p, q))
        p, q = p/p.sum(-1, keepdim=True), q/q.sum(-1, keepdim=True)
    x = torch.multinomial(q, 1, generator=g)[:, 0]
    return p, q, x, torch.rand(gamma, generator=g, dtype=torch.float64)

VERDICTS = '''async ([cases, rule]) => {
  const {RULES, judge} = await import('./live/verify.js')
  return cases.map(({p, q, x, u}) => { const n = judge(RULES[rule], p, q, x, u); return [n, [...RULES[rule].closing(p, q, x, n)]] })
}'''

@pytest.mark.parametrize('name', ['token', 'block'])
def test_verdicts_and_closing_distributions(loaded, name):
    "A thousand cases: as many kept, and the same distribution of the closing token"
    cases, rule = [case(i) for i in range(1000)], as_rule(name)
    given = [dict(zip('pqxu', (o.tolist() for o in c))) for c in cases]
    found, kept = loaded.evaluate(VERDICTS, [given, name]), set()
    for (p, q, x, u), (m, row) in zip(cases, found):
        n = judge(p, q, x, u, rule)
        assert m == int(n)
        torch.testing.assert_close(torch.tensor(row, dtype=torch.float64), rule.closing(p, q, x, n)[0], rtol=0, atol=1e-5)
        kept.add((int(n) == len(x), int(n) > 0))
    assert kept == {(True, True), (False, True), (False, False)}, 'none, some and all must have been kept'

SAMPLE = '''async ([p, q, gamma, rounds, rule, wrong]) => {
  const {RULES, coins, draw, judge} = await import('./live/verify.js')
  const random = coins(11), counts = Array(p.length ** 2).fill(0)
  const P = Array(gamma + 1).fill(p), Q = Array(gamma).fill(q)
  for (let k = 0; k < rounds; k++) {
    const x = Q.map(row => draw(row, random)), u = x.map(random), n = judge(RULES[rule], P, Q, x, u)
    const closing = wrong ? P[n] : RULES[rule].closing(P, Q, x, n)
    const text = [...x.slice(0, n), draw(closing, random)]
    while (text.length < 2) text.push(draw(p, random))
    counts[text[0] * p.length + text[1]]++
  }
  return counts
}'''

def scores(counts, p):
    "How many standard errors each count of a pair of tokens is from what the target alone would give"
    law, N = torch.outer(p, p).flatten(), sum(counts)
    return [float((k - N*a)/sqrt(N*a*(1 - a))) for k, a in zip(counts, law)]

@pytest.mark.parametrize('rule', ['token', 'block'])
def test_sampled_law(loaded, rule):
    "The first two tokens of 200 000 rounds; a verifier that draws from p after a rejection is found out"
    p, q, bound = torch.tensor([.5, .3, .2], dtype=torch.float64), torch.tensor([.2, .3, .5], dtype=torch.float64), 4.5
    right, wrong = (scores(loaded.evaluate(SAMPLE, [p.tolist(), q.tolist(), 2, 200_000, rule, o]), p) for o in (False, True))
    assert max(map(abs, right)) < bound, right
    assert max(map(abs, wrong)) > 2*bound, wrong

def test_same_seed_same_text_and_sampled_law_of_the_models(loaded, pair):
    "The first token of many seeds at temperature 1, against the target's distribution: the ten likeliest, and the rest"
    options = dict(prompt='def main(', maxNewTokens=12, temperature=1, gamma=3, rule='token', seed=5)
    a, b, c = (loaded.evaluate('o => specdecLive.generate(o)', dict(options, seed=s)) for s in (5, 5, 6))
    assert a['tokens'] == b['tokens'] != c['tokens']
    N = 300
    first = loaded.evaluate('''async ([o, n]) => { const out = []
      for (let seed = 0; seed < n; seed++) out.push((await specdecLive.generate({...o, seed, maxNewTokens: 2, gamma: 1})).tokens[0])
      return out }''', [options, N])
    ids = torch.tensor(pair.tokenizer('def main(').input_ids)
    with torch.no_grad(): p = pair.target(ids[None]).logits[0, -1].double().softmax(-1)
    best = p.topk(10).indices.tolist()
    found = [*(first.count(t) for t in best), sum(t not in best for t in first)]
    law = [*p[best].tolist(), 1 - float(p[best].sum())]
    z = [(k - N*a)/sqrt(N*a*(1 - a)) for k, a in zip(found, law)]
    assert max(map(abs, z)) < 4.5, z

def test_bad_input_is_named(loaded):
    for given, said in [(dict(prompt=''), 'the prompt is empty'), (dict(prompt='x = 1\n'*200), 'tokens: at most 511'), (dict(prompt='a', gamma=0), 'gamma=0: it must be'),
                        (dict(prompt='a', temperature=-1), 'temperature=-1: it must be'), (dict(prompt='a', rule='typical'), 'rule=typical: it must be token or block'),
                        (dict(prompt='a', maxNewTokens=-1), 'maxNewTokens=-1: it must be')]:
        assert said in loaded.evaluate('o => specdecLive.generate(o).then(() => "", e => e.message)', given)
    assert loaded.evaluate('specdecLive.generate({prompt: "a", maxNewTokens: 0})')['tokens'] == []

def test_speculation_pays_in_the_same_tab(loaded):
    "Medians of interleaved runs; what they are is printed"
    options = dict(prompt='def main(', maxNewTokens=64, gamma=4, temperature=0)
    seconds = dict(generate=[], plain=[])
    for lap in range(8):
        for name, found in seconds.items():
            t = loaded.evaluate('([name, o]) => specdecLive[name](o)', [name, options])['seconds']
            if lap: found.append(t)
    fast, slow = (64/statistics.median(seconds[k]) for k in ('generate', 'plain'))
    print(f'\nspeculative {fast:.0f} tokens/s, target alone {slow:.0f} tokens/s: {fast/slow:.2f}')
    assert fast > slow

def click(page, wait=60_000):
    "Press the button, and wait until the first run and its measurements are over"
    page.get_by_role('button', name='run it here').click()
    page.wait_for_selector('.sd-live .sd-said .sd-kept', timeout=wait)

def idle(page, wait=60_000): page.wait_for_selector('.sd-live:not([data-busy])', timeout=wait)
def cell(page, name): return page.locator(f'.sd-live td[data-name={name}]').inner_text()

@pytest.mark.parametrize('width', [1280, 390])
def test_first_click(opened, root, width):
    "Nothing is loaded before the button; then coloured text, and every number of the table"
    page = opened(width=width)
    assert len(page.asked) == 1 and page.locator('.sd-live button').inner_text() == 'run it here (28 MB)'
    click(page)
    idle(page)
    assert {page.locator(f'.sd-live .sd-said .sd-{k}').count() > 0 for k in ('kept', 'correction', 'bonus')} == {True}
    for name in ('alpha', 'tau', 'fast', 'slow', 'gain', 'c', 'v', 'predicted', 'best'): assert any(map(str.isdigit, cell(page, name))), name
    assert '96 tokens in' in page.locator('.sd-live [role=status]').inner_text()
    (root/'tests'/'screenshots').mkdir(exist_ok=True)
    page.screenshot(path=root/'tests'/'screenshots'/f'live-{width}.png', full_page=True)

def test_greedy_page_says_that_the_texts_are_the_same(opened):
    page = opened()
    click(page)
    page.get_by_label('temperature').fill('0')
    page.get_by_role('button', name='run', exact=True).click()
    idle(page)
    assert page.locator('.sd-live [role=status]').inner_text().endswith('the target alone writes the same text')

def test_keyboard_and_step_and_stop(opened):
    "One draft and one verdict at a time by Enter; tokens by arrow keys; stop ends it at once"
    page = opened()
    page.get_by_role('button', name='run it here').focus()
    page.keyboard.press('Enter')
    page.wait_for_selector('.sd-live .sd-said .sd-kept', timeout=60_000)
    page.get_by_role('button', name='stop').press('Enter')
    assert page.locator('.sd-live [role=status]').inner_text() == 'stopped' and not page.locator('[data-busy]').count()
    step = page.get_by_role('button', name='step')
    step.press('Enter')
    cards = page.locator('.sd-live .sd-cards .sd-tok')
    for i in range(1, 5):
        page.wait_for_function(f'document.querySelectorAll(".sd-live .sd-cards .sd-drafted").length == {i}')
        step.press('Enter')
    page.wait_for_selector('.sd-live .sd-cards .sd-drafted ~ *, .sd-live .sd-cards .sd-kept, .sd-live .sd-cards .sd-rejected')
    for _ in range(6):
        if page.locator('.sd-live .sd-said span').count(): break
        step.press('Enter')
        page.wait_for_timeout(100)
    n = page.locator('.sd-live .sd-said span').count()
    assert 1 <= n <= 5 and cards.count() == 5
    page.get_by_role('group', name='text so far').focus()
    page.keyboard.press('End')
    assert page.evaluate('document.activeElement.getAttribute("role")') == 'button'
    assert any(o in page.locator('.sd-fact').inner_text() for o in ('correction: ', 'bonus: '))
    page.get_by_role('button', name='stop').click()
    assert not page.locator('[data-busy]').count()

def test_worker_leaves_the_page_free(opened):
    "While it decodes the page answers: no frame of the main thread waits for a pass"
    page = opened()
    click(page)
    page.get_by_role('button', name='run', exact=True).click()
    late = page.evaluate("""() => new Promise(done => { let last = performance.now(), worst = 0, n = 0
      const tick = () => { const now = performance.now(); worst = Math.max(worst, now - last); last = now; ++n < 60 ? setTimeout(tick, 5) : done(worst) }; tick() })""")
    assert late < 1000, late
    page.get_by_role('button', name='stop').click()

def test_recorded_run_where_it_cannot_be_loaded(opened):
    page = opened(refuse='**/*.onnx')
    assert not page.locator('.sd-rounds').is_visible()
    page.get_by_role('button', name='run it here').click()
    page.wait_for_selector('.sd-recorded:not([hidden])')
    assert 'recorded run' in page.locator('.sd-live').inner_text() and page.locator('.sd-rounds').is_visible()
    page.get_by_role('button', name='forward').click()
    assert 'round 1' in page.locator('.sd-rounds').inner_text()

def test_recorded_run_where_the_files_are_not(browser):
    "As in a notebook: nothing was put beside it"
    page = browser.new_page()
    page.set_content(PAGE.format(body=live(), style=''))
    assert page.locator('.sd-rounds').is_visible() and not page.locator('.sd-live button').count()
    page.close()

@pytest.mark.parametrize('path', ['live.html', 'dark.html'])
def test_accessible(opened, root, path):
    axe = next((p for p in (root/'node_modules/axe-core/axe.min.js', root.parent/'node_modules/axe-core/axe.min.js') if p.is_file()), None)
    if not axe: pytest.skip('axe-core is not here: npm install --ignore-scripts --no-save axe-core')
    page = opened(path)
    page.evaluate(axe.read_text(encoding='utf-8'))
    def serious():
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")['violations']
        return [(v['id'], [n['target'] for n in v['nodes'][:3]]) for v in found if v['impact'] in ('serious', 'critical')]
    assert not serious()
    click(page)
    idle(page)
    assert not serious()
    page.screenshot(path=root/'tests'/'screenshots'/f'{path[:4]}.png', full_page=True)

@pytest.mark.parametrize('missing', ['npm', 'onnx'])
def test_without_npm_or_onnx_the_build_goes_on(tmp_path, monkeypatch, missing):
    monkeypatch.setattr(live_site, 'kept', lambda: (_ for _ in ()).throw(live_site.Missing(f'{missing} is not installed')))
    (tmp_path/'a.html').write_text('<div data-mb="">', encoding='utf-8')
    assert live_site.add(tmp_path) == f'live: {missing} is not installed; the pages show a recorded run instead'
    assert (tmp_path/'a.html').read_text(encoding='utf-8') == '<div data-mb="">' and not (tmp_path/'live').exists()
