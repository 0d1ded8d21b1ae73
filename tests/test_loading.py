"Loading a pair: what stands in the way is told in one line, and no two things in the same words."
import errno, json, pickle, shutil, warnings
from pathlib import Path
from unittest.mock import Mock
import pytest, torch
from huggingface_hub.errors import GatedRepoError, HTTPError, OfflineModeIsEnabled, RevisionNotFoundError
from safetensors import SafetensorError
from specdec import generate, load_pair
from specdec.fetching import check_tokenizers, in_one_line, load_fault
from specdec.dialled import dialled_pair, _shape_config
from specdec.zoo import byte_tokenizer, held_out_prompts, pick_device, pick_dtype, random_gpt2, toy_pair

SHAPE = dict(vocab_size=300, n_positions=16, n_embd=8, n_head=2, n_layer=1, bos_token_id=None, eos_token_id=None)

def said(call, kind=Exception):
    "The one line that `call` raises, which can be sent to another process"
    with pytest.raises(kind) as e: call()
    line = str(e.value)
    assert line.strip() and len(line.splitlines()) == 1 and str(pickle.loads(pickle.dumps(e.value))) == line
    return line

@pytest.fixture
def here(tmp_path, monkeypatch):
    "A folder `m` with a small model and its tokenizer, in the working directory"
    monkeypatch.chdir(tmp_path)
    random_gpt2(1, **SHAPE).save_pretrained('m'); byte_tokenizer().save_pretrained('m')
    return tmp_path

# The hub
REMOTE = {                                     # what transformers or the hub's client raise, and words that only this line has
    'gated': (OSError('You are trying to access a gated repo.\nMake sure to have access to it at https://huggingface.co/owner/model.\n403 Client Error.'), 'accept its terms'),
    'gated, told by the client': (GatedRepoError('403 Client Error.\n\nCannot access gated repo for url x.', response=Mock()), 'accept its terms'),
    'not found': (OSError("owner/model is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a token"), 'is not on the hub'),
    'not found, 401': (OSError('401 Client Error.\n\nRepository Not Found for url: x.\nIf you are trying to access a private or gated repo, make sure you are authenticated'), 'is not on the hub'),
    'bad token': (OSError("Client error '401 Unauthorized' for url 'x'\nInvalid credentials in Authorization header"), 'has run out'),
    'forbidden': (OSError('403 Forbidden: Authorization error.'), 'has run out'),
    'revision': (OSError("v9 is not a valid git identifier (branch name, tag name or commit id) that exists for this model name."), 'has no revision'),
    'too many': (OSError("Client error '429 Too Many Requests' for url 'x'"), 'wait some minutes'),
    'server': (OSError("Server error '503 Service Unavailable' for url 'x'"), 'trouble of its own'),
    'timeout': (OSError('HTTPSConnectionPool: Read timed out.'), 'did not answer in time'),
    'broken off': (OSError('Consistency check failed: file should be of size 9 but has size 3'), 'in part only'),
    'a file': (OSError("owner/model does not appear to have a file named model.safetensors.\nCheckout the files."), 'lacks a file'),
    'no network': (OSError("We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the cached files.\nCheck your internet connection."), 'check the name and the network'),
    'offline mode': (OfflineModeIsEnabled('Cannot reach x: offline mode is enabled.'), 'HF_HUB_OFFLINE=1'),
    'disk': (OSError(errno.ENOSPC, 'No space left on device'), 'the disk is full'),
    'quota': (OSError(errno.EDQUOT, 'Disk quota exceeded'), 'the disk is full'),
    'permission': (PermissionError(errno.EACCES, 'Permission denied', '/var/cache/hub'), 'cannot be read'),
    'memory': (MemoryError(), 'no room in memory'),
    'weights': (SafetensorError('header too small'), 'are broken'),
    'code': (ValueError('custom code\n pass `trust_remote_code=True`'), 'never run here'),
    'a package': (ImportError('\nX requires sentencepiece, which is not there.\n'), 'requires sentencepiece'),
    'anything else': (KeyError('n_embd'), "KeyError: 'n_embd'")}

