"What goes wrong outside the program: the disk, the files, the memory, the user who stops it. Each ends in a line, and what was done is kept."
import json, os, pickle, re, shutil, signal, subprocess, sys, tempfile, time
from pathlib import Path
import pytest, torch, yaml
from transformers import AutoModelForCausalLM
from specdec import autoregressive, cli, generate, load_pair, speculative, stream
from specdec.bench import load_models, read_results, run_bench
from specdec.files import check_writable
from specdec.settings import as_config
from specdec.decoding import DraftFailed
from specdec.drafting import Composite, ModelDraft, PromptLookup
from specdec.models import HFModel
from specdec.tables import read_rows
from specdec.zoo import byte_tokenizer, random_gpt2

EXE = Path(sys.executable).with_name('specdec')
SHAPE = dict(vocab_size=256, n_positions=64, n_embd=16, n_head=2, n_layer=2, initializer_range=.3, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
BASE = dict(method='speculative', target_model='tiny', draft_model='tiny', gamma=3, sampling='greedy', dtype='float32', prompt='def ', max_new_tokens=4, warmup_steps=0)
def small(seed=1): return random_gpt2(seed, **SHAPE)

def refused(call, *words, kind=(ValueError, FileNotFoundError, RuntimeError)):
    "The one line that `call` raises"
    with pytest.raises(kind) as e: call()
    line = str(e.value)
    assert len(line.splitlines()) == 1 and all(w in line for w in words), line
    return line

def main(capsys, *args):
    "The command line in this process: exit code and the lines on stderr"
    with pytest.raises(SystemExit) as e: cli.main([*map(str, args)])
    return e.value.code, [l for l in capsys.readouterr().err.splitlines() if l.startswith('specdec:')]

@pytest.fixture
def folder(tmp_path):
    "A small model and its tokenizer, as a user keeps them"
    small().save_pretrained(tmp_path/'m'); byte_tokenizer().save_pretrained(tmp_path/'m')
    return tmp_path/'m'

# The disk
@pytest.mark.skipif(not Path('/dev/full').exists(), reason='no device that is always full')
def test_a_full_disk(tmp_path, capsys):
    (tmp_path/'x.jsonl').symlink_to('/dev/full'); (tmp_path/'x.json').symlink_to('/dev/full')
    (tmp_path/'c.yaml').write_text(yaml.safe_dump(BASE | dict(output=str(tmp_path/'x.jsonl'))))
    code, lines = main(capsys, 'bench', '--config', tmp_path/'c.yaml', '--force')
    assert code == 1 and len(lines) == 1 and 'No space left' in lines[0], lines
    code, lines = main(capsys, 'bench', '--max-new-tokens', 4, '--runs', 1, '--prompt', 'def ', '--json', tmp_path/'x.json')
    assert code == 1 and len(lines) == 1 and 'No space left' in lines[0], lines

@pytest.mark.parametrize('place', ['/proc/x.jsonl', '/proc/1/x.jsonl', 'no/such/x.jsonl', 'file/x.jsonl', 'there.jsonl'])
def test_a_place_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path); monkeypatch.setattr('specdec.bench.load_models', lambda config: pytest.fail('the work has begun'))
    Path('file').write_text('mine'); Path('there.jsonl').mkdir()
    refused(lambda: run_bench(BASE | dict(output=place)), repr(place), 'cannot be written to')
    for command in ('demo', 'bench', 'plan'):
        code, lines = main(capsys, command, '--json', place)
        assert code == 2 and len(lines) == 1 and place in lines[0], lines
    code, lines = main(capsys, 'sweep', '--output', place)
    assert code == 2 and len(lines) == 1 and place in lines[0], lines
    assert sorted(o.name for o in Path().iterdir()) == ['file', 'there.jsonl'] and Path('file').read_text() == 'mine'

def test_asking_whether_a_file_can_be_written_leaves_it_alone(tmp_path):
    (tmp_path/'old').write_text('kept')
    for name in ('old', 'new'): check_writable(tmp_path/name)
    assert [o.name for o in tmp_path.iterdir()] == ['old'] and (tmp_path/'old').read_text() == 'kept'

# Weights and what lies beside them
@pytest.mark.parametrize('kept', [0, 5, 200, 5000])
def test_weights_that_were_cut_off(folder, kept):
    file = folder/'model.safetensors'
    file.write_bytes(file.read_bytes()[:kept])
    refused(lambda: load_pair(folder, folder), repr(str(folder)), 'broken', 'fetch them again')

def test_a_folder_in_pieces(folder):
    def broken(name, text, *words):
        before = (folder/name).read_text()
        (folder/name).write_text(text(before) if callable(text) else text)
        refused(lambda: load_pair(folder, folder), str(folder), *words)
        (folder/name).write_text(before)
    broken('config.json', '{', 'not a valid JSON')
    broken('config.json', '{"model_type": "gpt9"}', 'gpt9')
    broken('config.json', lambda s: s.replace('"n_embd": 16', '"n_embd": 32'), 'cannot be loaded')
    broken('config.json', lambda s: s.replace('"n_embd": 16', '"n_embd": "wide"'), 'cannot be loaded')
    broken('tokenizer.json', '{"a":', 'cannot be loaded')
    load_pair(folder, folder)                                            # whole again

