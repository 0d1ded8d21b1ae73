"The benchmark's file of settings, field by field, the examples in configs/, and a run that is killed."
import json, subprocess, sys, time
from pathlib import Path
import pytest, yaml
from specdec.bench import by_category, read_results, run_bench
from specdec.files import read_prompts
from specdec.settings import BenchConfig, load_config
from specdec.learning import STRATEGIES

ROOT = Path(__file__).resolve().parents[1]
BASE = dict(method='baseline', target_model='tiny', prompt='def ')
FAST = BASE | dict(method='speculative', draft_model='tiny', gamma=4, sampling='speculative')
AIMD, ENTROPY, JSD = (dict(strategy=o, gamma_min=1, gamma_max=8) for o in ('aimd', 'entropy', 'jsd'))

@pytest.fixture
def load(tmp_path):
    "Settings by way of a file, as a user gives them; a value of None takes the field out"
    def load(base, **change):
        path = tmp_path/'bench.yaml'
        path.write_text(yaml.safe_dump({k: v for k, v in (base | change).items() if v is not None}), encoding='utf-8')
        return load_config(path)
    return load

def name(o): return o['method'] if o in (BASE, FAST) else ' '.join(f'{k}={v}' for k, v in o.items()) or 'as it is' if isinstance(o, dict) else ''

DEFAULTS = dict(prompt=None, data=None, output='output.jsonl', max_new_tokens=32, device='cpu', dtype='bfloat16', seed=690, warmup_steps=10, draft_model=None, gamma=None, temperature=1.,
                sampling=None, adaptive=None, eos=None)

@pytest.mark.parametrize('field, default', DEFAULTS.items())
def test_default(field, default):
    assert BenchConfig.model_fields[field].default == default and type(BenchConfig.model_fields[field].default) is type(default)

def test_fields():
    "The table has these fields, and `runs` and `chat`, whose defaults change nothing"
    required = {k for k, o in BenchConfig.model_fields.items() if o.is_required()}
    assert required == {'method', 'target_model'} and set(BenchConfig.model_fields) == required | set(DEFAULTS) | {'runs', 'chat'}
    assert BenchConfig.model_fields['runs'].default == 1 and BenchConfig.model_fields['chat'].default == 'auto'

@pytest.mark.parametrize('base, change', [
    (BASE, {}), (FAST, {}), (BASE, dict(method='hf_baseline')), (FAST, dict(method='hf_assisted')), (FAST, dict(method='hf_assisted', gamma=None, sampling=None)),
    (BASE, dict(target_model='gpt2-large')), (BASE, dict(target_model='./models/mine')), (BASE, dict(prompt=None, data='prompts.jsonl')), (BASE, dict(output='a/b.jsonl')),
    (BASE, dict(max_new_tokens=1)), *[(BASE, dict(device=o)) for o in ('cpu', 'cuda', 'mps', 'auto')], *[(BASE, dict(dtype=o)) for o in ('float16', 'bfloat16', 'float32', 'auto')],
    (BASE, dict(seed=0)), (BASE, dict(seed=-3)), (BASE, dict(seed=7.0)), (BASE, dict(warmup_steps=0)), (BASE, dict(runs=3)),
    *[(FAST, dict(draft_model=o)) for o in ('distilgpt2', './models/mine', 'tiny', 'lookup', 'early_exit:4', 'int8', 'int4')], (FAST, dict(gamma=1)),
    (BASE, dict(temperature=0)), (BASE, dict(temperature=.7)), *[(FAST, dict(sampling=o)) for o in ('speculative', 'greedy', 'ada', 'block')],
    *[(FAST, dict(adaptive=dict(strategy=o, gamma_min=1, gamma_max=4))) for o in STRATEGIES],
    (FAST, dict(adaptive=AIMD | dict(step_size=2, decrease_factor=.25))), (FAST, dict(adaptive=ENTROPY | dict(low_entropy_threshold=1., high_entropy_threshold=2.5, smoothing_factor=.5, warmup_steps=0))),
    (FAST, dict(adaptive=JSD | dict(low_jsd_threshold=.2, high_jsd_threshold=.4, high_entropy_threshold=5., smoothing_factor=.5, warmup_steps=3)))], ids=name)
def test_valid(load, base, change):
    want = base | change
    got = load(base, **change).model_dump()
    assert {k: got[k] for k in want if k != 'adaptive'} == {k: v for k, v in want.items() if k != 'adaptive'}
    assert (change.get('adaptive') or {}).items() <= (got['adaptive'] or {}).items()

