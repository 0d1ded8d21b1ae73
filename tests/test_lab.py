"The widgets in JupyterLab, driven in a browser: what they show is what the library says."
import json, os, re, shutil, signal, socket, subprocess, sys, time, urllib.request
from contextlib import contextmanager
from pathlib import Path
import pytest, torch
from specdec import autoregressive, generate, load_pair
from specdec.rounds import pooled
from specdec.distributions import overlap, probs
from specdec.theory import expected_tokens, speedup
from specdec.laps import PROMPT
from specdec.widgets import STEPS, film
from specdec.zoo import held_out_prompts

pytestmark = pytest.mark.slow
sync = pytest.importorskip('playwright.sync_api', reason='playwright is not installed')
pytest.importorskip('jupyterlab', reason='jupyterlab is not installed')
SETTINGS = {'apputils-extension/notification': dict(fetchNews='false', checkForUpdates=False),          # nothing pops up over the page
            'notebook-extension/tracker': dict(windowingMode='none')}                                     # every cell is in the page
COUNTED = '''import ipywidgets as W
from specdec.parts import number
seen = dict(drawn=0, runs=0, late=0)
labels = {k: W.HTML(number(k, 0, 0)) for k in seen}
def saw(name): seen[name] += 1; labels[name].value = number(name, seen[name], 0)
counted = AcceptanceExplorer()
plain_draw = counted.view.draw
def counted_draw(): saw('drawn'); return plain_draw()
counted.view.draw, counted.view.quiet = counted_draw, 1.              # a slow machine is quick enough for this
display(labels['drawn'], counted)'''
SPEEDUP = '''from specdec.laps import SpeedupExplorer
SpeedupExplorer()'''
QUICK = 'SpeedupExplorer(gammas=(1, 4), max_new_tokens=16, runs=1)'
RACE = '''from specdec.race import Race
Race()'''
WATCHED = '''from specdec.parts import Job
watched = Race()
def watched_run(job): saw('runs'); return watched.run(job)
def watched_check():
    if watched.job.halt.is_set(): saw('late')
    return Job.check(watched.job)
watched.job.work, watched.job.check = watched_run, watched_check
display(labels['runs'], labels['late'], watched)'''

def free_port():
    with socket.socket() as s: s.bind(('127.0.0.1', 0)); return s.getsockname()[1]

