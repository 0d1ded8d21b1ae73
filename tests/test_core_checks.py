"What `versions/core_checks.py` checks in every environment, in this one; and the runner that makes the environments."
import importlib.util, re, sys
from pathlib import Path
import pytest

def load(name):
    "A script of `versions/` as a module"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent/'versions'/f'{name}.py')
    module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)
    return module

core_checks, runner = load('core_checks'), load('run')

@pytest.mark.parametrize('name', core_checks.CHECKS)
def test_core(name): core_checks.CHECKS[name]()

def test_only_a_silent_index_counts_as_no_network(tmp_path):
    def fetch(*args): return runner.pip(sys.executable, 'download', '--no-deps', '-d', tmp_path, *args, 'specdec-no-such-thing==1')
    assert fetch('--index-url', 'http://127.0.0.1:9/simple') == runner.NO_NETWORK
    assert fetch('--no-index').startswith('ERROR: ')

def test_the_lowest_versions_are_pinned():
    "But for torch and transformers, which have an axis of their own"
    assert runner.oldest('torch>=2.6 transformers>=5.0 pydantic>=2.0 safetensors>=0.4.3') == ['pydantic==2.0.*', 'safetensors==0.4.3.*']
    assert len(runner.oldest(runner.settings())) > 8 and all(re.fullmatch(r'[\w-]+==[\d.]+\.\*', r) for r in runner.oldest(runner.settings()))

@pytest.mark.parametrize('outcomes, code', [(['9 ok', '9 ok'], 0), (['9 ok', 'FAIL: law'], 1), (['9 ok', runner.NO_NETWORK], 3), ([runner.NO_NETWORK, 'ERROR: no such version'], 1), (['no such Python here'], 1)], ids=str)
def test_the_exit_code_and_what_is_kept(tmp_path, monkeypatch, outcomes, code):
    rows = [((f'3.{9 + i}.1', '2.6.0', '5.0.0'), o) for i, o in enumerate(outcomes)]
    monkeypatch.setattr(runner, 'outcomes', lambda *args: iter(rows))
    monkeypatch.setattr(sys, 'argv', ['run.py', '--record', str(tmp_path/'r.csv')])
    for _ in range(2): assert runner.main() == code                       # a second run replaces the rows of the first
    kept = (tmp_path/'r.csv').read_text().splitlines()
    assert kept == ['python,torch,transformers,outcome'] + [','.join([*v, o]) for v, o in rows if o[:4] in ('9 ok', 'FAIL')]
