"The widgets in JupyterLab, driven in a browser: what they show is what the library says."
import json, os, re, shutil, signal, socket, subprocess, sys, time, urllib.request
from contextlib import contextmanager
from pathlib import Path
import pytest, torch
from specdec import autoregressive, load_pair
from specdec.distributions import overlap, probs

pytestmark = pytest.mark.slow
sync = pytest.importorskip('playwright.sync_api', reason='playwright is not installed')
pytest.importorskip('jupyterlab', reason='jupyterlab is not installed')
BROWSERS = 'chromium chromium-browser google-chrome chrome'.split()
SETTINGS = {'apputils-extension/notification': dict(fetchNews='false', checkForUpdates=False),          # nothing pops up over the page
            'notebook-extension/tracker': dict(windowingMode='none')}                                     # every cell is in the page
COUNTED = '''counted, calls = AcceptanceExplorer(), W.Label('0')
draw = counted.view.draw
def count(): calls.value = str(int(calls.value) + 1); return draw()
counted.view.draw = count
display(calls, counted)'''

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
def browser():
    exe = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not exe: pytest.skip('no Chromium on this machine')
    with sync.sync_playwright() as pw:
        b = pw.chromium.launch(executable_path=exe, args=['--no-sandbox', '--disable-dev-shm-usage'])
        yield b
        b.close()

@pytest.fixture(scope='module')
def lab(root, browser, tmp_path_factory):
    "JupyterLab on copies of two notebooks; one has a cell more, which counts"
    place, private = tmp_path_factory.mktemp('lab'), tmp_path_factory.mktemp('private')
    nb = json.loads((root/'nbs/14_widgets.ipynb').read_text(encoding='utf-8'))
    nb['cells'].append(dict(cell_type='code', id='counted', metadata={}, outputs=[], execution_count=None, source=COUNTED))
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

def run_all(page, timeout=120_000):
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
    page.set_default_timeout(30_000); sync.expect.set_options(timeout=30_000)
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
    page.wait_for_timeout(500)
    assert out.locator('.widget-label:not([title])', has_text=re.compile(r'^\d+$')).first.inner_text() == '1'
    press(out, 'temperature', 'ArrowLeft')
    sync.expect(out.locator('.widget-label', has_text=re.compile(r'^2$'))).to_be_visible()      # it does count

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

def raced(out):
    "Name -> tokens a second"
    return {n.get_attribute('data-name'): float(n.inner_text()) for n in out.locator('.sd-lane [data-name]').all()}

def test_race(page, pair):
    out = cell(page, 'race')
    for name in ('mps', 'cuda'): assert button(out, f'{name}: none here').is_disabled() or torch.cuda.is_available() or torch.backends.mps.is_available()
    run = button(out, 'Run')
    run.dblclick()                                                                       # two clicks, one run
    sync.expect(out.get_by_role('status')).to_contain_text('identical: yes')
    assert [*raced(out)] == ['target alone', 'speculative', "transformers' assisted"] and min(raced(out).values()) > 0
    sync.expect(out.locator('.sd-lane')).to_have_count(3)
    plain = autoregressive(pair.target, 'Return the number of', 64, tokenizer=pair.tokenizer)
    assert out.locator('.sd-tail').evaluate_all('all => all.map(n => n.textContent)') == [plain.text]*3
    widths = [float(re.search(r' ([\d.]+)%', o.get_attribute('style'))[1]) for o in out.locator('.sd-lane i').all()]
    rates = [*raced(out).values()]
    assert widths == pytest.approx([100*r/max(rates) for r in rates], abs=1.5)           # the bars are the numbers
    assert out.locator('.sd-lane').count() == 3 and out.locator('img').count() == 1 and run.is_enabled()

def test_race_stops(page):
    out = cell(page, 'race')
    press(out, 'new tokens', 'End')
    assert readout(out, 'new tokens') == 256
    button(out, 'Run').click()
    sync.expect(out.locator('.sd-lane')).to_have_count(1)
    button(out, 'Stop').click()
    sync.expect(out.get_by_role('status')).to_have_text('stopped')
    done = [int(o) for o in re.findall(r'(\d+) of 256', out.inner_text())]
    assert 0 < done[-1] < 256
    page.wait_for_timeout(500)
    assert [int(o) for o in re.findall(r'(\d+) of 256', out.inner_text())] == done and button(out, 'Run').is_enabled()

def test_race_without_the_model(page):
    out = cell(page, 'race')
    out.get_by_label('target', exact=True).select_option('gpt2-large')
    out.get_by_label('draft', exact=True).select_option('distilgpt2')
    button(out, 'Run').click()
    sync.expect(out.get_by_role('alert')).to_contain_text('!specdec download --model gpt2-large')
    assert button(out, 'Run').is_enabled()

@pytest.mark.parametrize('theme', ['JupyterLab Light', 'JupyterLab Dark'])
def test_looks(page, shots, theme):
    "A picture of each widget is kept; nothing is wider than the page"
    page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
    page.locator(f'body[data-jp-theme-light="{str(theme.endswith("Light")).lower()}"]').wait_for(state='attached')
    for id in ('acceptance', 'player', 'speedup', 'race'):
        out = cell(page, id)
        out.scroll_into_view_if_needed()
        assert out.evaluate('n => n.scrollWidth - n.clientWidth') <= 1, f'{id} is too wide'
        out.screenshot(path=shots/f'{id}-{theme.split()[1].lower()}.png')

def test_start_here(lab, browser):
    faults = []
    page = new_page(browser, faults)
    open_notebook(page, lab, 'start_here.ipynb')
    run_all(page)
    assert page.locator('.jp-OutputArea-output').count() > 5 and not faults
    page.close()
