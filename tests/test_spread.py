"A target whose layers are spread over CPU and disk: the same text, never the written-out form; and what is refused."
import importlib.util
from types import SimpleNamespace
import pytest, torch
from specdec import generate, load_pair
from specdec.decoding import autoregressive
from specdec.models import HFModel, device_of
from specdec.written_out import as_cached, is_written_out
from specdec.zoo import byte_tokenizer, random_gpt2

SHAPE = dict(vocab_size=256, n_embd=32, n_head=2, n_positions=128, bos_token_id=None, eos_token_id=None)
LAYERS = {f'transformer.h.{i}': place for i, place in enumerate(('cpu', 'disk', 'disk', 'cpu'))}
SPREAD = dict(LAYERS, **{k: 'cpu' for k in ('transformer.wte', 'transformer.wpe', 'transformer.drop', 'transformer.ln_f', 'lm_head')})
needed = pytest.mark.skipif(not importlib.util.find_spec('accelerate'), reason='accelerate is not installed')

@pytest.fixture
def folders(tmp_path):
    for seed, name, n in ((1, 'big', 4), (2, 'small', 1)):
        random_gpt2(seed, n_layer=n, **SHAPE).save_pretrained(tmp_path/name)
        byte_tokenizer().save_pretrained(tmp_path/name)
    return str(tmp_path/'big'), str(tmp_path/'small')

@needed
def test_layers_between_cpu_and_disk_give_the_same_text(folders, tmp_path):
    whole = load_pair(*folders, device='cpu', dtype='float32')
    spread = load_pair(*folders, device='cpu', dtype='float32', device_map=SPREAD, offload_folder=str(tmp_path/'off'))
    assert any(p.is_meta for p in spread.target.parameters()) and not any(p.is_meta for p in spread.draft.parameters())
    assert not is_written_out(spread.target) and type(as_cached(spread.target)) is HFModel and is_written_out(whole.target)
    for kw in ({}, dict(temperature=.8, seed=5)):
        a, b = (generate(p.target, p.draft, 'def f(', 40, gamma=3, tokenizer=p.tokenizer, **kw) for p in (whole, spread))
        assert a.tokens.equal(b.tokens) and a.stats.kept == b.stats.kept

@needed
def test_all_layers_on_disk(folders, tmp_path):
    whole = load_pair(*folders, device='cpu', dtype='float32')
    spread = load_pair(*folders, device='cpu', dtype='float32', device_map={'': 'disk'}, offload_folder=str(tmp_path/'off'))
    if device_of(spread.target).type == 'meta': pytest.skip('this accelerate says nowhere where such a model runs')
    assert autoregressive(spread.target, 'x = 1', 8, tokenizer=spread.tokenizer).tokens.equal(autoregressive(whole.target, 'x = 1', 8, tokenizer=whole.tokenizer).tokens)

def test_where_ids_go_in():
    "The hook's device counts, where there is one: the first layer may lie elsewhere"
    model = SimpleNamespace(device=torch.device('meta'), _hf_hook=SimpleNamespace(execution_device='cpu'))
    assert device_of(model) == torch.device('cpu') and device_of(SimpleNamespace(device=torch.device('cpu'))) == torch.device('cpu')

@pytest.mark.parametrize('name', ['toy', 'smollm2'])
def test_what_is_not_spread(name):
    with pytest.raises(ValueError, match=f'device_map: .{name}. is small'): load_pair(name, device_map='auto')

def test_without_accelerate(folders, monkeypatch):
    monkeypatch.setattr('specdec.zoo.find_spec', lambda name: None)
    with pytest.raises(ValueError, match='device_map needs the package accelerate.*pip install'): load_pair(*folders, device_map='auto')
