import os, shutil, sys
from pathlib import Path
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT/'tools'))
# no test of this folder needs the network; a fixture that installs says so
os.environ.setdefault('HF_HUB_OFFLINE', '1')

def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: builds a wheel or the docs site; run by .ci/run, not by make test')
    config.addinivalue_line('markers', 'xdist_group(name): stays in one process with the others of that name')

def shares(item):
    "Does a test use what is made once for its module: a site, a server, a browser, a model?"
    return any(f.scope == 'module' for defs in item._fixtureinfo.name2fixturedefs.values() for f in defs)

@pytest.hookimpl(tryfirst=True)             # before xdist reads the marks
def pytest_collection_modifyitems(items):
    "With `-n 2 --dist loadfile`: what is made once for a module is made in one process"
    for item in items:
        if ' at 0x' in item.nodeid:
            raise pytest.UsageError(f'{item.nodeid}: an address in the name of a test is another in each process: give '
                                    f'it ids')
        if shares(item): item.add_marker(pytest.mark.xdist_group(item.path.stem))

@pytest.fixture(scope='session')
def root(): return ROOT

@pytest.fixture(scope='module')
def browser():
    "Chromium, where there is one; a module has its own, since an open one does not go with other event loops"
    sync = pytest.importorskip('playwright.sync_api', reason='playwright is not installed')
    exe = next(filter(None, map(shutil.which, 'chromium chromium-browser google-chrome chrome'.split())), None)
    if not exe: pytest.skip('no Chromium on this machine')
    with sync.sync_playwright() as pw:
        b = pw.chromium.launch(executable_path=exe, args=['--no-sandbox', '--disable-dev-shm-usage'])
        yield b
        b.close()

@pytest.fixture(scope='session')
def notebooks():
    return sorted(p for p in (ROOT/'nbs').rglob('*.ipynb') if not any(s[0] in '._' for s in p.relative_to(ROOT).parts))