@pytest.mark.parametrize('name', REMOTE)
def test_refusals_are_told_apart(name):
    e, words = REMOTE[name]
    line = str(load_fault(e, 'owner/model', 'v9'))
    assert len(line.splitlines()) == 1 and [w for _, w in REMOTE.values() if w in line] == [words]*sum(w == words for _, w in REMOTE.values()), line
    assert 'owner/model' in line and type(load_fault(e, 'owner/model')) in (ValueError, FileNotFoundError, RuntimeError, OSError)

def test_what_lies_under_an_error_counts():
    "transformers wraps the hub's refusal; and what the hub said first is known when only the cache was searched"
    bare = OSError('x')
    for inner, words in ((RevisionNotFoundError('404', response=Mock()), 'has no revision'), (HTTPError('the read operation timed out'), 'in time')):
        outer = OSError('could not load'); outer.__cause__ = inner
        assert words in str(load_fault(outer, 'a/b', 'v2')) and words in str(load_fault(bare, 'a/b', 'v2', inner))
    a, b = OSError('a'), OSError('b'); a.__cause__, b.__cause__ = b, a              # a circle
    assert 'check the name' in str(load_fault(a, 'a/b'))
    assert 'check the name' in str(load_fault(OSError('owner/Timeout: gone'), 'owner/Timeout'))     # a name is no message

@pytest.mark.parametrize('where', [0, 1, 2])
def test_a_line_keeps_the_remedy_wherever_it_stands(where):
    lines = ['It did not work.', '  (1) a reason,', '(2) another.']; lines.insert(where, 'You need sentencepiece: pip install sentencepiece')
    for end in ('\n', '\r\n', '\n\n', '\u2028', '\x0b', '\x85'):
        for name in ('owner/model', '/tmp'):
            line = str(load_fault(ValueError(end + end.join(lines) + end), name))
            assert 'pip install sentencepiece' in line and len(line.splitlines()) == 1, line
    names = ', '.join(f'model-{i}' for i in range(400))
    assert in_one_line(f'One of these: {names}.\nUpdate transformers.') == 'One of these: model-0, model-1, model-2, ..., model-399. Update transformers.'
    assert in_one_line('') == '' and 'BaseException' in str(load_fault(BaseException(), 'owner/model'))

# Folders and files
def test_a_folder_that_hides_the_hub(here):
    Path('gpt2').mkdir(); Path('owner/model').mkdir(parents=True); shutil.copytree('m', 'half'); Path('half/model.safetensors').unlink()
    for name in ('gpt2', 'owner/model', 'half'):
        for args in ((name, 'm'), ('m', name)):
            line = said(lambda: load_pair(*args, device='cpu'), FileNotFoundError)
            assert repr(name) in line and 'folder' in line and 'hub' in line and 'rename' in line, line
    for plain in (f'{here}/gpt2', './gpt2'): assert 'hub' not in said(lambda: load_pair(plain, 'm', device='cpu'))     # nobody would write a hub id like this
    Path('distilgpt2').write_text('x')
    assert "'distilgpt2' is a file" in said(lambda: load_pair('m', 'distilgpt2', device='cpu'), ValueError)
    Path('tiny').mkdir(); assert load_pair(device='cpu').name == 'tiny'
    shutil.copytree('m', 'toy')
    with pytest.warns(UserWarning, match=r"is ./toy"): assert load_pair('toy').name == 'toy'                         # a name of ours hides a folder
    assert load_pair('./toy', './toy', device='cpu').target.config.n_embd == 8

