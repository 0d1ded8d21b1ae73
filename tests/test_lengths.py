"How many tokens a model knows and can read comes from its weights; where positions are counted in another way, or change with the length, no pass goes over the edge."
import pytest, torch, transformers
from specdec import autoregressive, generate
from specdec.models import HFModel, context_of, vocabulary_of
from specdec.written_out import as_cached

def random_model(cls, config, std=.3):
    "Every matrix drawn with a visible size"
    model, g = cls(config).eval(), torch.Generator().manual_seed(0)
    for p in model.parameters():
        if p.ndim > 1: p.data.normal_(std=std, generator=g)
    return model

def gpt2(**kw):
    shape = dict(vocab_size=97, n_positions=64, n_embd=32, n_head=2, n_layer=1, bos_token_id=None, eos_token_id=None)
    return random_model(transformers.GPT2LMHeadModel, transformers.GPT2Config(**shape | kw))

def hooked(model):
    "The same, read by transformers' own forward"
    model.transformer.h[0].register_forward_hook(lambda *args: None)
    return model

SHAPE = dict(vocab_size=97, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64, pad_token_id=1, bos_token_id=None, eos_token_id=None)
WAYS = dict(written_out=lambda m: m, transformers=hooked)

@pytest.mark.parametrize('way', WAYS.values(), ids=WAYS)
def test_sizes_are_those_of_the_weights(way):
    said = way(gpt2())
    said.config.vocab_size, said.config.n_positions = 300, 200
    assert (as_cached(said).vocab_size, as_cached(said).max_length) == (vocabulary_of(said), context_of(said)) == (97, 64)
    assert generate(said, None, [1, 2, 3], 100).finish_reason == 'context'
    short = way(gpt2())
    short.config.n_positions = 20                                         # where the configuration allows less, for other loops too
    assert len(generate(short, None, [1, 2, 3], 100).tokens) == 17
    low = way(gpt2())                                                     # a head that scores fewer tokens than can be read
    low.lm_head = torch.nn.Linear(32, 90, bias=False)
    out = autoregressive(low, [95, 2, 3][1:], 20)
    assert as_cached(low).vocab_size == 90 and len(out.tokens) == 20
    tall = way(gpt2())                                                    # and one that scores more
    tall.lm_head = torch.nn.Linear(32, 200, bias=False)
    with pytest.raises(ValueError, match=r'scores 200 tokens and can read 97 of them: resize_token_embeddings\(200\)'): as_cached(tall)
    tall.lm_head.weight, tall.lm_head.out_features = torch.nn.Parameter(torch.randn(150, 32)), 97
    with pytest.raises(ValueError, match='scores 150 tokens'): as_cached(tall)
    tall = way(gpt2())
    tall.resize_token_embeddings(120)
    assert as_cached(tall).vocab_size == 120 and len(autoregressive(tall, [110, 2], 8).tokens) == 8

def test_rows_that_are_not_those_of_the_head():
    model = gpt2()
    old = model.forward
    def narrowed(*args, **kw):
        out = old(*args, **kw)
        out.logits = out.logits[..., :50]
        return out
    model.forward = narrowed
    with pytest.raises(ValueError, match='rows of 50 scores and its head has 97'): generate(model, None, [1, 2], 4)

@pytest.mark.parametrize('kind', ['Roberta', 'XLMRoberta', 'Camembert', 'Data2VecText', 'RobertaPreLayerNorm', 'XLMRobertaXL'])
def test_positions_that_are_counted_from_the_padding_token(kind):
    config = getattr(transformers, f'{kind}Config')(**SHAPE, is_decoder=True)
    model = getattr(transformers, f'{kind}ForCausalLM')(config).eval()
    with pytest.raises(ValueError, match=f'{kind}ForCausalLM counts positions from its padding token'): as_cached(model)

def longrope(where=24, **kw):
    rope = dict(rope_type='longrope', rope_theta=1e4, short_factor=[1.]*4, long_factor=[8.]*4, original_max_position_embeddings=where)
    config = transformers.Phi3Config(**SHAPE | dict(max_position_embeddings=128), num_key_value_heads=2, original_max_position_embeddings=where, rope_parameters=rope)
    return random_model(transformers.Phi3ForCausalLM, config)

def test_positions_whose_factors_change():
    transformers.logging.set_verbosity_error()
    model, ids = longrope(), torch.arange(1, 19)
    assert context_of(model) == HFModel(model).max_length == 24
    plain = autoregressive(model, ids, 40)
    assert plain.finish_reason == 'context' and len(plain.tokens) == 6     # to the edge and no further
    for gamma in (1, 3, 8):
        out = generate(model, longrope(20), ids, 40, gamma=gamma)          # nor the draft over its own
        assert out.tokens.equal(plain.tokens) and out.finish_reason == 'context'
    theirs = model.generate(ids[None], attention_mask=torch.ones(1, 18), do_sample=False, max_new_tokens=6, pad_token_id=0)[0, 18:]
    assert plain.tokens.equal(theirs)
    with pytest.raises(ValueError, match='the context holds 24'): generate(model, None, torch.arange(1, 31), 4)

def test_factors_of_older_and_of_nested_configurations():
    class Config:
        max_position_embeddings = 100
        def __init__(self, **kw): vars(self).update(kw)
        def get_text_config(self): return self
    class Model(torch.nn.Module):
        def __init__(self, config): super().__init__(); self.config = config
    old = dict(type='longrope', short_factor=[1.], long_factor=[2.])
    for kw, n in ((dict(rope_scaling=old, original_max_position_embeddings=30), 30), (dict(rope_parameters=dict(full_attention=dict(old, original_max_position_embeddings=40), sliding_attention=dict(rope_type='default'))), 40),
                  (dict(rope_parameters=dict(rope_type='dynamic', factor=2.)), 100), (dict(rope_scaling=None), 100), ({}, 100)):
        assert context_of(Model(Config(**kw))) == n
