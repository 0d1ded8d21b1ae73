"The command line as a user meets it: another process, its exit code, what it prints."
import json, math, os, re, subprocess, sys
from pathlib import Path
import pytest

EXE = Path(sys.executable).with_name('specdec')

def run(*args, cwd=None, **env):
    return subprocess.run([EXE, *map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=300, env={**os.environ, 'COLUMNS': '100', **env})

def ok(r): assert r.returncode == 0, r.stderr; return r

@pytest.mark.parametrize('args', [['--help'], ['demo', '--help']])
def test_help(args):
    r = ok(run(*args))
    assert 'demo' in r.stdout and '\x1b' not in r.stdout
    if args[0] == 'demo':
        for o in 'prompt gamma tokens temperature seed device dtype runs json'.split(): assert f'--{o}' in r.stdout, o

@pytest.mark.parametrize('args, names', [
    (['nosuch'], 'nosuch'), (['demo', '--nosuch'], 'nosuch'), (['demo', '--gamma', 'many'], 'gamma'), (['demo', '--gamma', 0], 'gamma'),
    (['demo', '--tokens', -1], 'tokens'), (['demo', '--temperature', -1], 'temperature'), (['demo', '--temperature', 'nan'], 'temperature'),
    (['demo', '--runs', 0], 'runs'), (['demo', '--device', 'abacus'], 'abacus'), (['demo', '--dtype', 'float7'], 'float7'), (['demo', '--prompt', ''], 'prompt')],
    ids=lambda v: ' '.join(map(str, v)) if isinstance(v, list) else '')
def test_bad_usage_is_one_clear_line(args, names):
    r = run(*args)
    assert r.returncode == 2, (r.returncode, r.stderr[-500:])
    lines = [l for l in r.stderr.splitlines() if l.strip()]
    assert len(lines) == 1 and names in lines[0], r.stderr
    assert 'Traceback' not in r.stdout + r.stderr

def test_json_that_cannot_be_written(tmp_path):
    "Said before the work, in one line; nothing half-written"
    r = run('demo', '--tokens', 4, '--runs', 1, '--json', tmp_path/'no'/'such'/'folder'/'x.json')
    assert r.returncode in (1, 2) and 'Traceback' not in r.stderr
    assert 'x.json' in r.stderr.replace('\n', '')
    assert not list(tmp_path.iterdir())

@pytest.fixture(scope='module')
def demo(tmp_path_factory):
    d = tmp_path_factory.mktemp('demo')
    r = ok(run('demo', '--tokens', 16, '--runs', 1, '--gamma', 3, '--seed', 0, '--json', d/'demo.json', cwd=d))
    return r, json.loads((d/'demo.json').read_text())

def test_demo_prints_text_and_table(demo):
    r, _ = demo
    assert '\x1b' not in r.stdout, 'colour codes although stdout is no terminal'
    assert re.search(r'identical[^\n]*yes', r.stdout)
    for word in ('alpha_hat', 'kept_frac', 'tau', 'tok'): assert word in r.stdout, word

def test_demo_json(demo):
    _, d = demo
    assert d['identical'] is True
    assert set(d['tokens_per_second']) >= {'baseline', 'speculative', 'hf_baseline', 'hf_assisted'}
    numbers = {k: d[k] for k in 'speedup speedup_vs_hf_assisted alpha_hat kept_frac tau c v predicted_speedup'.split()} | d['tokens_per_second']
    assert all(isinstance(v, (int, float)) and math.isfinite(v) and v >= 0 for v in numbers.values()), numbers
    tps = d['tokens_per_second']
    assert d['speedup'] == pytest.approx(tps['speculative']/tps['baseline'], rel=.1)
    assert d['speedup_vs_hf_assisted'] == pytest.approx(tps['speculative']/tps['hf_assisted'], rel=.1)
    assert 0 <= d['kept_frac'] <= d['alpha_hat'] <= 1 <= d['tau'] <= 4
    assert {'torch', 'transformers'} <= {k.lower() for k in d['environment']} | {k.lower() for k in d['environment'].get('versions', {})}

def test_demo_seed_decides(tmp_path):
    "Sampled: the same seed gives the same text, twice"
    def text(): return [l for l in ok(run('demo', '--tokens', 12, '--runs', 1, '--gamma', 2, '--temperature', .8, '--seed', 5, '--json', tmp_path/'d.json')).stdout.splitlines() if l.strip()][:3]
    assert text() == text()
