"The explorables in a browser: what they compute is what the library computes, by keyboard and by pointer, on a wide screen and on a phone."
import json
import pytest, torch
from torch import tensor
from specdec.acceptance import residual
from specdec.distributions import overlap, probs, tv
from specdec.explorables import acceptance_explorer, round_player, speedup_explorer
from specdec.figures import CORRECTION, DRAFT, GREY, KEPT, REJECTED, SERIES, TARGET, html_strip, html_text
from specdec.markup import asset, html_table
from specdec.rounds import Round, Stats
from specdec.theory import best_gamma, expected_tokens, speedup

TOKENS, Z = ['the', 'a', '</b>'], ([2., 1., -.5], [.5, 1.5, 0.])
PAGE = '<!doctype html><html lang="en"><meta name="viewport" content="width=device-width"><style>body {{ margin: 8px; font: 16px sans-serif; {style} }} body svg, body main table {{ background: #fff; padding: 8px; font-size: 17px }}</style><body><main>{body}</main></body></html>'
THEMES = dict(light='', dark='background: #222; color: #eee')

@pytest.fixture(params=[1200, 390])
def show(browser, request):
    "Put markup on an empty page of one width; at the end nothing was complained about, and nothing was asked for"
    faults, pages = [], []
    def show(body, style=''):
        page = browser.new_page(viewport={'width': request.param, 'height': 900})
        page.on('request', lambda r: faults.append(r.url))
        page.on('pageerror', lambda e: faults.append(str(e)))
        page.on('console', lambda m: faults.append(m.text))
        page.set_content(PAGE.format(body=body, style=style))
        pages.append(page)
        return page
    yield show
    for page in pages:
        assert page.evaluate('document.documentElement.scrollWidth - innerWidth') <= 0, 'wider than the screen'
        page.close()
    assert not faults

def number(page, name): return float(page.locator(f'[data-name={name}]').get_attribute('data-value'))
def line(page, name): return tensor([float(c.get_attribute('data-value')) for c in page.locator(f'tr[data-row="{name}"] td').all()], dtype=torch.float64)

def agrees(page, p, q):
    "Every number of the acceptance explorer is the library's"
    same = dict(rtol=0, atol=1e-9)
    for name, row in {'p': p, 'q': q, 'min(p, q)': torch.minimum(p, q), 'residual': residual(p, q)}.items():
        torch.testing.assert_close(line(page, name), torch.cat([row, row.sum()[None]]), **same)
    torch.testing.assert_close(tensor([number(page, n) for n in ('alpha', 'tv')]), tensor([overlap(p, q), tv(p, q)], dtype=torch.float32), rtol=0, atol=1e-6)
    assert f'α = {float(overlap(p, q)):.3f} = 1 − TV' in page.get_by_role('status').first.inner_text()

def pulled(p, i, h):
    "`p` with `h` on token `i`, the others in their old proportions"
    out = p * (1 - h) / (1 - p[i])
    out[i] = h
    return out

def test_acceptance_by_keyboard(show):
    page = show(acceptance_explorer(*Z, TOKENS))
    p, q = (probs(tensor(z, dtype=torch.float64)) for z in Z)
    agrees(page, p, q)
    bar = page.get_by_label('target p, token a')
    bar.focus()
    for _ in range(12): page.keyboard.press('ArrowUp')
    h = round(float(p[1]), 2) + .12
    assert float(bar.input_value()) == pytest.approx(h)
    p = pulled(p, 1, h)
    agrees(page, p, q)
    heat = page.get_by_label('temperature')
    heat.focus()
    for _ in range(7): page.keyboard.press('ArrowRight')
    p, q = (probs(row.log(), 1.7) for row in (p, q))
    agrees(page, p, q)
    page.get_by_label('draft q, token the').focus()
    page.keyboard.press('End')
    agrees(page, p, pulled(q, 0, .99))
    page.get_by_role('button', name='reset').press('Enter')
    agrees(page, *(probs(tensor(z, dtype=torch.float64)) for z in Z))
    assert heat.input_value() == '1'

