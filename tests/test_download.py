"`specdec download` against a hub on localhost: the client is the real one, the network is not."
import os, subprocess, sys
from pathlib import Path
import hub, pytest
from specdec.zoo import byte_tokenizer, random_gpt2

EXE = Path(sys.executable).with_name('specdec')
FILES = {'model/acme/small': {'config.json': b'{}', 'model.safetensors': b'weights' * 1000, 'pytorch_model.bin': b'pickle'},
         'model/acme/pickled': {'config.json': b'{}', 'pytorch_model.bin': b'pickle'}, 'model/acme/closed': {'config.json': b'{}', 'model.safetensors': b'w'},
         'dataset/acme/prompts': {'prompts.jsonl': b'"Hello"\n'}}

@pytest.fixture(scope='module')
def served():
    with hub.serving(files=FILES, gated={'model/acme/closed'}, token='sesame') as s: yield s

def run(cmd, cwd, endpoint, **env):
    "Run a command that believes the hub to be at `endpoint`, with a cache of its own in `cwd`"
    clean = {k: v for k, v in os.environ.items() if k not in ('HF_TOKEN', 'HUGGING_FACE_HUB_TOKEN')}
    return subprocess.run(cmd, cwd=cwd, capture_output=True, text=True, timeout=300,
                          env={**clean, 'HF_HUB_OFFLINE': '0', 'HF_ENDPOINT': endpoint, 'HF_HOME': str(cwd/'home'), 'HF_HUB_DISABLE_XET': '1', 'COLUMNS': '200', **env})

def download(served, cwd, *args, **env): return run([EXE, 'download', *args], cwd, served[0], **env)

def one_line(r): return [l for l in r.stderr.splitlines() if l.startswith('specdec:')]

def names(folder): return sorted(p.name for p in folder.iterdir() if p.name != '.cache')

def test_a_model_without_its_pickles(served, tmp_path):
    r = download(served, tmp_path, '--model', 'acme/small')
    assert r.returncode == 0, r.stderr
    assert names(tmp_path/'small') == ['config.json', 'model.safetensors'] and 'small' in r.stdout

def test_a_dataset_to_a_path(served, tmp_path):
    r = download(served, tmp_path, '--dataset', 'acme/prompts', '--path', 'data/mine', '--revision', 'main')
    assert r.returncode == 0, r.stderr
    assert names(tmp_path/'data/mine') == ['prompts.jsonl']

@pytest.mark.parametrize('where', ['environment', '.env'])
def test_the_token_opens_a_gate_and_is_not_shown(served, tmp_path, where):
    if where == '.env': (tmp_path/'.env').write_text('HF_TOKEN=sesame\n')
    r = download(served, tmp_path, '--model', 'acme/closed', **({'HF_TOKEN': 'sesame'} if where == 'environment' else {}))
    assert r.returncode == 0, r.stderr
    assert 'sesame' not in r.stdout + r.stderr

@pytest.mark.parametrize('args, code, words', [
    ([], 2, 'exactly one'), (['--model', 'a', '--dataset', 'b'], 2, 'exactly one'), (['--model', 'acme/closed'], 1, 'HF_TOKEN'), (['--model', 'acme/none'], 1, 'not on the hub'),
    (['--model', 'acme/small', '--revision', 'v9'], 1, 'revision'), (['--model', 'a b!'], 2, 'no name on the hub'), (['--model', 'acme/pickled'], 1, 'safetensors')])
def test_one_clear_line(served, tmp_path, args, code, words):
    r = download(served, tmp_path, *args)
    assert r.returncode == code and 'Traceback' not in r.stderr, r.stderr
    assert len(one_line(r)) == 1 and words in one_line(r)[0], r.stderr

def test_offline(served, tmp_path):
    for env in ({'HF_HUB_OFFLINE': '1'}, {'HF_ENDPOINT': 'http://127.0.0.1:9'}):
        r = download(served, tmp_path, '--model', 'acme/small', **env)
        assert r.returncode == 1 and 'Traceback' not in r.stderr
        assert 'tiny' in one_line(r)[0] and 'network' in one_line(r)[0], r.stderr

