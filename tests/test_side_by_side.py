"Several texts in one pass, for architectures of transformers: what each gets is what it gets alone; others are refused"
from random import Random

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

from specdec import generate, generate_batch
from specdec.models import HFModel

SMALL = dict(vocab_size=61, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, bos_token_id=None, eos_token_id=None, pad_token_id=None)
GPT = dict(vocab_size=61, n_embd=32, n_head=4, n_layer=2, n_positions=64)
RIGHT = dict(llama=SMALL, qwen2=SMALL, qwen3=SMALL | dict(head_dim=8), gemma=SMALL | dict(head_dim=8), phi=SMALL,
             gpt_neox=SMALL, stablelm=SMALL, olmo=SMALL, gptj=GPT | dict(rotary_dim=4), gpt2=GPT,
             mixtral=SMALL | dict(num_local_experts=4), granite=SMALL, starcoder2=SMALL | dict(sliding_window=None),
             opt=SMALL | dict(ffn_dim=48, word_embed_proj_dim=32))
REFUSED = dict(gemma2=(SMALL | dict(head_dim=8, sliding_window=8), 'window'),
               mistral=(SMALL | dict(sliding_window=8), 'window'),
               bloom=(dict(vocab_size=61, hidden_size=32, n_head=4, n_layer=2), 'no position_ids'))


def made(kind, shape):
    "A model of an architecture whose parameters are all random"
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **shape)).eval()
    for i, p in enumerate(model.parameters()):
        p.data.normal_(std=.2, generator=torch.Generator().manual_seed(i))
    return model


def walk(model, seed, steps=60, slots=4, most=5, context=40):
    "Texts come, read, roll back and go at random"
    rng, many, alone, closed = Random(seed), HFModel(model).side_by_side(slots, context), [], 0
    many.spare = 4

    def draw(m):
        return torch.tensor([rng.randrange(61) for _ in range(m)], dtype=torch.long)

    for _ in range(steps):
        if len(alone) < slots and rng.random() < .4:
            start = draw(rng.randint(1, 9))
            alone.append(HFModel(model))
            alone[-1].forward(start)
            many.enter(start)
        elif alone and (rng.random() < .15 or any(n > context - most for n in many.lengths)):
            i = rng.randrange(len(alone))
            many.leave(i)
            alone[i] = alone[-1]
            alone.pop()
        elif alone:
            ids = [draw(rng.randint(0, most)) for _ in alone]
            if not any(map(len, ids)):
                continue
            last = [rng.randint(0, len(o)) for o in ids]
            for lm, o, k, rows in zip(alone, ids, last, many.forward(ids, last)):
                want = lm.forward(o) if len(o) else rows
                torch.testing.assert_close(rows, want[len(want) - k:], atol=2e-4, rtol=1e-4)
            keep = [rng.randint(max(1, lm.length - len(o)), lm.length) for lm, o in zip(alone, ids)]
            before = many.width
            many.rollback(keep)
            closed += many.width < before
            for lm, k in zip(alone, keep):
                lm.rollback(k)
        assert many.lengths == [lm.length for lm in alone]
    assert closed > 3


@pytest.mark.parametrize('kind', RIGHT)
def test_walk(kind):
    model = made(kind, RIGHT[kind])
    for attention in ('eager', 'sdpa'):
        try:
            model.set_attn_implementation(attention)
        except ValueError:
            continue
        walk(model, seed=len(kind))


@pytest.mark.parametrize('kind', REFUSED)
def test_refused_in_one_line(kind):
    shape, words = REFUSED[kind]
    model = made(kind, shape)
    with pytest.raises(ValueError, match=words) as e:
        [*generate_batch(HFModel(model), None, [[1, 2], [3]])]
    assert '\n' not in str(e.value)
    assert 'with generate' in str(e.value)


def test_sixteen_texts_of_a_generic_model():
    target, draft = made('gpt_neox', SMALL), made('gpt_neox', SMALL | dict(num_hidden_layers=1))
    starts = [torch.randint(61, (n,), generator=torch.Generator().manual_seed(n)) for n in range(1, 17)]
    ends = [{n, 60 - n} for n in range(16)]
    want = [generate(target, draft, o, 30, eos_token_id=e) for o, e in zip(starts, ends)]
    got = [*generate_batch(target, draft, starts, 6, 30, eos_token_id=ends)]
    assert [o.tokens.tolist() for o in got] == [o.tokens.tolist() for o in want]
    assert [(o.finish_reason, o.stats) for o in got] == [(o.finish_reason, o.stats) for o in want]
    assert {o.finish_reason for o in got} == {'eos', 'length'}


def test_the_model_is_not_changed():
    model = made('llama', SMALL | dict(attention_dropout=.5)).train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    lm = HFModel(model)
    want = [generate(lm, None, o, 12).tokens.tolist() for o in ([1, 2], [3])]
    assert [o.tokens.tolist() for o in generate_batch(lm, None, [[1, 2], [3]], 2, 12)] == want
    assert all(m.training for m in model.modules())
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_versions_agree_on_what_a_layer_holds():
    cache = HFModel(made('llama', SMALL)).cache
    assert hasattr(cache, 'layers'), f'transformers {transformers.__version__}'
