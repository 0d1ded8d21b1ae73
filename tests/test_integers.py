"Weights of eight and four bits as integers: what they stand for, what they weigh, whose text they give"
import warnings
from contextlib import contextmanager
import pytest, torch
import specdec.kernels as kernels
from specdec import load_pair
from specdec.decoding import autoregressive, generate, lossless_report
from specdec.dialled import dialled_pair
from specdec.kernels import IntegerLinear, why_no_integers
from specdec.models import HFModel
from specdec.pairs import named_draft, open_pair
from specdec.quantise import quantise, quantised_bytes, why_not_packed
from specdec.roofline import weight_bytes
from specdec.written_out import as_cached, is_written_out
from specdec.zoo import random_gpt2
from transformers import LlamaConfig, LlamaForCausalLM

HALF = torch.bfloat16
WHY = why_no_integers([(64, 64)], 4, 'cpu') or why_no_integers([(64, 64)], 8, 'cpu')
here = pytest.mark.skipif(bool(WHY), reason=WHY)
IDS = torch.arange(3, 23)

def gpt2(dtype=torch.float32, **kw):
    return random_gpt2(1, vocab_size=97, n_positions=96, n_embd=64, n_head=4, n_layer=2, bos_token_id=None,
                       eos_token_id=None, initializer_range=.2, **kw).to(dtype)

def llama(dtype=torch.float32):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=97, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=96, initializer_range=.2)).eval().to(dtype)

MODELS = dict(gpt2=gpt2, llama=llama)

@contextmanager
def hidden(monkeypatch, *names):
    "A torch without these operations"
    class Aten:
        def __getattr__(self, name):
            if name in names: raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
            return getattr(torch.ops.aten, name)
    class Ops:
        aten, mkldnn = Aten(), torch.ops.mkldnn
    class Torch:
        ops = Ops()
        def __getattr__(self, name): return getattr(torch, name)
    kernels._trial.cache_clear()
    monkeypatch.setattr(kernels, 'torch', Torch())
    try:
        yield
    finally:
        monkeypatch.undo()
        kernels._trial.cache_clear()

NO_INTEGERS = '_weight_int8pack_mm', '_weight_int4pack_mm_for_cpu'

def storages(model, view):
    "Memory that a model and its written-out form hold: start -> bytes"
    def walk(o):
        "The tensors in it"
        if isinstance(o, torch.Tensor): yield o
        elif isinstance(o, (list, tuple)): yield from (t for e in o for t in walk(e))
        elif isinstance(o, torch.nn.Module): yield from (*o.parameters(), *o.buffers())
        elif callable(o) and getattr(o, '__closure__', None): yield from walk([c.cell_contents for c in o.__closure__])
        elif hasattr(o, '__dict__') and type(o).__module__.startswith('specdec'): yield from walk([*vars(o).values()])
        elif isinstance(o, dict): yield from walk([*o.values()])
    w = view.w
    parts = [*walk(model), *walk([w.layers, w.head, w.wte, w.norm, getattr(w, 'wpe', None)])]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in parts}

@here
@pytest.mark.parametrize('kind', MODELS)
@pytest.mark.parametrize('bits, method', [(8, 'rtn'), (4, 'rtn'), (4, 'gptq'), (8, 'gptq')])
def test_rows_are_those_of_the_rounded_weights(kind, bits, method):
    model, text = MODELS[kind](HALF), IDS.repeat(4)[None]
    given = {k: v.clone() for k, v in model.state_dict().items()}
    how = dict(method=method, calibration=text if method == 'gptq' else None)
    floats, ints = quantise(model, bits, **how), quantise(model, bits, packed=True, **how)
    assert all(torch.equal(v, given[k]) for k, v in model.state_dict().items())
    layers = {k: m for k, m in ints.named_modules() if isinstance(m, IntegerLinear)}
    assert len(layers) == (8 if kind == 'gpt2' else 14)
    for k, m in layers.items():                                             # each weight, read out with unit vectors
        W = m.rows(torch.eye(m.in_features, dtype=HALF)).float()
        simulated = floats.get_submodule(k).weight.float()
        assert torch.equal(W, simulated if kind == 'gpt2' else simulated.t())
    a, b = as_cached(ints).forward(IDS).float(), as_cached(floats).forward(IDS).float()
    exact = as_cached(floats.float()).forward(IDS)
    rounding = (b - exact).abs().max()                                      # what bfloat16 costs the floats
    assert (a - exact).abs().max() <= 3*rounding