def test_an_interrupted_download_goes_on(served, tmp_path):
    "Half a file is no file; the next try completes the folder"
    served[1].broken = 'model.safetensors'
    try: r = download(served, tmp_path, '--model', 'acme/small', HF_HUB_DOWNLOAD_TIMEOUT='2')
    finally: served[1].broken = None
    assert r.returncode == 1 and not (tmp_path/'small/model.safetensors').exists(), r.stderr
    r = download(served, tmp_path, '--model', 'acme/small')
    assert r.returncode == 0, r.stderr
    assert (tmp_path/'small/model.safetensors').read_bytes() == FILES['model/acme/small']['model.safetensors']

LOAD = """
import socket, sys
from specdec import load_pair
plain, tries = socket.socket.connect, []
def connect(self, address): tries.append(address); return plain(self, address)
socket.socket.connect = connect
for name in sys.argv[1:]:
    tries.clear()
    try: pair = load_pair(name, name); said = f'{pair.name}: {pair.target.num_parameters()}'
    except Exception as e: said = f'{type(e).__name__}: {e}'
    print(len(tries), said)
"""

def test_a_pair_from_the_hub_then_from_the_cache_and_a_missing_one_at_once(tmp_path):
    "With a hub, and with none that answers, though nobody has set HF_HUB_OFFLINE"
    random_gpt2(1, vocab_size=256, n_positions=16, n_embd=8, n_head=2, n_layer=1).save_pretrained(tmp_path/'m'); byte_tokenizer().save_pretrained(tmp_path/'m')
    with hub.serving(files={'model/acme/m': {f.name: f.read_bytes() for f in (tmp_path/'m').iterdir()}}) as (alive, cls):
        there = run([sys.executable, '-c', LOAD, 'acme/m', 'acme/none'], tmp_path, alive)
        assert cls.asked and not any('pytorch_model' in path and '.json' not in path for path, _ in cls.asked)
    alone = run([sys.executable, '-c', LOAD, 'acme/m', 'acme/none'], tmp_path, 'http://127.0.0.1:9')
    for r in (there, alone):
        assert not r.returncode and 'Retry' not in r.stderr, r.stderr
        (_, loaded), (tries, refused) = (line.split(' ', 1) for line in r.stdout.splitlines())
        assert loaded.startswith('m/m: ')
        assert refused.startswith("FileNotFoundError: 'acme/none'") and '`specdec download --model acme/none`' in refused, refused
    assert int(tries) <= 1                                               # of the one that is alone: it has not tried again and again

def test_what_the_hub_refuses_is_told_apart(tmp_path):
    "A gate, a token that is no good, a revision and a missing file, each in its own line; a token opens the gate"
    random_gpt2(1, vocab_size=256, n_positions=16, n_embd=8, n_head=2, n_layer=1).save_pretrained(tmp_path/'m'); byte_tokenizer().save_pretrained(tmp_path/'m')
    whole = {f.name: f.read_bytes() for f in (tmp_path/'m').iterdir()}
    files = {'model/acme/gated': whole, 'model/acme/bin': {k if k != 'model.safetensors' else 'pytorch_model.bin': v for k, v in whole.items()}}
    old = LOAD.replace('load_pair(name, name)', "load_pair(*[name.split('@')[0]]*2, revision=name.partition('@')[2] or None)")
    with hub.serving(files=files, gated={'model/acme/gated'}, token='sesame', tired={'acme/tired': 503, 'acme/token': 401}) as (alive, cls):
        r = run([sys.executable, '-c', old, 'acme/gated', 'acme/bin', 'acme/bin@v9', 'acme/tired', 'acme/token'], tmp_path, alive)
        lines = [l.split(' ', 1)[1] for l in r.stdout.splitlines()]
        for line, words in zip(lines, ("'acme/gated' is gated", "'acme/bin' has no safetensors", "'acme/bin' has no revision 'v9'", 'trouble of its own', 'has run out'), strict=True):
            assert words in line and line.startswith('FileNotFoundError'), line
        assert not any('commits' in path or 'discussions' in path for path, _ in cls.asked)      # nobody is asked to convert the weights
        assert 'gated/gated: ' in run([sys.executable, '-c', LOAD, 'acme/gated'], tmp_path, alive, HF_TOKEN='sesame').stdout