def test_acceptance_by_pointer(show):
    page = show(acceptance_explorer(*Z, TOKENS, temperature=.5))
    p, q = (probs(tensor(z, dtype=torch.float64), .5) for z in Z)
    bar = page.get_by_label('draft q, token </b>')
    box = bar.bounding_box()
    assert box['width'] >= 24, 'too narrow for a finger'
    x, y = box['x'] + box['width']/2, lambda h: box['y'] + 4 + (1 - (h - .01)/.98)*(box['height'] - 8)
    page.mouse.move(x, y(.2)); page.mouse.down(); page.mouse.move(x, y(.5), steps=4); page.mouse.move(x, y(.7), steps=4); page.mouse.up()
    h = float(bar.input_value())
    assert h == pytest.approx(.7, abs=.015)                                     # the bar is where the pointer is
    agrees(page, p, pulled(q, 2, h))
    assert page.locator('.sd-bar i').nth(5).evaluate('i => i.offsetHeight / i.parentNode.offsetHeight') == pytest.approx(h, abs=.03)

def test_same_and_disjoint(show):
    page = show(acceptance_explorer([1., 2.], [1., 2.]))
    assert number(page, 'alpha') == pytest.approx(1) and number(page, 'tv') == 0
    assert line(page, 'residual').equal(line(page, 'p'))                        # nothing is left over: p itself
    page = show(acceptance_explorer([900., 0.], [0., 900.]))
    assert number(page, 'alpha') == 0 and line(page, 'residual')[:2].tolist() == [1, 0]

SETTINGS = [(.8, 4, .1, 1.), (.8, 4, .1, 1.4), (.05, 3, .1, 1.), (1., 20, 0., 1.), (0., 1, .5, 1.), (.95, 9, .02, .9), (.6, 2, 1., 3.)]
LABELS = dict(alpha='acceptance α', gamma='draft length γ', c='draft pass c', v='verify pass v')

def matches(page, alpha, gamma, c, v):
    "Every number of the speedup explorer is the library's"
    gain = {0: 1., **{g: speedup(alpha, g, c, v) for g in range(1, 21)}}
    best = max(gain, key=gain.get)
    if v == 1: assert best == best_gamma(alpha, c, gamma_max=20)
    assert number(page, 'best') == best
    assert number(page, 'tau') == pytest.approx(expected_tokens(alpha, gamma), abs=1e-12)
    assert number(page, 'speedup') == pytest.approx(gain[gamma], abs=1e-12)
    ring, chosen = (page.locator(f'svg circle[r="{r}"]') for r in (8, 5))
    points = page.locator('svg polyline').get_attribute('points').split()
    assert len(points) == 21
    for mark, g in ((ring, best), (chosen, gamma)): assert f"{mark.get_attribute('cx')},{mark.get_attribute('cy')}" == points[g]
    even = float(page.locator('svg [data-name=even]').get_attribute('y1'))      # what is above the line gains
    assert all((float(o.split(',')[1]) < even - 1e-6) == (gain[g] > 1 + 1e-9) for g, o in enumerate(points) if g and abs(gain[g] - 1) > 1e-6)

def test_speedup_settings(show):
    page = show(speedup_explorer())
    for setting in SETTINGS:
        for label, value in zip(LABELS.values(), setting): page.get_by_label(label).fill(f'{value:g}')
        matches(page, *setting)

def test_speedup_by_keyboard_and_pointer(show):
    page = show(speedup_explorer(.5, 2, .2, measured={1: 1.1, 4: 1.2}))
    matches(page, .5, 2, .2, 1.)
    assert page.locator('svg [data-name=measured]').count() == 2
    page.get_by_label(LABELS['alpha']).focus()
    for key in ['ArrowRight']*20 + ['Tab'] + ['ArrowRight']*3: page.keyboard.press(key)
    matches(page, .7, 5, .2, 1.)
    slider = page.get_by_label(LABELS['c'])
    box = slider.bounding_box()
    page.mouse.click(box['x'] + box['width']*.75, box['y'] + box['height']/2)
    assert float(slider.input_value()) == pytest.approx(.75, abs=8/box['width'] + .01)     # half a thumb and a step
    matches(page, .7, 5, float(slider.input_value()), 1.)

def stats(rounds): return Stats.of([Round(torch.zeros(len(r['x'])), 4, r['n'], torch.zeros(r['n'] + (r['closing'] != 'none'))) for r in rounds])