class Bomb:
    "Leaves a file behind when it is unpickled"
    def __init__(self, mark): self.mark = mark
    def __reduce__(self): return open, (str(self.mark), 'w')

def test_pickles_are_not_read(folder, tmp_path):
    (folder/'model.safetensors').unlink()
    (folder/'pytorch_model.bin').write_bytes(pickle.dumps(Bomb(tmp_path/'boom')))
    for call in (lambda: load_pair(folder, folder), lambda: load_models(as_config(BASE | dict(target_model=str(folder), draft_model='lookup')))):
        refused(call, 'model.safetensors')
        torch.save(small().state_dict(), folder/'pytorch_model.bin')     # nor a harmless one
    assert not (tmp_path/'boom').exists()

def test_code_that_comes_with_a_model_is_not_run(folder, tmp_path):
    for name in ('configuration', 'modeling', 'tok'): (folder/f'{name}_x.py').write_text(f'open({str(tmp_path/"ran")!r}, "w")')
    config = json.loads((folder/'config.json').read_text())
    auto = dict(auto_map=dict(AutoConfig='configuration_x.X', AutoModelForCausalLM='modeling_x.X'))
    (folder/'config.json').write_text(json.dumps(config | auto | dict(model_type='never_heard_of')))
    for call in (lambda: load_pair(folder, folder), lambda: load_models(as_config(BASE | dict(target_model=str(folder), draft_model='lookup')))): refused(call, 'code of its own', 'never run here')
    (folder/'config.json').write_text(json.dumps(config | auto))         # a kind of model that transformers knows: its own code is used
    load_pair(folder, folder)
    assert not (tmp_path/'ran').exists()