@pytest.mark.parametrize('block, defaults', [
    (AIMD, dict(step_size=1, decrease_factor=.5)), (ENTROPY, dict(low_entropy_threshold=5., high_entropy_threshold=7., smoothing_factor=.9, warmup_steps=10)),
    (JSD, dict(low_jsd_threshold=.1, high_jsd_threshold=.3, high_entropy_threshold=7., smoothing_factor=.9, warmup_steps=10))], ids=name)
def test_adaptive_defaults(load, block, defaults):
    assert defaults.items() <= load(FAST, adaptive=block).adaptive.model_dump().items()

@pytest.mark.parametrize('base, change, words', [
    (BASE, dict(method=None), 'method: Field required'), (BASE, dict(method='fast'), "method='fast': Input should be 'baseline'"),
    (BASE, dict(target_model=None), 'target_model: Field required'), (BASE, dict(target_model=' '), 'it is empty'), (BASE, dict(target_model=7), 'target_model=7'),
    (BASE, dict(prompt=None), 'prompt, data: give one of them, and not neither'), (BASE, dict(data='x.txt'), 'give one of them, and not both'), (BASE, dict(prompt=''), 'it is empty'), (BASE, dict(prompt=3), 'prompt=3'),
    (BASE, dict(prompt=None, data=''), 'it is empty'), (BASE, dict(output='x.json'), "output='x.json': it must end in .jsonl"), (BASE, dict(output=5), 'output=5'),
    *[(BASE, dict(max_new_tokens=o), 'max_new_tokens') for o in (0, -1, 2.5, True, 'many')], (BASE, dict(device='tpu'), "device='tpu': Input should be 'cpu'"), (BASE, dict(dtype='int8'), "dtype='int8'"),
    *[(BASE, dict(seed=o), 'seed') for o in (1.5, 'x', True, 2**63, float('nan'))], *[(BASE, dict(warmup_steps=o), 'warmup_steps') for o in (-1, .5)], (BASE, dict(runs=0), 'runs=0'),
    (FAST, dict(draft_model=None), 'draft_model: needed when method is speculative'), (FAST, dict(gamma=None), 'gamma: needed'), (FAST, dict(sampling=None), 'sampling: needed'),
    (BASE, dict(method='speculative'), 'draft_model, gamma, sampling: needed'), (BASE, dict(method='hf_assisted'), 'draft_model: needed when method is hf_assisted'),
    *[(FAST, dict(gamma=o), 'gamma') for o in (0, -1, 1.5, True)], *[(BASE, dict(temperature=o), 'temperature') for o in (-.1, float('nan'), float('inf'), 'hot', True)], (FAST, dict(sampling='best'), "sampling='best'"),
    (FAST, dict(draft_model=''), 'it is empty'), (FAST, dict(draft_model='early_exit'), 'early_exit:4'), (FAST, dict(draft_model='early_exit:x'), 'early_exit:4'), (FAST, dict(draft_model='early_exit:0'), 'early_exit:4'),
    *[(FAST, dict(method='hf_assisted', draft_model=o), 'must be a model') for o in ('lookup', 'early_exit:4')],
    (FAST, dict(adaptive=dict(gamma_min=1, gamma_max=4)), 'strategy'), (FAST, dict(adaptive=AIMD | dict(strategy='magic')), 'magic'), (FAST, dict(adaptive=dict(strategy='aimd', gamma_max=4)), 'gamma_min: Field required'),
    (FAST, dict(adaptive=dict(strategy='aimd', gamma_min=1)), 'gamma_max: Field required'), (FAST, dict(adaptive=AIMD | dict(gamma_min=9)), 'gamma_min <= gamma_max'), (FAST, dict(adaptive=AIMD | dict(gamma_min=0)), 'gamma_min=0'),
    (FAST, dict(gamma=9, adaptive=AIMD), 'gamma=9'), (FAST, dict(adaptive=AIMD | dict(step_size=0)), 'step_size=0'), (FAST, dict(adaptive=AIMD | dict(decrease_factor=2.)), 'decrease_factor=2.0'),
    (FAST, dict(adaptive=AIMD | dict(decrease_facter=.5)), "unknown key 'decrease_facter', the nearest known one is 'decrease_factor'"), (FAST, dict(adaptive=AIMD | dict(low_entropy_threshold=1.)), "unknown key 'low_entropy_threshold'"),
    (FAST, dict(adaptive=ENTROPY | dict(low_entropy_threshold=9.)), 'must not be above'), (FAST, dict(adaptive=ENTROPY | dict(smoothing_factor=2.)), 'smoothing_factor'), (FAST, dict(adaptive=ENTROPY | dict(warmup_steps=1.5)), 'warmup_steps'),
    (FAST, dict(adaptive=ENTROPY | dict(high_entropy_threshold='x')), 'high_entropy_threshold'), (FAST, dict(adaptive=JSD | dict(low_jsd_threshold=.5)), 'must not be above'), (FAST, dict(adaptive='aimd'), 'adaptive'),
    *[(FAST, {k: 1}, f'unknown key {k!r}, the nearest known one is {v!r}') for k, v in dict(gama='gamma', max_tokens='max_new_tokens', temprature='temperature', draft_modle='draft_model', targetmodel='target_model', warmup_step='warmup_steps').items()]], ids=name)