def test_rounds(show):
    shots = json.loads(asset('rounds.json'))
    page = show(round_player(seconds=.02))
    text, cards = page.get_by_role('group', name='text so far'), page.locator('.sd-cards .sd-tok')
    forward = page.get_by_role('button', name='forward')
    first = shots[0]['rounds'][0]
    assert text.inner_text() == shots[0]['prompt'] and cards.count() == len(first['x'])
    forward.click()                                                              # verified: the same drafts with their fates
    assert [page.locator(f'.sd-cards .sd-{k}').count() for k in ('kept', 'rejected', 'untested')] == [first['n'], first['tested'] - first['n'], len(first['x']) - first['tested']]
    page.keyboard.press('ArrowRight')                                            # closed
    assert cards.count() == len(first['x']) + 1 and number(page, 'tau') == first['n'] + 1
    page.keyboard.press('ArrowLeft')
    assert 'keeps' in page.locator('.sd-answer').inner_text() and page.locator('[data-name=tau]').count() == 0
    page.get_by_role('button', name='play').click()                              # runs to the end and stops there
    page.wait_for_function("document.querySelector('input[type=range]').value === document.querySelector('input[type=range]').max")
    page.get_by_role('button', name='play').wait_for()
    for shot in shots:                                                           # each recording adds up
        page.get_by_label('recording').select_option(shot['name'])
        assert text.evaluate('n => n.textContent') == shot['prompt']
        forward.focus(); page.keyboard.press('End')
        s = stats(shot['rounds'])
        assert (number(page, 'tokens'), number(page, 'tau'), number(page, 'alpha')) == pytest.approx((s.new_tokens, s.tau, s.alpha_hat))
        assert text.evaluate('n => n.textContent') == shot['prompt'] + ''.join(t for r in shot['rounds'] for t in (*r['x'][:r['n']], r['y']))
        assert page.locator('.sd-said .sd-kept').count() == s.kept

def test_pause(show):
    page = show(round_player(seconds=.05))
    page.get_by_role('button', name='play').click()
    page.wait_for_function("+document.querySelector('input[type=range]').value > 2")
    page.get_by_role('button', name='pause').press('Enter')
    at = page.get_by_label('step', exact=True).input_value()
    page.wait_for_timeout(200)
    assert page.get_by_label('step', exact=True).input_value() == at and page.get_by_role('button', name='play').is_visible()

EVIL = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'

def test_hostile_text_stays_text(show):
    r = dict(x=[EVIL], n=1, tested=1, closing='bonus', y=EVIL, p=[.5], q=[.5])
    page = show(acceptance_explorer(*Z, [EVIL]*3) + round_player([dict(name=EVIL, prompt=EVIL, rounds=[r])]) + html_strip([r]))
    page.get_by_role('button', name='forward').press('End')
    assert EVIL*3 == page.get_by_role('group', name='text so far').evaluate('n => n.textContent')
    assert page.evaluate('window.hacked === undefined && document.images.length === 0')

def test_text_byte_for_byte(show):
    "A character of two tokens is one character; what has no picture is a number; a recording of old has no text of its own"
    r = dict(x=['caf', '\ufffd'], n=2, tested=2, closing='correction', y='\ufffd', text=['caf', '', 'é\x1b\ud800\n'], p=[.5, .5], q=[.5, .5])
    page = show(round_player([dict(name='a', prompt='\x00 b\t', rounds=[r])]))
    page.get_by_role('button', name='forward').press('End')
    text = page.get_by_role('group', name='text so far').evaluate('n => n.textContent')
    assert text == '\\u0000 b\tcafé\\u001b\\ud800\n'
    assert page.locator('.sd-cards .sd-tok').all_inner_texts() == ['caf', '\ufffd', '\ufffd']

def test_many_on_a_page(show):
    page = show(acceptance_explorer(*Z, TOKENS)*2 + speedup_explorer()*2 + round_player()*2)
    assert page.locator('[data-ready]').count() == 6 and page.locator('[id]').count() == 0
    alphas = lambda: [float(o.get_attribute('data-value')) for o in page.locator('[data-name=alpha]').all()[:2]]
    before = alphas()
    page.get_by_label('target p, token the').first.press('ArrowUp')
    assert before[0] == before[1] == alphas()[1] != alphas()[0]

def test_numbers_of_a_token_on_focus(show):
    page = show(html_strip([json.loads(asset('rounds.json'))[0]['rounds'][0]]))
    token = page.locator('.sd-tok[title]').first
    said = lambda: token.evaluate("n => getComputedStyle(n, '::after').content")
    assert said() == 'none'
    page.keyboard.press('Tab')
    assert 'min(1, p/q)' in said() and token.get_attribute('title') in said()

