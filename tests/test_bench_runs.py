"What a benchmark writes: the verdict of each line, ends, one-time work outside of the clock, progress, a machine that is not idle."
import copy, os, subprocess, sys, time
import pytest, torch
import specdec
from specdec import autoregressive, bench, kernels, load_pair, written_out
from specdec.bench import by_category, read_results, run_bench
from specdec.comparing import compare, gain, hf_generate
from specdec.files import BadInput
from specdec.machine import disturbances, fingerprint, revision
from specdec.zoo import Pair, byte_tokenizer, random_gpt2

SHAPE = dict(vocab_size=256, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None, initializer_range=.5)
def toy(seed, **kw): return random_gpt2(seed, **SHAPE | kw)
def pair(**kw): return Pair(toy(1), toy(2, **kw), byte_tokenizer(), 'x')
METHODS = dict(baseline={}, speculative=dict(draft_model='x', gamma=2, sampling='speculative'), hf_baseline={}, hf_assisted=dict(draft_model='x', gamma=2))

@pytest.fixture
def run(tmp_path):
    "A small benchmark; its rows"
    def run(method='speculative', models=None, **kw):
        config = dict(method=method, target_model='x', prompt='def ', max_new_tokens=8, temperature=0., warmup_steps=0, eos=None, output=str(tmp_path/'o.jsonl')) | METHODS[method] | kw
        return run_bench(config, pair=models or pair(), force=True)
    return run

@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('T', [0., 1.])
def test_each_line_has_its_verdict(run, tmp_path, method, T):
    rows = run(method, temperature=T, runs=2)
    assert [r['verdict'] for r in rows] == ['exact']*2 and by_category(rows)['all']['verdict'] == 'exact'
    assert [r['verdict'] for r in read_results(tmp_path/'o.jsonl')[1]] == ['exact']*2

def test_another_text_is_a_fault(run, monkeypatch):
    real = bench.hf_generate
    def off(*a, **kw):
        y = real(*a, **kw)
        y[3] = (y[3] + 1) % 256
        return y
    monkeypatch.setattr(bench, 'hf_generate', off)
    for T in (0., 1.):
        rows = run('hf_baseline', temperature=T)
        assert rows[0]['verdict'] == 'FAULT' == by_category(rows)['all']['verdict']

@pytest.mark.parametrize('method', METHODS)
def test_all_methods_end_where_the_model_declares(run, method):
    models = pair()
    plain = autoregressive(models.target, torch.tensor(byte_tokenizer()('def ').input_ids), 40).tokens.tolist()
    end = next(t for i, t in enumerate(plain) if i > 4 and t not in plain[:i])
    models.target.generation_config.eos_token_id = [end]
    models.draft.generation_config.eos_token_id = [plain[1]]                     # what the draft declares means nothing
    n = plain.index(end) + 1
    assert [len(r['tokens']) for r in run(method, models, max_new_tokens=40, eos='model')] == [n]
    assert [len(r['tokens']) for r in run(method, models, max_new_tokens=40, eos=[end, 255])] == [n]
    rows = run(method, models, max_new_tokens=40, eos=None)
    assert len(rows[0]['tokens']) == 40 and rows[0]['verdict'] == 'exact'

@pytest.mark.parametrize('method', METHODS)
@pytest.mark.parametrize('warmup', [0, 1])
def test_nothing_is_laid_out_under_the_clock(run, monkeypatch, method, warmup):
    "Neither weights nor kernels, of target or draft; transformers' loop has run before it is timed"
    laid_out, raced, timed, calls = [], [], [], []
    def counted(real, into):
        def f(*a, **kw):
            into.append(bool(timed))
            return real(*a, **kw)
        return f
    class Bell(bench.Clock):
        "Read at the start and at the end of what is timed"
        def __call__(self):
            timed.pop() if timed else timed.append(1)
            return super().__call__()
    monkeypatch.setattr(written_out.GPT2Weights, '__init__', counted(written_out.GPT2Weights.__init__, laid_out))
    monkeypatch.setattr(kernels.Product, '__init__', counted(kernels.Product.__init__, raced))
    monkeypatch.setattr(bench, 'hf_generate', counted(bench.hf_generate, calls))
    monkeypatch.setattr(bench, 'Clock', Bell)
    run(method, warmup_steps=warmup)
    assert laid_out and not any(laid_out) and not any(raced)
    if method.startswith('hf'): assert calls.index(True) > 0

def test_a_first_call_of_timed_lays_out_before_the_clock(monkeypatch):
    ticks = [0.]
    real = written_out.GPT2Weights.__init__
    def slow(*a, **kw):
        ticks[0] += 1000
        real(*a, **kw)
    monkeypatch.setattr(written_out.GPT2Weights, '__init__', slow)
    assert bench.timed(toy(1), toy(2), [1, 2, 3], 8, 2, bench.Clock(now=lambda: ticks[0]))[1] == 0
    assert ticks[0] == 2000                                                      # both were laid out here

def test_progress_is_told_from_the_start(tmp_path):
    told = []
    config = dict(method='baseline', target_model='x', prompt='def ', max_new_tokens=4, warmup_steps=2, runs=3, eos=None)
    run_bench(config | dict(output=f'{tmp_path}/o.jsonl'), pair=pair(), progress=lambda *o: told.append(o))
    assert told == [('warming up', i, 3) for i in range(4)] + [('generating', i, 3) for i in range(4)]

