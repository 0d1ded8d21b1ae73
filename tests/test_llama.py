"The families that are built like Llama, written out: transformers' own rows and greedy text, and who is left to transformers."
import pytest, torch, transformers
from specdec import generate, speculative
from specdec.decoding import autoregressive
from specdec.models import HFModel
from specdec.pairs import named_draft
from specdec.written_out import GraphedLlama, StaticLlama, as_cached, is_written_out

SHAPE = dict(vocab_size=97, max_position_embeddings=256, hidden_size=32, num_attention_heads=4, head_dim=8, num_key_value_heads=2, num_hidden_layers=3, intermediate_size=48, eos_token_id=None, bos_token_id=None)
LLAMA3 = dict(rope_type='llama3', rope_theta=1e4, factor=8., low_freq_factor=1., high_freq_factor=4., original_max_position_embeddings=32)
FAMILIES = dict(llama=('Llama', {}), llama3=('Llama', dict(rope_parameters=LLAMA3, tie_word_embeddings=True)), smollm2=('Llama', dict(tie_word_embeddings=True, num_attention_heads=3, num_key_value_heads=1, hidden_size=24)),
                biased=('Llama', dict(attention_bias=True, mlp_bias=True)), yarn=('Llama', dict(rope_parameters=dict(rope_type='yarn', rope_theta=1e4, factor=4., original_max_position_embeddings=64))),
                linear=('Llama', dict(rope_parameters=dict(rope_type='linear', rope_theta=1e4, factor=4.))),
                qwen2=('Qwen2', {}), qwen3=('Qwen3', dict(head_dim=16)), mistral=('Mistral', dict(sliding_window=40)), whole=('Mistral', dict(sliding_window=None)))

def model(name='llama', seed=0, **kw):
    family, special = FAMILIES[name]
    m = getattr(transformers, f'{family}ForCausalLM')(getattr(transformers, f'{family}Config')(**SHAPE | special | kw)).eval()
    g = torch.Generator().manual_seed(seed)
    for p in m.parameters(): p.data.normal_(std=.3, generator=g)
    return m

def some_ids(n, seed=0): return torch.randint(97, (n,), generator=torch.Generator().manual_seed(seed))
def greedy(m, ids, n, **kw): return m.generate(ids[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long), do_sample=False, max_new_tokens=n, pad_token_id=0, **kw)[0, len(ids):]

@torch.no_grad()
def own_rows(m, ids): return m(ids[None], use_cache=False).logits[0]

@pytest.mark.parametrize('name', FAMILIES)
def test_rows_are_transformers_own(name):
    m, ids = model(name), some_ids(200)
    truth = own_rows(m, ids)
    for kind in (StaticLlama, GraphedLlama):
        lm = kind(m)
        got = torch.cat([lm.forward(part) for part in ids.split((1, 60, 5, 1, 1, 9, 100, 23))])
        assert (got - truth).abs().max() <= 2e-5 * truth.abs().max(), kind

@pytest.mark.parametrize('name', FAMILIES)
def test_greedy_text_over_150_tokens(name):
    target, draft, ids = model(name), model(name, seed=1, num_hidden_layers=1), some_ids(11)
    want = greedy(target, ids, 150)
    assert autoregressive(target, ids, 150).tokens.equal(want)
    for gamma in (1, 4, 7):
        for d in (draft, named_draft('early_exit:2', target), named_draft('int8', target), named_draft('lookup', target)):
            out = generate(target, d, ids, 150, gamma=gamma)
            assert out.tokens.equal(want), (gamma, d)
    assert greedy(target, ids, 150, custom_generate=speculative(draft)).equal(want)

@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float64])
def test_other_precisions(dtype):
    m, ids = model().to(dtype), some_ids(50)
    a, b = StaticLlama(m).forward(ids).double(), own_rows(m, ids).double()
    assert (a - b).abs().max() <= (.05 if dtype == torch.bfloat16 else 1e-6) * b.abs().max()

def hooked(m): m.model.layers[1].mlp.register_forward_hook(lambda module, args, out: out * 2)
def patched(m): m.model.layers[0].self_attn.forward = m.model.layers[0].self_attn.forward
def rescaled(m): m.model.layers[2].self_attn.scaling *= 2
def adapted(m): m.model.layers[0].mlp.up_proj = torch.nn.Sequential(m.model.layers[0].mlp.up_proj)
def subclassed(m):
    class Mine(type(m.model.norm)): pass
    m.model.norm.__class__ = Mine
def shortened(m): m.config.num_hidden_layers = 2                                   # transformers would stop after two layers

@pytest.mark.parametrize('change', [hooked, patched, rescaled, adapted, subclassed, shortened], ids=lambda f: f.__name__)
@pytest.mark.parametrize('name', ['llama', 'qwen2', 'qwen3', 'mistral'])
def test_what_was_changed_is_read_by_transformers(name, change):
    m, ids = model(name), some_ids(30)
    view = as_cached(m)
    assert is_written_out(m) and type(view) is StaticLlama
    change(m)
    assert not is_written_out(m) and type(as_cached(m)) is HFModel
    assert (as_cached(m).forward(ids) - own_rows(m, ids)).abs().max() <= 2e-5 * own_rows(m, ids).abs().max()
    with pytest.raises(ValueError, match='the model was changed since this view of it was made'): view.forward(ids)

@pytest.mark.parametrize('kw', [dict(hidden_act='gelu'), dict(rope_parameters=dict(rope_type='dynamic', rope_theta=1e4, factor=2.))], ids=str)
def test_variants_that_are_left_to_transformers(kw): assert not is_written_out(model(**kw))

def test_norms_of_heads_that_differ_are_left_to_transformers():
    m, ids = model('qwen3'), some_ids(20)
    m.model.layers[1].self_attn.k_norm.variance_epsilon = .1
    assert not is_written_out(m) and (as_cached(m).forward(ids) - own_rows(m, ids)).abs().max() <= 2e-5 * own_rows(m, ids).abs().max()

def test_layers_with_a_window_of_their_own_are_left_to_transformers():
    assert not is_written_out(model('qwen2', use_sliding_window=True, sliding_window=8, layer_types=['full_attention', 'sliding_attention', 'full_attention']))

def test_a_changed_weight_is_read_anew():
    m, ids = model(), some_ids(30)
    view = as_cached(m)
    for change in (lambda: m.model.layers[0].mlp.gate_proj.weight.data.mul_(2), lambda: m.model.rotary_emb.inv_freq.mul_(.5), lambda: setattr(m.model.norm, 'variance_epsilon', .1)):
        before = own_rows(m, ids)
        change()
        view.rollback(0)
        assert not torch.allclose(before, own_rows(m, ids)) and (view.forward(ids) - own_rows(m, ids)).abs().max() <= 2e-5 * before.abs().max()