@pytest.mark.parametrize('theme', THEMES)
def test_looks(show, theme, request, tmp_path):
    "Keyboard focus shows; a picture of everything is kept with the test's files"
    shot = json.loads(asset('rounds.json'))[0]
    page = show(acceptance_explorer(*Z, TOKENS) + speedup_explorer() + round_player() + html_strip([shot['rounds'][1]]), THEMES[theme])
    assert page.locator('svg').evaluate('s => getComputedStyle(s).backgroundColor') == 'rgba(0, 0, 0, 0)'      # whatever the site does to its pictures
    page.keyboard.press('Tab')
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == 'solid'
    page.screenshot(path=tmp_path/'explorables.png', full_page=True)
    assert (tmp_path/'explorables.png').stat().st_size > 20_000

def test_one_palette(show):
    "Style sheets and scripts paint with the colours of `figures`, and with no other"
    import re
    named = {o.lower() for o in (TARGET, DRAFT, KEPT, REJECTED, CORRECTION, GREY, SERIES[0]['color'])} | {'#222', '#fff', '#888', '#000', '#808080'}
    for name in ('tokens.css', 'explore.css', 'widgets.css', 'table.css', 'explore.js', 'acceptance.js', 'speedup.js', 'rounds.js'):
        assert {o.lower() for o in re.findall('#[0-9a-fA-F]{3,6}\\b', asset(name))} <= named, name
    page = show(html_strip(json.loads(asset('rounds.json'))[2]['rounds']))
    painted = {k: page.locator(f'.sd-legend .sd-{k}').evaluate('n => getComputedStyle(n).borderTopColor') for k in ('kept', 'rejected', 'correction', 'bonus', 'untested')}
    def rgb(colour): return f'rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:], 16)})'
    assert painted == {k: rgb(o) for k, o in dict(kept=KEPT, rejected=REJECTED, correction=CORRECTION, bonus=TARGET, untested=GREY).items()}

def test_running_text_and_tables(show):
    "Text as it reads, with underlines of the palette; a wide table scrolls by itself"
    rounds = [Round(tensor([*b'ab']), 2, 2, tensor([*b'ab<'])), Round(tensor([*b'xy']), 2, 0, tensor([*b'i']))]
    wide = html_table([f'a heading {i}' for i in range(12)], [[i/7 for i in range(12)]], EVIL)
    page = show(html_text(rounds, lambda ids: bytes(ids).decode(), EVIL) + wide)
    assert page.locator('.sd-text').evaluate('n => n.textContent') == EVIL + 'ab<i'
    under = page.locator('.sd-text .sd-correction').evaluate('n => getComputedStyle(n).borderBottomColor')
    assert under == f'rgb({int(CORRECTION[1:3], 16)}, {int(CORRECTION[3:5], 16)}, {int(CORRECTION[5:], 16)})'
    assert page.locator('caption').inner_text() == EVIL and page.evaluate('window.hacked === undefined')
    assert page.locator('td').first.evaluate("n => getComputedStyle(n).textAlign") == 'right'

@pytest.mark.parametrize('call,said', [
    (lambda: acceptance_explorer([1., 2.], [1.]), 'give finite numbers'), (lambda: acceptance_explorer([1., float('nan')], [1., 2.]), 'give finite numbers'),
    (lambda: acceptance_explorer([1.], [1.]), '2 logits or more, and a temperature from 0.1'), (lambda: acceptance_explorer([1., 2.], [1., 2.], temperature=0), '2 logits or more'),
    (lambda: speedup_explorer(gamma=30), 'gamma=30: it must be a whole number in 0..20'), (lambda: speedup_explorer(gamma=2.5), 'gamma=2.5'),
    (lambda: speedup_explorer(c=-1.), 'costs are finite'), (lambda: speedup_explorer(measured={2: float('nan')}), 'NaN or infinity among the numbers'),
    (lambda: round_player([]), 'nothing to play'), (lambda: round_player([dict(name='', prompt='', rounds=[])]), 'nothing to play'),
    (lambda: round_player(seconds=0), 'above 0'), (lambda: round_player(seconds=float('nan')), 'above 0'),
    (lambda: html_table(['a', 'b'], [[1]]), 'row 0 has 1 cells under 2 headings')])
def test_bad_input_is_named(call, said):
    with pytest.raises(ValueError, match=said): call()