def test_what_transformers_cannot_do_is_said_first(run, tmp_path):
    for draft in (dict(vocab_size=255), dict(n_positions=10)):
        with pytest.raises(BadInput, match='transformers takes as an assistant'): run('hf_assisted', pair(**draft))
    assert not (tmp_path/'o.jsonl').exists()

def test_a_busy_machine_is_named(run, monkeypatch):
    monkeypatch.setattr('os.getloadavg', lambda: (97.5, 0., 0.))
    monkeypatch.setattr('os.cpu_count', lambda: 2)
    rows = run(runs=2)
    assert all(r['disturbed'] == ['the machine was not idle: 97.5 programs wanted its 2 cores in the last minute'] for r in rows)
    assert any('97.5' in line for line in by_category(rows)['all']['disturbed'])
    assert any('97.5' in line for line in compare(pair(), [torch.tensor([1, 2])], 2, 4, runs=1)['disturbed'])

def test_another_program_at_work_is_seen():
    "A loop beside us, as many as there are cores: seen within a second, where the load of the last minute has hardly moved"
    cores = os.cpu_count()
    busy = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(cores + 1)]
    try:
        since = bench.cpu_seconds()
        if since is None: pytest.skip('this system does not tell')
        end = time.perf_counter() + 1.5
        while time.perf_counter() < end: time.sleep(.1)
        said = disturbances({}, since, load=0.)
    finally:
        for p in busy: p.kill(); p.wait()
    assert len(said) == 1 and 'the machine was not idle: others used' in said[0]

def test_uneven_runs_of_one_prompt_are_named():
    rows = [dict(method='baseline', prompt=0, run=i, category=None, seconds=s, new_tokens=10) for i, s in enumerate((1., 1.2, 1.5))]
    assert by_category(rows)['all']['disturbed'] == ['the runs of baseline differ by more than a third: 6.67 to 10 tokens/s']
    assert by_category(rows[:2])['all']['disturbed'] == []

def test_one_speedup():
    "The ratio of median rates, wherever a speedup is given"
    fast = [dict(method='speculative', prompt=0, run=i, category='a', seconds=s, new_tokens=12) for i, s in enumerate((1., 2., 3.))]
    slow = [dict(method='baseline', prompt=0, run=i, category='a', seconds=s, new_tokens=12) for i, s in enumerate((6., 4., 3.))]
    table = by_category(fast, slow)
    assert table['a']['speedup'] == table['all']['speedup'] == gain([12., 6., 4.], [2., 3., 4.])[0] == 2.
    got = compare(pair(), [torch.tensor([1, 2]), torch.tensor([3])], 2, 4, runs=3)
    rate = got['tokens_per_second']
    for name, other in dict(speedup='baseline', speedup_vs_hf_assisted='hf_assisted', speedup_vs_hf_baseline='hf_baseline').items():
        assert got[name] == rate['speculative']/rate[other]

def test_a_category_called_all_is_not_lost():
    rows = [dict(prompt=i, run=0, category=c, seconds=1., new_tokens=i + 1) for i, c in enumerate(('all', 'qa'))]
    assert {c: o['tokens_per_second'] for c, o in by_category(rows).items()} == {'all (category)': 1., 'qa': 2., 'all': 1.5}

def test_no_rows_no_summary(tmp_path):
    assert by_category([]) == {}
    (tmp_path/'x.jsonl').write_text('{"config"')
    with pytest.raises(BadInput, match='no finished line'): read_results(tmp_path/'x.jsonl')

def git(folder, *args): subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *args], cwd=folder, check=True, capture_output=True)

@pytest.mark.parametrize('settings', [None, '[DEFAULT]\nlib_name = another\n', '[DEFAULT]\nlib_name = specdec-lab\n'])
@pytest.mark.parametrize('inside', ['', 'vendor'])
@pytest.mark.parametrize('committed', [False, True])
def test_revision_of_the_own_repository_alone(tmp_path, monkeypatch, settings, inside, committed):
    place = tmp_path/inside
    (place/'specdec').mkdir(parents=True)
    (place/'specdec'/'__init__.py').write_text('')
    if settings: (place/'settings.ini').write_text(settings)
    git(tmp_path, 'init', '-q')
    if committed: git(tmp_path, 'add', '.')
    git(tmp_path, 'commit', '-q', '--allow-empty', '-m', 'x')
    monkeypatch.setattr(specdec, '__file__', str(place/'specdec'/'__init__.py'))
    ours = committed and not inside and settings and 'specdec-lab' in settings
    got = revision()
    assert (got is not None) == bool(ours), got
    if ours:
        monkeypatch.setenv('GIT_DIR', str(tmp_path/'elsewhere'))               # as inside a hook of another repository
        assert revision() == got and not got.endswith('+')
        (place/'specdec'/'x.py').write_text('')
        assert revision() == f'{got}+'

def test_a_fingerprint_is_of_the_weights_not_of_their_place(tmp_path):
    m = load_pair(device='cpu').target
    m.save_pretrained(tmp_path/'copy')
    again = type(m).from_pretrained(tmp_path/'copy').eval()
    assert fingerprint(m) == fingerprint(again) == fingerprint(copy.deepcopy(m))
    again.transformer.wte.weight.data[7, 7] *= 1.001
    assert fingerprint(m) != fingerprint(again)
    hf_generate(m, torch.tensor([1, 2]), 4)
    autoregressive(m, [1, 2], 4)
    assert fingerprint(m) == fingerprint(type(m).from_pretrained(tmp_path/'copy').eval())