@pytest.mark.parametrize('fault', [MemoryError(), torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB.\nSee documentation'), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")], ids=lambda e: type(e).__name__)
def test_no_room_to_load(folder, fault, monkeypatch, capsys):
    def full(*args, **kw): raise fault
    with monkeypatch.context() as m:
        m.setattr(AutoModelForCausalLM, 'from_pretrained', full)
        refused(lambda: load_pair(folder, folder), repr(str(folder)), 'smaller model', 'bfloat16')
        code, lines = main(capsys, 'bench', '--target', folder, '--draft', folder)
        assert code == 1 and len(lines) == 1 and 'bfloat16' in lines[0], lines
    with monkeypatch.context() as m:
        m.setattr(torch.nn.Module, 'to', full)                           # it fits in memory, and not on the device
        refused(lambda: load_pair(folder, folder), repr(str(folder)), 'smaller model')

def test_no_room_in_the_middle_of_the_work(monkeypatch, capsys):
    "Whatever runs out of memory, and wherever, the line says what to try"
    for fault in (MemoryError(), torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2 GiB.'), RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")):
        def full(*args, **kw): raise fault
        monkeypatch.setattr('specdec.pairs.dialled_pair', full)
        code, lines = main(capsys, 'bench', '--backend', 'dialled')
        assert code == 1 and len(lines) == 1 and 'no room in memory' in lines[0] and 'bfloat16' in lines[0], lines

# Models that misbehave
@pytest.mark.parametrize('settings', [{}, dict(temperature=1.), dict(temperature=.5, top_k=3, top_p=.9)], ids=str)
@pytest.mark.parametrize('wrap', [lambda m: m, HFModel], ids=['static', 'transformers'])
def test_nan_in_the_weights(settings, wrap):
    good, sick = small(), small()
    sick.transformer.h[0].mlp.c_fc.weight.data[0, 0] = torch.nan
    for target, draft in ((sick, good), (good, sick), (sick, sick), (sick, None)):
        refused(lambda: generate(wrap(target), draft and wrap(draft), [1, 2, 3], 8, **settings), 'hold NaN', kind=ValueError)

class Failing(ModelDraft):
    "Breaks in the middle of a run"
    def propose(self, ids, *args):
        if len(ids) > 12: raise OSError('the device is gone')
        return super().propose(ids, *args)

@pytest.mark.parametrize('make', [lambda m: Failing(m), lambda m: Composite(PromptLookup(min_ngram=3, max_ngram=3), Failing(m))], ids=['model', 'composite'])
def test_a_draft_that_fails_stops_the_run_with_the_text_so_far(make):
    target, want, rounds = small(), autoregressive(small(), [1, 2, 3], 30).tokens, []
    with pytest.raises(DraftFailed, match='OSError: the device is gone') as e:
        for r in stream(target, make(small(2)), [1, 2, 3], 30): rounds.append(r)
    so_far = torch.cat([r.tokens for r in rounds])
    assert len(so_far) > 4 and so_far.equal(want[:len(so_far)]) and e.value.tokens.equal(torch.cat([torch.tensor([1, 2, 3]), so_far]))
    assert isinstance(e.value.__cause__, OSError)
    assert autoregressive(target, e.value.tokens, 30 - len(so_far)).tokens.equal(want[len(so_far):])       # as the line says: go on without it
    with pytest.raises(DraftFailed): target.generate(torch.tensor([[1, 2, 3]]), custom_generate=speculative(make(small(2))), max_new_tokens=30, do_sample=False, pad_token_id=0)

# The user who stops it
def interrupted(args, ready, cwd):
    "Start `specdec`, send Ctrl-C when `ready(what it has written)`; exit code, stderr"
    with tempfile.TemporaryDirectory() as d:
        told = Path(d)/'stdout'
        with told.open('w') as f:
            p = subprocess.Popen([EXE, *map(str, args)], cwd=cwd, stdout=f, stderr=subprocess.PIPE, text=True, env={**os.environ, 'HF_TOKEN': 'sesame'})
        try:
            end = time.monotonic() + 200
            while p.poll() is None and time.monotonic() < end and not ready(told.read_text()): time.sleep(.05)
            assert p.poll() is None, p.communicate()
            p.send_signal(signal.SIGINT)
            _, err = p.communicate(timeout=60)
        finally: p.kill()
        out = told.read_text()
    assert 'Traceback' not in err and err.rstrip().splitlines()[-1] == 'specdec: stopped' and 'sesame' not in out + err, err
    return p.returncode, err

def lines_of(path): return path.read_text().count('\n') if path.exists() else 0

def test_ctrl_c_in_a_benchmark_keeps_what_is_done(tmp_path):
    out = tmp_path/'x.jsonl'
    (tmp_path/'.env').write_text('HF_TOKEN=sesame\n')
    (tmp_path/'c.yaml').write_text(yaml.safe_dump(BASE | dict(runs=100_000, output=str(out))))
    code, err = interrupted(['bench', '--config', 'c.yaml'], lambda told: lines_of(out) > 3, tmp_path)
    head, rows = read_results(out)
    assert code == 130 and len(rows) >= 3 and f'stopped: {len(rows)} of 100000 generations are done, and in {out}' in err
    assert 'sesame' not in out.read_text()                               # nor is the token of the environment or of .env in the results

def test_ctrl_c_in_a_sweep_which_then_goes_on(tmp_path, capsys, monkeypatch):
    out, args = tmp_path/'s.csv', ['sweep', '--gamma', '1,2,3,4,5,6', '--max-new-tokens', 8, '--runs', 2, '--prompt', 'def ', '--output', 's.csv']
    assert interrupted(args, lambda told: lines_of(out) > 2, tmp_path)[0] == 130
    before = read_rows(out)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as e: cli.main([*map(str, args)])
    said = ' '.join(capsys.readouterr().out.split())
    assert e.value.code == 0 and f'6 points, {len(before)} of them from before' in said, said
    assert 2 <= len(before) < 6 and read_rows(out)[:len(before)] == before and [o['gamma'] for o in read_rows(out)] == [*range(1, 7)]

def test_ctrl_c_in_the_demo(tmp_path):
    "When its text has begun"
    code, _ = interrupted(['demo', '--gamma', 3, '--tokens', 200, '--runs', 200, '--json', 'd.json'], lambda told: told.count('\n') > 2, tmp_path)
    assert code == 130 and not list(tmp_path.iterdir())

# The network
@pytest.mark.skipif(not shutil.which('unshare') or subprocess.run(['unshare', '-rn', 'true']).returncode, reason='a process cannot be cut off from the network here')
def test_with_the_network_cut(tmp_path):
    "In a process that has no network at all, and does not know: the demo runs, and a model that would have to be fetched is refused at once"
    def cut_off(*cmd): return subprocess.run(['unshare', '-rn', *cmd], cwd=tmp_path, capture_output=True, text=True, timeout=300, env={k: v for k, v in os.environ.items() if k != 'HF_HUB_OFFLINE'})
    r = cut_off(EXE, 'demo', '--prompt', 'def ', '--gamma', '3', '--tokens', '8', '--runs', '1', '--json', 'd.json')
    assert r.returncode == 0 and json.loads((tmp_path/'d.json').read_text())['identical'], r.stderr
    r = cut_off(EXE, 'bench', '--target', 'acme/none', '--draft', 'acme/none')
    assert r.returncode == 2 and 'Retry' not in r.stderr and [l for l in r.stderr.splitlines() if '`specdec download --model acme/none`' in l], r.stderr

# Secrets
def test_the_token_is_read_in_one_place(root):
    "`.env` and HF_TOKEN are looked at by `hub_token` alone, and it hands them to the hub alone"
    rays = r"(?!\.(get|setdefault)\('(RAY|SPECDEC)_)"                                       # a variable that is named, and is Ray's or our own
    used = {p.name: re.findall(rf'dotenv_values|getenv|environ\b{rays}', p.read_text(encoding='utf-8')) for p in (root/'specdec').rglob('*.py')}
    assert {k for k, v in used.items() if v} == {'download.py'}, used
    assert len(re.findall(r'hub_token\(', (root/'specdec'/'download.py').read_text(encoding='utf-8'))) == 2   # its definition, and the call
