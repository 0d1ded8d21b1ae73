"The wheel holds the whole package and nothing else."
import re, shutil, subprocess, sys, zipfile
import pytest

pytestmark = pytest.mark.slow

@pytest.fixture(scope='module')
def wheel(root, tmp_path_factory):
    "Built from a copy, so that no build folder stays behind"
    src, out = tmp_path_factory.mktemp('src'), tmp_path_factory.mktemp('dist')
    shutil.copytree(root/'specdec', src/'specdec', ignore=shutil.ignore_patterns('__pycache__'))
    for n in 'settings.ini setup.py MANIFEST.in README.md LICENSE CHANGELOG.md constraints.txt'.split(): shutil.copy(root/n, src)
    subprocess.run([sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps', '-w', out, src], check=True)
    return zipfile.ZipFile(next(out.glob('*.whl')))

def metadata(wheel): return wheel.read(next(n for n in wheel.namelist() if n.endswith('.dist-info/METADATA'))).decode()

def test_every_file_of_the_package_is_in(root, wheel):
    want = {p.relative_to(root).as_posix() for p in (root/'specdec').rglob('*') if p.is_file() and '__pycache__' not in p.parts}
    assert {n for n in wheel.namelist() if '.dist-info/' not in n} == want

def test_trained_pair_is_in(wheel):
    for model in ('target', 'draft'):
        names = [n for n in wheel.namelist() if n.startswith(f'specdec/data/tiny/{model}/')]
        assert any(n.endswith('config.json') for n in names) and any(n.endswith('.safetensors') for n in names), model
    size = sum(i.file_size for i in wheel.infolist() if i.filename.startswith('specdec/data/'))
    assert size <= 15e6, f'{size/1e6:.1f} MB'

def test_metadata(wheel):
    m = metadata(wheel)
    assert re.search(r'^Name: specdec-lab$', m, re.M) and re.search(r'^Requires-Python: >=3\.10$', m, re.M)
    plain = [l for l in re.findall(r'^Requires-Dist: (.*)', m, re.M) if 'extra ==' not in l]
    assert {re.match(r'[\w-]+', l)[0].lower() for l in plain} >= {'torch', 'transformers', 'safetensors', 'typer', 'rich'}
    assert not any('fastcore' in l or 'nbdev' in l for l in plain)
    entry = wheel.read(next(n for n in wheel.namelist() if n.endswith('entry_points.txt'))).decode()
    assert 'specdec = specdec.cli:main' in entry.replace('=', ' = ').replace('  ', ' ')
    assert any(n.endswith('LICENSE') for n in wheel.namelist())