def test_folders_that_lack_something(here):
    def copy(name, without=(), **files):
        shutil.copytree('m', name)
        for f in without: Path(name, f).unlink()
        for f, text in files.items(): Path(name, f).write_bytes(text)
        return name
    tokens = [f.name for f in Path('m').glob('tokenizer*')]
    for name, words in {copy('noconf', ['config.json']): 'no config.json', copy('bin', ['model.safetensors'], **{'pytorch_model.bin': b'x'}): '.bin files can run code', copy('none', ['model.safetensors']): 'model.safetensors',
                        copy('bad', **{'config.json': b'{'}): 'not a valid JSON', copy('words', tokens): 'no tokenizer beside', copy('cut', **{'model.safetensors': b'x'}): 'broken'}.items():
        line = said(lambda: load_pair(f'{here}/{name}', f'{here}/m', device='cpu'), (ValueError, FileNotFoundError))
        assert words in line and name in line, line
    wide = json.loads(Path('m/config.json').read_text()) | dict(n_embd=16)
    copy('wide', **{'config.json': json.dumps(wide).encode()})
    assert 'other shapes' in said(lambda: load_pair('wide', 'm', device='cpu'), ValueError)
    assert load_pair('m', 'words', device='cpu').name == 'm/words'                                                  # a draft without a tokenizer is taken at its word
    assert said(lambda: load_pair('m/config.json', 'm'), ValueError).startswith("'m/config.json' is a file")

@pytest.mark.parametrize('name', [None, 5, 1.5, True, b'gpt2', ['gpt2'], '', ' ', '\n', 'a\0b', 'a b', '/no/such', './no', 'a/b/c', '-x', 'x' * 300, '..', '.', '~', Path(''), 'näh/me'], ids=repr)
def test_odd_names(here, name):
    for args in ((name, 'm'), ('m', name)):
        if args[1] is not None: said(lambda: load_pair(*args, device='cpu'), (ValueError, TypeError, FileNotFoundError))
    assert 'no draft of its own' in said(lambda: load_pair('m', device='cpu'), ValueError)

def test_a_pair_in_the_working_folder(here, monkeypatch):
    monkeypatch.chdir(here/'m')
    assert load_pair('.', Path('../m'), device='cpu').name == 'm/m'

# Devices and dtypes
@pytest.mark.parametrize('device', [None, 7, True, '', 'CPU', 'tpu', 'cpu:1', 'cpu:x', 'cpu:', 'cuda:99', 'cuda:-1', 'mps:1', 'meta', torch.device('meta'), ['cpu'], 'cpu cuda'], ids=repr)
def test_odd_devices(device):
    for call in (lambda: load_pair(device=device), lambda: toy_pair(device=device), lambda: dialled_pair(device=device), lambda: pick_device(device)):
        assert 'device=' in said(call, ValueError)

def test_one_name_for_one_device():
    assert {pick_device(d) for d in ('cpu', 'cpu:0', torch.device('cpu'), torch.device('cpu', 0))} == {torch.device('cpu')}
    assert toy_pair('auto').target.device == pick_device() and toy_pair(dtype='bfloat16').draft.dtype == torch.bfloat16

def test_a_device_that_is_one_too_many(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True); monkeypatch.setattr(torch.cuda, 'device_count', lambda: 2)
    assert [str(pick_device(d)) for d in ('cuda', 'cuda:1')] == ['cuda', 'cuda:1']
    assert 'sees 2 of them' in said(lambda: pick_device('cuda:2'), ValueError)

@pytest.mark.parametrize('dtype', [None, 7, True, '', 'fp32', 'int8', [], {}, torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn, torch.device('cpu')], ids=repr)
def test_odd_dtypes(dtype):
    for call in (lambda: load_pair(dtype=dtype), lambda: toy_pair(dtype=dtype), lambda: dialled_pair(dtype=dtype), lambda: pick_dtype(dtype)):
        assert 'dtype=' in said(call, ValueError)

# Tokenizers
def special(*names, plain=()):
    t = byte_tokenizer()
    t.add_special_tokens(dict(additional_special_tokens=[*names]))
    t.add_tokens([*plain])
    return t