@contextmanager
def jupyterlab(root, private, wait=60):
    "Serve `root` on a free port, with all settings in the folder `private`; it ends with its kernels"
    for name, settings in SETTINGS.items():
        f = private/f'settings/@jupyterlab/{name}.jupyterlab-settings'
        f.parent.mkdir(parents=True, exist_ok=True); f.write_text(json.dumps(settings))
    places = dict(IPYTHONDIR='ipython', JUPYTER_CONFIG_DIR='config', JUPYTER_DATA_DIR='data', JUPYTER_RUNTIME_DIR='run', JUPYTERLAB_SETTINGS_DIR='settings', JUPYTERLAB_WORKSPACES_DIR='workspaces')
    env = {**os.environ, **{k: str(private/v) for k, v in places.items()}, 'PATH': f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'}
    port = free_port()
    cmd = [sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', '--expose-app-in-browser', '--ip=127.0.0.1', f'--port={port}',
           '--ServerApp.port_retries=0', f'--ServerApp.root_dir={root}', '--IdentityProvider.token=', '--LabApp.news_url=None']
    with open(private/'log', 'w+') as log:
        p = subprocess.Popen(cmd, env=env, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        url, end = f'http://127.0.0.1:{port}', time.time() + wait
        try:
            while True:
                if p.poll() is not None or time.time() > end: raise RuntimeError((private/'log').read_text()[-3000:])
                try: urllib.request.urlopen(f'{url}/api/status', timeout=1).close(); break
                except OSError: time.sleep(.2)
            yield url
        finally:
            if p.poll() is None: os.killpg(p.pid, signal.SIGTERM)
            try: p.wait(20)
            except subprocess.TimeoutExpired: os.killpg(p.pid, signal.SIGKILL); p.wait()

@pytest.fixture(scope='module')
def lab(root, browser, tmp_path_factory):
    "JupyterLab on copies of two notebooks; one has cells more: other widgets, and such as count or measure less"
    place, private = tmp_path_factory.mktemp('lab'), tmp_path_factory.mktemp('private')
    nb = json.loads((root/'nbs/48_widgets.ipynb').read_text(encoding='utf-8'))
    nb['cells'] += [dict(cell_type='code', id=id, metadata={}, outputs=[], execution_count=None, source=source) for id, source in dict(counted=COUNTED, speedup=SPEEDUP, quick=QUICK, race=RACE, watched=WATCHED).items()]
    (place/'widgets.ipynb').write_text(json.dumps(nb), encoding='utf-8')
    shutil.copy(root/'nbs/tutorials/start_here.ipynb', place)
    with jupyterlab(place, private) as url: yield url

def open_notebook(page, url, name):
    "Open it and wait until its kernel answers: Run All before that is dropped in silence"
    page.goto(f'{url}/lab/tree/{name}?reset')
    nb = page.locator('.jp-NotebookPanel:not(.lm-mod-hidden)')
    nb.locator('.jp-Notebook-cell').first.wait_for()
    page.evaluate('''async () => { const c = window.jupyterapp.shell.currentWidget.context;
        await c.ready; await c.sessionContext.ready; await c.sessionContext.session.kernel.info }''')
    return nb

def run_all(page, timeout=240_000):
    "Run All from the menu, as a reader does; an error in an output is a failure"
    page.get_by_role('menuitem', name='Run', exact=True).click()
    page.locator('.lm-Menu [data-command="runmenu:run-all"]').click()
    faults = page.wait_for_function('''() => { const w = window.jupyterapp.shell.currentWidget
        const cells = w.content.model.toJSON().cells.filter(c => c.cell_type == 'code' && [].concat(c.source).join('').trim())
        const faults = cells.flatMap(c => c.outputs.filter(o => o.output_type == 'error').map(o => o.ename + ': ' + o.evalue))
        if (faults.length) return faults
        return cells.every(c => c.execution_count) && w.sessionContext.session.kernel.status == 'idle' && [] }''', timeout=timeout).json_value()
    assert not faults, faults

def new_page(browser, faults):
    page = browser.new_page(viewport={'width': 1280, 'height': 1000})
    page.set_default_timeout(60_000); sync.expect.set_options(timeout=60_000)
    page.on('pageerror', lambda e: faults.append(str(e)))
    return page

@pytest.fixture(scope='module')
def page(lab, browser):
    "The widgets' chapter, run from top to bottom; at the end the page has complained about nothing"
    faults = []
    page = new_page(browser, faults)
    open_notebook(page, lab, 'widgets.ipynb')
    run_all(page)
    yield page
    page.close()
    assert not faults, faults

@pytest.fixture(scope='module')
def shots(tmp_path_factory):
    "Where pictures go: the folder that SCREENSHOTS names, else pytest's own"
    folder = Path(os.environ.get('SCREENSHOTS') or tmp_path_factory.mktemp('shots'))
    folder.mkdir(parents=True, exist_ok=True)
    return folder

@pytest.fixture(scope='module')
def pair(): return load_pair(device='cpu')

def cell(page, id):
    "The output of a cell of the notebook"
    at = page.evaluate('id => window.jupyterapp.shell.currentWidget.content.model.toJSON().cells.findIndex(c => c.id == id)', id)
    return page.locator('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook-cell').nth(at).locator('.jp-Cell-outputArea')

def slider(out, label): return out.locator('.widget-slider', has_text=label)
def readout(out, label): return float(slider(out, label).locator('.widget-readout').inner_text())
def press(out, label, key, times=1):
    handle = slider(out, label).locator('.noUi-handle')
    handle.focus()
    for _ in range(times): handle.press(key)
def button(out, name): return out.get_by_role('button', name=name, exact=True)
def number(out, name): return out.locator(f'[data-name="{name}"]')
def shows(out, name, x, digits=3): sync.expect(number(out, name)).to_have_text(f'{x:.{digits}f}')

def test_ten_quick_moves_lead_to_one_update(page):
    out = cell(page, 'counted')
    press(out, 'temperature', 'ArrowRight', 10)
    p, q = (probs(torch.tensor(z, dtype=torch.float64), 2.) for z in ([2., 1.2, .5, 0., -1.], [1.2, 1.6, .2, .6, -.5]))
    assert readout(out, 'temperature') == 2
    shows(out, 'alpha', overlap(p, q))
    page.wait_for_timeout(1500)
    shows(out, 'drawn', 1, 0)
    press(out, 'temperature', 'ArrowLeft')
    shows(out, 'drawn', 2, 0)                                                            # it does count

def test_acceptance_explorer(page, pair):
    out = cell(page, 'acceptance')
    button(out, 'a real text').click()
    press(out, 'temperature', 'ArrowLeft', 3)
    with torch.no_grad(): z = [m(torch.tensor([pair.tokenizer('for i in range(').input_ids])).logits[0, -1].double() for m in (pair.target, pair.draft)]
    shows(out, 'alpha', overlap(*(probs(o, .7) for o in z)))
    assert not out.get_by_label('target', exact=True).is_visible() and out.locator('img').evaluate('i => i.naturalWidth') == 600
    button(out, 'two vectors').click()
    out.get_by_label('target', exact=True).fill('0, 0')
    sync.expect(out.get_by_role('alert')).to_contain_text('give finite numbers')
    out.get_by_label('draft', exact=True).fill('1, -1')
    shows(out, 'tv', 1 - overlap(*(probs(torch.tensor(o), .7) for o in ([0., 0.], [1., -1.]))))
    assert out.get_by_role('alert').count() == 0

def test_round_player(page, pair):
    out, settings = cell(page, 'player'), dict(seed=8, temperature=.7, max_new_tokens=48)
    rounds = list(film(pair, 'Return the number of', gamma=4, **settings))
    def stands(at, of=rounds): sync.expect(out.get_by_text(f'round {at//5 + 1} of {len(of)}, {STEPS[at % 5]}')).to_be_visible()
    def line(name): return [float(o) for o in out.locator(f'tr[data-row="{name}"] td').all_inner_texts()]
    sync.expect(out.get_by_text(f'48 tokens in {len(rounds)} rounds')).to_be_visible()
    stands(0)
    for at in range(1, 4): button(out, 'forward ▶').click(); stands(at)
    r = rounds[0]
    for name, values in {'q': r['q'], 'p': r['p'], 'coin u': r['u']}.items(): assert line(name) == pytest.approx(values, abs=6e-4)
    assert [out.locator(f'td .sd-{k}').count() for k in ('kept', 'rejected')] == [r['n'], r['tested'] - r['n']]
    button(out, '◀ back').click(); stands(2)
    play = out.locator('.widget-play button').first
    play.click(); stands(4)                                                              # two seconds later
    play.click(); page.wait_for_timeout(500)
    at = readout(out, 'step'); page.wait_for_timeout(1500)
    assert readout(out, 'step') == at >= 4                                               # paused
    press(out, 'step', 'End'); stands(5*len(rounds) - 1)
    shows(out, 'tau', 48/len(rounds), 2)
    said = 'Return the number of' + ''.join(''.join(o['x'][:o['n']]) + o['y'] for o in rounds)
    assert out.locator('.sd-tail').evaluate('n => n.textContent') == said
    press(out, 'draft length', 'Home'); button(out, 'Decode').click()                    # other rounds, and more of them
    short = list(film(pair, 'Return the number of', gamma=1, **settings))
    sync.expect(out.get_by_text(f'48 tokens in {len(short)} rounds')).to_be_visible()
    assert len(short) > len(rounds)
    stands(0, short); press(out, 'step', 'End'); stands(5*len(short) - 1, short)

def test_speedup_explorer(page):
    out = cell(page, 'speedup')
    press(out, 'acceptance', 'ArrowLeft', 5); press(out, 'draft length', 'ArrowRight', 2); press(out, 'verify', 'ArrowRight')
    for name, f in dict(tau=expected_tokens(.75, 6), speedup=speedup(.75, 6, .1, 1.05)).items(): shows(out, name, f)

def test_speedup_explorer_measures(page, pair):
    "A short measurement: what is not a time is what the library says"
    out = cell(page, 'quick')
    button(out, 'Measure').dblclick()
    told = out.get_by_role('status')
    sync.expect(told).to_contain_text('best measured γ = ')
    texts = [t for v in ('docs', 'code') for t in held_out_prompts(1)[v]]
    alpha = pooled(generate(pair.target, pair.draft, t, 16, g, tokenizer=pair.tokenizer) for t in texts for g in (1, 4)).alpha_hat
    assert f'α̂ {alpha:.2f}' in told.inner_text()
    shows(out, 'tau', expected_tokens(round(alpha, 2), 4))                               # the sliders jumped to what was found, in their own steps
    said = out.locator('img').first.get_attribute('alt')
    assert f'α = {alpha:.2f}: best draft length' in said and button(out, 'Measure').is_enabled()
    c, v = (readout(out, k) for k in ('draft pass', 'verify'))
    assert c > 0 and float(number(out, 'speedup').inner_text()) == pytest.approx(speedup(alpha, 4, c, v), rel=.05)      # the readouts have two digits

def raced(out):
    "Name -> tokens a second"
    return {n.get_attribute('data-name'): float(n.inner_text()) for n in out.locator('.sd-lane [data-name]').all()}

def test_race(page, pair):
    out = cell(page, 'watched')
    for name in ('mps', 'cuda'): assert button(out, f'{name}: none here').is_disabled() or torch.cuda.is_available() or torch.backends.mps.is_available()
    run = button(out, 'Run')
    run.dblclick()                                                                       # two clicks, one run
    sync.expect(out.get_by_role('status')).to_contain_text('identical: yes')
    shows(out, 'runs', 1, 0)
    assert [*raced(out)] == ['target alone', 'speculative', "transformers' assisted"] and min(raced(out).values()) > 0
    sync.expect(out.locator('.sd-lane')).to_have_count(3)
    plain = autoregressive(pair.target, PROMPT, 64, tokenizer=pair.tokenizer)
    assert out.locator('.sd-tail').evaluate_all('all => all.map(n => n.textContent)') == [plain.text]*3
    widths = [float(re.search(r' ([\d.]+)%', o.get_attribute('style'))[1]) for o in out.locator('.sd-lane i').all()]
    rates = [*raced(out).values()]
    assert widths == pytest.approx([100*r/max(rates) for r in rates], abs=1.5)           # the bars are the numbers
    assert out.locator('img').count() == 1 and run.is_enabled()

def test_race_stops(page):
    "While it is timed: within a round, and nothing half measured is shown. While it is shown: at its end"
    out = cell(page, 'watched')
    before = int(number(out, 'runs').inner_text())
    press(out, 'new tokens', 'End')
    assert readout(out, 'new tokens') == 256
    button(out, 'Run').click()
    sync.expect(out).to_contain_text('timing')
    shows(out, 'runs', before + 1, 0)                                                    # it does count
    button(out, 'Stop').click()
    sync.expect(out.get_by_role('status')).to_have_text('stopped')
    assert int(number(out, 'late').inner_text()) == 1                                    # the round that was under way was the last
    assert out.locator('.sd-lane').count() == 0 and button(out, 'Run').is_enabled()
    press(out, 'new tokens', 'Home')
    button(out, 'Run').click()
    sync.expect(out).to_contain_text('shown ')
    button(out, 'Stop').click()
    sync.expect(out.get_by_role('status')).to_contain_text('identical: yes')
    assert out.inner_text().count('8 of 8') == 3

def test_race_without_the_model(page):
    out = cell(page, 'race')
    out.get_by_label('target', exact=True).select_option('gpt2-large')
    out.get_by_label('draft', exact=True).select_option('distilgpt2')
    button(out, 'Run').click()
    sync.expect(out.get_by_role('alert')).to_contain_text('!specdec download --model gpt2-large')
    assert button(out, 'Run').is_enabled()

@pytest.mark.parametrize('width', [1280, 390])
@pytest.mark.parametrize('theme', ['JupyterLab Light', 'JupyterLab Dark'])
def test_looks(page, shots, theme, width):
    "A picture of each widget is kept; no part of it is cut off, on a phone either"
    page.set_viewport_size(dict(width=width, height=1000))
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.locator(f'body[data-jp-theme-light="{str(theme.endswith("Light")).lower()}"]').wait_for(state='attached')
    if width < 500:
        page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
        page.wait_for_function("() => document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden)').getBoundingClientRect().width < innerWidth")
        page.wait_for_timeout(500)
    for id in ('acceptance', 'player', 'speedup', 'watched'):
        out = cell(page, id)
        out.scroll_into_view_if_needed()
        cut = out.evaluate("""n => { const edge = n.getBoundingClientRect().right + 1
            return [...n.querySelectorAll('.sd-view, .sd-lane, img, input, button')].filter(o => o.getBoundingClientRect().right > edge).map(o => o.outerHTML.slice(0, 80)) }""")
        assert not cut, f'{id} is too wide: {cut}'
        out.screenshot(path=shots/f'{id}-{theme.split()[1].lower()}-{width}.png')

def test_start_here(lab, browser):
    faults = []
    page = new_page(browser, faults)
    open_notebook(page, lab, 'start_here.ipynb')
    run_all(page)
    assert page.locator('.jp-OutputArea-output').count() > 5 and not faults
    page.close()