@here
@pytest.mark.parametrize('kind', MODELS)
@pytest.mark.parametrize('bits', [8, 4])
def test_written_out_and_transformers_give_the_same_rows(kind, bits):
    ints = quantise(MODELS[kind](HALF), bits, packed=True)
    assert not is_written_out(ints) and not isinstance(as_cached(ints), HFModel)
    a, b = as_cached(ints).forward(IDS).float(), HFModel(ints).forward(IDS).float()
    assert (a - b).abs().max() <= 2**-5 * b.abs().max()
    lm = as_cached(ints)
    one_by_one = torch.cat([lm.forward(i[None]) for i in IDS]).float()
    assert (one_by_one - a).abs().max() <= 2**-5 * b.abs().max()

@here
@pytest.mark.parametrize('dtype', [torch.float32, HALF], ids=str)
@pytest.mark.parametrize('name', ['int8', 'int4', 'int4-gptq'])
def test_greedy_text_is_the_targets_own(name, dtype):
    pair = load_pair(device='cpu', dtype=dtype)
    for text in ('def main(argv):\n', 'The module provides'):
        ids = torch.tensor(pair.tokenizer(text).input_ids)
        with warnings.catch_warnings():
            warnings.simplefilter('error')
            draft = named_draft(name, pair.target)
        assert draft.transformer.h[0].mlp.c_fc.bits == int(name[3])
        out, plain = generate(pair.target, draft, ids, 48, 4), autoregressive(pair.target, ids, 48)
        assert out.stats.kept > out.stats.rounds                            # drafts were taken, or it proves nothing
        report = lossless_report(pair.target, ids, out.tokens, plain.tokens)
        assert report.verdict == 'exact' if dtype == torch.float32 else report.verdict in ('exact', 'tie')

@here
@pytest.mark.parametrize('bits', [8, 4])
@pytest.mark.parametrize('rule', ['token', 'block'])
def test_a_rounded_target_is_lossless_with_respect_to_itself(bits, rule):
    pair = load_pair(device='cpu', dtype=HALF, target_bits=bits)
    assert pair.target.transformer.h[0].attn.c_attn.bits == bits
    ids = torch.tensor(pair.tokenizer('import os\n').input_ids)
    plain = autoregressive(pair.target, ids, 48)
    for draft in (pair.draft, named_draft('lookup', pair.target), named_draft('early_exit:4', pair.target)):
        out = generate(pair.target, draft, ids, 48, 4, rule='greedy' if rule == 'token' else rule)
        assert lossless_report(pair.target, ids, out.tokens, plain.tokens).verdict in ('exact', 'tie')
    assert out.stats.rounds < 48

def test_a_rounded_target_in_float32_says_that_it_is_held_as_floats():
    with pytest.warns(UserWarning, match='is to compute in float32: it is rounded to 4 bits and held as floats'):
        pair = load_pair('toy', device='cpu', target_bits=4)
    same = quantise(load_pair('toy', device='cpu').target, 4)
    assert all(map(torch.equal, pair.target.state_dict().values(), same.state_dict().values()))
    assert pair.draft is not None
    out, plain = (f(pair.target, *a, IDS, 24) for f, a in ((generate, [pair.draft]), (autoregressive, [])))
    assert torch.equal(out.tokens, plain.tokens)

@here
@pytest.mark.parametrize('bits', [8, 4])
def test_memory_is_what_was_counted(bits, monkeypatch):
    monkeypatch.setenv('SPECDEC_KERNELS', 'left')                           # one whose memory can be counted
    target = gpt2(HALF)
    before = storages(target, as_cached(target))
    draft = quantise(target, bits, packed=True)
    view = as_cached(draft)
    more = {k: v for k, v in storages(draft, view).items() if k not in before}
    in_blocks = sum(m.weight.numel() for k, m in target.named_modules() if k.startswith('transformer.h.')
                    and hasattr(m, 'nf'))
    scales = sum(m.scales.nbytes for m in draft.modules() if isinstance(m, IntegerLinear))
    assert sum(more.values()) == in_blocks*bits//8 + scales                 # the integers, their scales, nothing else
    # `quantised_bytes` counts one scale a group, a product of four bits has a zero beside it
    own = sum(p.nbytes for p in target.parameters())
    kept = own - 2*in_blocks
    assert quantised_bytes(target, bits) == kept + in_blocks*bits//8 + scales // (1 if bits == 8 else 2)
    assert weight_bytes(draft) == weight_bytes(target) - 2*in_blocks + in_blocks*bits//8 + scales
    # for a shape of which the blocks are nearly all: a quarter or a half
    assert sum(more.values()) / (2*in_blocks) == pytest.approx(bits/16, rel=.14)