def test_special_tokens_of_another_name(here):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        for a, b in ((special('<a>'), special('<a>')), (special('<a>'), special('<a>', '<b>')), (special(), special('<a>'))): check_tokenizers(a, b, 'TD')
    for a, b in ((special('<a>'), special('<b>')), (special('<a>', '<b>'), special('<b>', '<a>')), (special('<a>'), special(plain=['<think>'])), (special(plain=['<think>']), special('<a>'))):
        with pytest.warns(UserWarning, match='special tokens differently.*id 256 is'): check_tokenizers(a, b, 'TD')
    assert "id 256 is 'one' in one and 'two' in the other" in said(lambda: check_tokenizers(special(plain=['one']), special(plain=['two']), 'TD'), ValueError)
    other = Path('other'); shutil.copytree('m', other)
    for t, folder in ((special('<a>'), 'm'), (special('<b>'), other)): t.save_pretrained(folder)
    with pytest.warns(UserWarning, match='special tokens differently') as told: pair = load_pair('m', other, device='cpu')
    assert len(told) == 1 and Path(told[0].filename).name != 'warnings.py' and generate(pair.target, pair.draft, [1, 2], 4).tokens.shape == (4,)

def test_a_draft_with_another_tokenizer_by_choice(here):
    "Refused, with the token and the way round; and lossless all the same"
    vocab = json.loads(Path('m/tokenizer.json').read_text()); words = vocab['model']['vocab']
    words['a'], words['b'] = words['b'], words['a']
    shutil.copytree('m', 'swapped'); Path('swapped/tokenizer.json').write_text(json.dumps(vocab))
    line = said(lambda: load_pair('m', 'swapped', device='cpu', translate='no'), ValueError)
    assert "is 'b' in one and 'a' in the other" in line.replace("is 'a' in one and 'b'", "is 'b' in one and 'a'") and 'check=False' in line
    with pytest.warns(UserWarning, match='drafting by .shared.'): pair = load_pair('m', 'swapped', device='cpu')
    assert type(pair.draft).__name__ == 'TranslatedDraft'
    assert torch.equal(generate(pair.target, pair.draft, [1, 2], 8).tokens, generate(pair.target, None, [1, 2], 8).tokens)
    assert 'one of auto, text, shared, no' in said(lambda: load_pair('m', 'swapped', device='cpu', translate='perhaps'), ValueError)
    pair = load_pair('m', 'swapped', device='cpu', check=False)
    assert torch.equal(generate(pair.target, pair.draft, [1, 2], 8).tokens, generate(pair.target, None, [1, 2], 8).tokens)

# Pairs that are made
@pytest.mark.parametrize('alpha', [float('nan'), float('inf'), -1, 1.0001, True, False, '0.7', None, [.5], 1j], ids=repr)
def test_odd_alphas(alpha):
    assert 'it must be in [0, 1]' in said(lambda: dialled_pair(alpha=alpha, device='cpu'), ValueError)

@pytest.mark.parametrize('seed', [None, 1.5, '1', 2**70], ids=repr)
def test_odd_seeds(seed):
    few = dict(SHAPE)
    assert 'seed=' in said(lambda: dialled_pair(few, few, seed=seed, device='cpu'), ValueError)

@pytest.mark.parametrize('shape', [None, 5, 'gpt5', ['gpt2'], dict(n_layers=3), dict(SHAPE, n_embd=7)], ids=repr)
def test_odd_shapes(shape):
    said(lambda: dialled_pair(shape, shape, device='cpu'), ValueError)

@pytest.mark.parametrize('n', [0, -1, 10**6, 1.5, None, True, '3'], ids=repr)
def test_odd_numbers_of_prompts(n):
    assert 'whole number in 1..' in said(lambda: held_out_prompts(n), ValueError)

def test_what_is_allowed():
    assert _shape_config(dict(n_layer=3)).n_layer == 3 and _shape_config('gpt2').n_layer == 12
    assert all(len(v) == 8 for v in held_out_prompts(8).values())
