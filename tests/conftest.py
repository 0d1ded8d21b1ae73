import os, shutil, sys
from pathlib import Path
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT/'tools'))
# no test of this folder needs the network; a fixture that installs says so
os.environ.setdefault('HF_HUB_OFFLINE', '1')

def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: builds a wheel or the docs site; run by .ci/run, not by make test')

def pytest_collection_modifyitems(items):
    "With `-n 2 --dist loadfile` a file stays in one process; both must know a test by the same name"
    for item in items:
        if ' at 0x' in item.nodeid:
            raise pytest.UsageError(f'{item.nodeid}: an address in the name of a test is another in each process: give '
                                    f'it ids')

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