@pytest.mark.parametrize('name', ['int8', 'int4'])
def test_a_machine_without_the_products_gets_a_sentence(name, monkeypatch):
    pair = load_pair(device='cpu')
    ids = torch.tensor(pair.tokenizer('def f(x):\n').input_ids)
    real = None if WHY else generate(pair.target, named_draft(name, pair.target), ids, 64, 4)
    with hidden(monkeypatch, *NO_INTEGERS):
        with pytest.warns(UserWarning, match=f'a product of {name[3]} bits on cpu: this torch.* has none .*held as floats'):
            draft = named_draft(name, pair.target)
        with pytest.raises(ValueError, match='packed=True: a product of'): quantise(pair.target, int(name[3]), packed=True)
    assert not any(isinstance(m, IntegerLinear) for m in draft.modules())
    out = generate(pair.target, draft, ids, 64, 4)
    assert torch.equal(out.tokens, autoregressive(pair.target, ids, 64).tokens)
    if real:                                                                # the same acceptance, within its error
        p, n = out.stats.alpha_hat, out.stats.tested
        assert abs(real.stats.alpha_hat - p) <= 4*max(p*(1 - p), 1/n)**.5 / n**.5

def test_a_product_with_wrong_numbers_is_not_used(monkeypatch):
    kernels._trial.cache_clear()
    monkeypatch.setattr(IntegerLinear, 'rows', lambda self, x: x.new_zeros(len(x), self.out_features))
    assert 'gives wrong numbers' in why_no_integers([(64, 64)], 8, 'cpu')
    monkeypatch.undo()
    kernels._trial.cache_clear()

@here
def test_what_cannot_be_packed_is_said():
    odd = random_gpt2(1, vocab_size=31, n_positions=32, n_embd=24, n_head=2, n_layer=1, eos_token_id=0,
                      bos_token_id=0)
    # torch's own product of 8 bits ends the process on 24 rows, where nothing stops it
    assert '24 x 72 is no multiple of 32 x 1' in why_not_packed(odd, 8)
    assert '24 x 72 is no multiple of 32 x 16' in why_not_packed(odd, 4)
    with pytest.warns(UserWarning, match='24 x 72 is no multiple'): draft = named_draft('int8', odd)
    assert type(draft) is type(odd)
    ints = quantise(gpt2(), 8, packed=True)
    with pytest.raises(ValueError, match='no linear layers of plain numbers'): quantise(ints, 4)
    with pytest.raises(ValueError, match='bits=3: it must be 8 or 4'): load_pair('toy', target_bits=3)

@here
def test_a_dialled_target_drafts_for_itself_as_often_as_was_asked():
    pair = open_pair('random distilgpt2', 'int8', alpha=.8, dtype='bfloat16', device='cpu')
    assert pair.name == 'distilgpt2/int8'
    out = generate(pair.target, pair.draft, torch.arange(16), 96, 3)
    assert torch.equal(out.tokens, autoregressive(pair.target, torch.arange(16), 96).tokens)
    script = dialled_pair('distilgpt2', 'distilgpt2', .8, 0, HALF, 'cpu')
    agree = (script.target.script == script.draft.script)[15:111]
    assert out.stats.kept <= int(agree.sum()) and out.stats.kept > 20 and agree.float().mean() < 1

@here
def test_threads_change_the_shares_and_not_the_rows():
    target = gpt2(HALF)
    draft = quantise(target, 4, packed=True)
    rows, threads = as_cached(draft).forward(IDS).float(), torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        view = as_cached(draft)
        assert view.w.S == 2
        assert (view.forward(IDS).float() - rows).abs().max() <= 2**-5 * rows.abs().max()
    finally:
        torch.set_num_threads(threads)