def test_invalid_is_one_line(load, base, change, words):
    with pytest.raises(ValueError) as e: load(base, **change)
    line = str(e.value)
    assert words in line and len(line.splitlines()) == 1 and 'bench.yaml' in line and 'pydantic' not in line, line

@pytest.mark.parametrize('text, words', [('method: [tiny\nprompt: x', 'line 2'), ('a: b: c', 'line 1'), ('\tx: 1', 'line 1'), ('just text', 'name: value'), ('', 'name: value')])
def test_broken_yaml_names_the_line(tmp_path, text, words):
    (tmp_path/'b.yaml').write_text(text)
    with pytest.raises(ValueError, match=words) as e: load_config(tmp_path/'b.yaml')
    assert len(str(e.value).splitlines()) == 1
    with pytest.raises(FileNotFoundError, match='no such file'): load_config(tmp_path/'c.yaml')

CONFIGS = sorted((ROOT/'configs').glob('*.yaml'))

def test_the_examples_are_there():
    assert {p.stem for p in CONFIGS} >= set('baseline greedy aimd entropy jsd ada block tiny'.split())
    outputs = [load_config(p).output for p in CONFIGS]
    assert len({*outputs}) == len(outputs), 'two examples write to one file'
    assert {p.category for p in read_prompts(ROOT/'configs'/'prompts.jsonl')} == {'docs', 'code'}
    assert (ROOT/'.env.example').read_text().splitlines()[1:] == ['HF_TOKEN=']

@pytest.mark.parametrize('path', CONFIGS, ids=lambda p: p.stem)
def test_example(path, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)                                                # paths in the file are relative to here
    config = load_config(path, max_new_tokens=8, warmup_steps=1, runs=1, output=str(tmp_path/'x.jsonl'))
    rows = run_bench(config)
    head, read = read_results(tmp_path/'x.jsonl')
    assert BenchConfig(**head['config']) == config and head['generations'] == len(read) == len(rows) == (1 if config.prompt else 6)
    assert all(len(r['tokens']) == r['new_tokens'] == sum(r['emitted']) == 8 and r['seconds'] > 0 for r in read)
    assert {r['lossless'] for r in read} == {config.sampling != 'ada'}
    if config.data: assert [*by_category(read)] == ['docs', 'code', 'all']

def test_greedy_example_is_the_target_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    texts = [[r['tokens'] for r in run_bench(load_config(f'configs/{name}.yaml', max_new_tokens=24, warmup_steps=0, runs=1, output=str(tmp_path/f'{name}.jsonl')))] for name in ('baseline', 'greedy')]
    assert texts[0] == texts[1]

def test_a_killed_run_keeps_what_is_done(tmp_path):
    "Not even a signal that nobody can catch loses a finished line"
    out = tmp_path/'x.jsonl'
    settings = FAST | dict(max_new_tokens=16, warmup_steps=0, runs=10_000, output=str(out))
    p = subprocess.Popen([sys.executable, '-c', f'from specdec.bench import run_bench; run_bench({settings})'], stderr=subprocess.PIPE)
    try:
        end = time.time() + 120
        while p.poll() is None and time.time() < end and not (out.exists() and out.read_text().count('\n') > 3): time.sleep(.05)
    finally: p.kill(); p.wait()
    head, rows = read_results(out)
    assert head['generations'] == 10_000 and 3 <= len(rows) < 10_000
    assert [r['run'] for r in rows] == [*range(len(rows))]
    for line in out.read_text().split('\n')[:-1]: json.loads(line, parse_constant=lambda c: pytest.fail(f'{c} is not JSON'))
