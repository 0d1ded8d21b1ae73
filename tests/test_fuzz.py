"Files as people write them, and worse: each gives a valid configuration or prompts, or says on a clear line what is wrong."
import profiles                                                          # noqa: F401  (how many examples)
import contextlib, io, json
from functools import reduce
from inspect import signature
import pytest, yaml
from hypothesis import event, example, given, strategies as st
from specdec import bench, cli
from specdec.files import Prompt, read_prompts
from specdec.settings import BenchConfig, load_config
from specdec.learning import STRATEGIES

@pytest.fixture(scope='module')
def folder(tmp_path_factory): return tmp_path_factory.mktemp('fuzz')

def also(*cases):
    "These as well"
    return lambda f: reduce(lambda g, o: example(o)(g), cases, f)

def one_line(e, *words):
    "An error is a line for people: what and where"
    line = str(e)
    assert isinstance(e, bench.BadInput) and len(line.splitlines()) == 1, (type(e), line)
    assert all(w in line for w in words) and 'pydantic' not in line and len(line) < 4000, line

# Settings: right ones, with some fields replaced, renamed or taken out.
FULL = dict(method='speculative', target_model='tiny', draft_model='tiny', prompt='def ', output='x.jsonl', max_new_tokens=8, device='cpu', dtype='float32', seed=1, warmup_steps=0, runs=1, gamma=4, temperature=.7,
            sampling='speculative', adaptive=dict(strategy='aimd', gamma_min=1, gamma_max=8))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.dates(), st.binary(max_size=4),
                    st.sampled_from(['', ' ', '1', '1e3', 'nan', '.inf', 'yes', '~', 'tiny', 'early_exit:2', 'early_exit:', 'lookup', 'x.jsonl', 'a/b.jsonl', 'speculative', 'hf_assisted', 'baseline', 'greedy', '\ud800', '\0', 2**63, -2**63, 10**30, 1e300]))
values = st.recursive(scalars, lambda o: st.lists(o, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), o, max_size=3), max_leaves=6)
options = sorted({k for c in STRATEGIES.values() for k in signature(c).parameters})
blocks = st.fixed_dictionaries(dict(strategy=st.sampled_from(sorted(STRATEGIES)) | values), optional={k: st.integers(-1, 9) | st.floats(-1, 9) | values for k in options}) | values

@st.composite
def configs(draw):
    "A configuration that was right before"
    got = dict(FULL)
    for k in draw(st.lists(st.sampled_from(sorted(FULL)), max_size=3)):
        what = draw(st.sampled_from(['take out', 'replace', 'rename']))
        if what == 'take out': got.pop(k, None)
        elif what == 'replace': got[k] = draw(blocks if k == 'adaptive' else values | st.integers(0, 3))
        else: got[draw(st.just(k[:-1]) | st.text(max_size=8) | st.integers())] = got.pop(k, 1)
    if draw(st.booleans()): got['adaptive'] = draw(blocks)
    return got

def loaded(path, data):
    "What `load_config` makes of a file"
    path.write_bytes(data)
    try: got = load_config(path)
    except (ValueError, FileNotFoundError) as e: one_line(e, path.name); event('refused'); return None
    assert isinstance(got, BenchConfig) and bench.as_config(got.model_dump()) == got
    event('valid'); return got

@given(configs())
def test_settings(folder, settings):
    try: text = yaml.safe_dump(settings, allow_unicode=False)
    except yaml.YAMLError: return
    loaded(folder/'a.yaml', text.encode())

WHOLE = yaml.safe_dump(FULL, sort_keys=False)

@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda s: s.encode('utf-8', 'surrogatepass')) | st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), st.text('\t :-[]{}&*!|>%@`#"\'\n0123456789abcxyz.', max_size=8)).map(
    lambda o: (WHOLE[:o[0]] + o[2] + WHOLE[o[0] + o[1]:]).encode()))
@also(b'seed: 2024-13-45', b'&a {x: *a}', b'- ' * 3000, b'[' * 3000, b'a: !!python/object/apply:os.system [ls]', b'? [a]\n: 1', b'a: !!int ""', b'--- 1\n--- 2', b'\xff\xfe', b'seed: ' + b'9' * 5000,
      b'a: !!binary "*"', b'a: 0x', b'a: !!timestamp x')
def test_bytes_that_may_be_yaml(folder, data): loaded(folder/'b.yaml', data)

def run(*args):
    "The command line in this process: exit code, what it said on stderr"
    err = io.StringIO()
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as e: cli.main([*map(str, args)])
    return e.value.code, err.getvalue()

@given(configs())
def test_bench_ends_with_a_run_or_a_line(folder, settings):
    "The command line from the file to the door of the benchmark, which is stubbed: what arrives there is valid"
    try: (folder/'c.yaml').write_text(yaml.safe_dump(settings))
    except yaml.YAMLError: return
    came = []
    def stub(config, *args, **kw): came.append(config); raise RuntimeError('here')
    with pytest.MonkeyPatch.context() as m:
        m.setattr(bench, 'load_models', lambda config: None); m.setattr(bench, 'run_bench', stub); m.chdir(folder)
        code, said = run('bench', '--config', folder/'c.yaml')
    assert len(said.splitlines()) == 1 and said.startswith('specdec: ')
    if came: assert (code, said) == (1, 'specdec: here\n') and isinstance(came[0], BenchConfig)
    else: assert code == 2

# Prompts: a file of any kind, with entries of any kind.
entry = st.one_of(st.text(max_size=6).map(json.dumps), values.map(lambda o: json.dumps(o, default=str)), st.text(max_size=6), st.sampled_from(['', ' ', '{}', '[]', '"', '{"prompt": "x"}', '{"turns": ["x"]}', '{"turns": []}', '{"turns": [1]}',
                  '{"prompt": null}', '{"question_id": 1, "category": {}, "turns": ["a", "b"]}', 'NaN', '"\\ud800"', '1' * 5000, '[' * 3000, '{"a":' * 3000, '\u2028', '\x85']))

@given(st.sampled_from(['.jsonl', '.json', '.txt', '.csv', '']), st.lists(entry, max_size=4).map('\n'.join).map(lambda s: s.encode('utf-8', 'surrogatepass')) | st.binary(max_size=20), st.sampled_from([b'', b'\xef\xbb\xbf', b'\xff\xfe']))
def test_prompts(folder, suffix, data, mark):
    path = folder/f'p{suffix}'
    path.write_bytes(mark + data)
    try: found = read_prompts(path)
    except (ValueError, FileNotFoundError) as e:
        assert isinstance(e, bench.BadInput) and len(str(e).splitlines()) == 1
        assert path.name in str(e)
        event('refused')
    else:
        assert found and all(isinstance(p, Prompt) and p.text.strip() for p in found)
        event('valid')

@given(st.text(st.characters(categories=['L', 'N', 'P', 'S', 'Zs'], exclude_characters='/\\'), min_size=1, max_size=12))
@also('\0', 'a\0.jsonl', '~', 'x' * 300, '\ud800')
def test_names_of_files(folder, name):
    for f in (load_config, read_prompts):
        try: f(folder/f'~{name}')
        except (ValueError, OSError) as e: assert len(str(e).splitlines()) == 1, e
