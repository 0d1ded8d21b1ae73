"The command line as a user meets it: another process, its exit code, what it prints."
import json, math, re
import pytest
from command import inside, process as run

def ok(r): assert r.returncode == 0, r.stderr; return r

@pytest.mark.parametrize('args', [['--help'], ['demo', '--help']])
def test_help(args):
    r = ok(run(*args))
    assert 'demo' in r.stdout and '\x1b' not in r.stdout
    if args[0] == 'demo':
        for o in 'prompt gamma tokens temperature seed device dtype runs json'.split(): assert f'--{o}' in r.stdout, o

BAD = [
    (['nosuch'], 'nosuch'), (['demo', '--dtype', 'float7'], 'float7'), (['demo', '--nosuch'], 'nosuch'),
    (['demo', '--gamma', 'many'], 'gamma'),
    (['demo', '--gamma', 0], 'gamma'), (['demo', '--tokens', -1], 'tokens'),
    (['demo', '--temperature', -1], 'temperature'),
    (['demo', '--temperature', 'nan'], 'temperature'), (['demo', '--runs', 0], 'runs'),
    (['demo', '--device', 'abacus'], 'abacus'),
    (['demo', '--prompt', ''], 'prompt')]

def one_clear_line(code, out, err, names):
    lines = [l for l in err.splitlines() if l.strip()]
    assert code == 2 and len(lines) == 1 and names in lines[0] and 'Traceback' not in out, (code, err[-500:])

@pytest.mark.parametrize('args, names', BAD, ids=lambda v: ' '.join(map(str, v)) if isinstance(v, list) else '')
def test_bad_usage_is_one_clear_line(args, names, capsys): one_clear_line(*inside(capsys, *args), names)

@pytest.mark.parametrize('args, names', BAD[:2], ids=['the parser', 'the models'])
def test_bad_usage_in_a_process(args, names):
    "As the two that notice it say it to a shell"
    r = run(*args)
    one_clear_line(r.returncode, r.stdout, r.stderr, names)

def test_json_that_cannot_be_written(tmp_path, capsys):
    "Said before the work, in one line; nothing half-written"
    code, out, err = inside(capsys, 'demo', '--tokens', 4, '--runs', 1, '--json',
                            tmp_path/'no'/'such'/'folder'/'x.json')
    one_clear_line(code, out, err, 'x.json')
    assert not list(tmp_path.iterdir())

@pytest.fixture(scope='module')
def demo(tmp_path_factory):
    d = tmp_path_factory.mktemp('demo')
    r = ok(run('demo', '--prompt', 'def ', '--tokens', 16, '--runs', 1, '--gamma', 3, '--seed', 0, '--json',
               d/'demo.json', cwd=d))
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
    assert {'torch', 'transformers'} <= {k.lower() for k in d['environment']} | {k.lower()
                                                                                 for k in d['environment'].get('versions', {})}

def test_demo_seed_decides(capsys):
    "Sampled: the same seed gives the same text after the prompt, and another seed another"
    def text(seed):
        code, out, err = inside(capsys, 'demo', '--prompt', 'def ', '--tokens', 12, '--runs', 1, '--gamma', 2,
                                '--temperature', .8, '--seed', seed)
        assert code == 0, err
        return out[out.index('def '):out.index('12 new tokens')]
    assert text(5) == text(5) != text(6)
