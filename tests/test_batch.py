"Many texts at once: words of refusal, failures on the way, and what the views of several texts refuse"
import pytest
import torch

from specdec import autoregressive, generate, generate_batch
from specdec.branching import TreeDraft
from specdec.dialled import dialled_pair
from specdec.drafting import ModelDraft, PromptLookup
from specdec.rounds import pooled
from specdec.written_out import as_cached
from specdec.zoo import random_gpt2

SHAPE = dict(vocab_size=61, n_positions=48, n_embd=16, n_head=2, n_layer=2, initializer_range=.3,
             tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
TARGET, DRAFT = random_gpt2(1, **SHAPE), random_gpt2(2, **SHAPE)
STARTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]


def alone(**settings):
    return [generate(TARGET, DRAFT, ids, **settings) for ids in STARTS]


def tokens(runs):
    return [o.tokens.tolist() for o in runs]


@pytest.mark.parametrize('given, words', [
    (dict(prompts='text'), 'for one text call generate'),
    (dict(prompts=7), 'give a list of prompts'),
    (dict(prompts=['text']), 'no tokenizer'),
    (dict(prompts=[[1], []]), 'prompt 2 of 2: the prompt is empty'),
    (dict(prompts=[[1], [99]]), 'prompt 2 of 2'),
    (dict(batch=0), 'batch=0'),
    (dict(batch=2.5), 'batch=2.5'),
    (dict(gamma=0), '>= 1'),
    (dict(seed=[1]), 'seed has 1 entries and there are 5 prompts'),
    (dict(seed=2**64 - 1), 'seed='),
    (dict(max_new_tokens=[1, 2]), 'max_new_tokens has 2 entries'),
    (dict(eos_token_id=[{1}, {2}]), 'eos_token_id has 2 entries'),
    (dict(rule='greedy', temperature=1.), 'set temperature=0'),
    (dict(temperature=-1), 'temperature=-1'),
])
def test_refused_before_anything_is_read(given, words):
    with pytest.raises((ValueError, TypeError), match=words) as e:
        generate_batch(TARGET, DRAFT, **dict(prompts=STARTS) | given)
    assert '\n' not in str(e.value)


def test_seeds_are_consecutive_or_given():
    got = tokens(generate_batch(TARGET, DRAFT, STARTS, 3, 12, temperature=1., seed=7))
    want = [generate(TARGET, DRAFT, o, 12, temperature=1., seed=7 + i).tokens.tolist() for i, o in enumerate(STARTS)]
    assert got == want
    assert tokens(generate_batch(TARGET, DRAFT, STARTS, 2, 12, temperature=1., seed=[7, 8, 9, 10, 11])) == want


def test_global_stream_is_not_touched():
    before = torch.random.get_rng_state()
    [*generate_batch(TARGET, DRAFT, STARTS, 3, 12, temperature=1., seed=0)]
    assert torch.equal(torch.random.get_rng_state(), before)


def test_several_end_tokens_are_one_value():
    want = alone(max_new_tokens=20, eos_token_id=[3, 5, 7])
    got = [*generate_batch(TARGET, DRAFT, STARTS, 2, 20, eos_token_id=[3, 5, 7])]
    assert tokens(got) == tokens(want)
    assert [o.finish_reason for o in got] == [o.finish_reason for o in want]


def test_results_come_as_soon_as_they_can():
    finished = generate_batch(TARGET, DRAFT, STARTS, 5, [1, 40, 40, 40, 40])
    first = next(finished)
    assert len(first.tokens) == 1
    assert len([*finished]) == 4


def test_a_text_begun_elsewhere_is_noticed():
    view, other = as_cached(TARGET), ModelDraft(DRAFT)
    finished = generate_batch(view, other, STARTS, 2, [1, 20, 20, 20, 20])
    next(finished)
    generate(view, other, [1], 4)
    with pytest.raises(ValueError, match='another text was begun'):
        [*finished]


def test_processors_see_each_text_alone():
    def no_echo(ids, scores):
        scores[0, ids[0, -1]] = -torch.inf
        return scores
    for settings in (dict(), dict(temperature=1.)):
        got = tokens(generate_batch(TARGET, DRAFT, STARTS, 3, 20, logits_processor=no_echo, seed=0, **settings))
        want = [generate(TARGET, DRAFT, o, 20, logits_processor=no_echo, seed=i, **settings).tokens.tolist()
                for i, o in enumerate(STARTS)]
        assert got == want
        assert all(a != b for text in got for a, b in zip(text, text[1:]))


def test_numbers_that_are_none_are_named():
    sick = random_gpt2(3, **SHAPE)
    sick.lm_head.weight.data[5] = torch.nan
    with pytest.raises(ValueError, match='logits of the target .* NaN'):
        [*generate_batch(sick, DRAFT, STARTS)]
    with pytest.raises(ValueError, match='logits of the draft .* NaN'):
        [*generate_batch(TARGET, sick, STARTS)]


def test_learning_rules_and_counts():
    got = [*generate_batch(TARGET, DRAFT, STARTS, 4, 20, temperature=1., rule='ada', seed=1)]
    want = [generate(TARGET, DRAFT, o, 20, temperature=1., rule='ada', seed=1 + i) for i, o in enumerate(STARTS)]
    assert tokens(got) == tokens(want)
    assert pooled(got) == pooled(want)


def test_drafts_that_are_asked_one_by_one():
    for draft in (PromptLookup(), None):
        want = [generate(TARGET, draft, o, 20).tokens.tolist() for o in STARTS]
        assert tokens(generate_batch(TARGET, draft, STARTS, 3, 20)) == want
    assert want == [autoregressive(TARGET, o, 20).tokens.tolist() for o in STARTS]


@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_dialled_pairs(dtype):
    shape = dict(n_embd=16, n_head=2, vocab_size=300, n_positions=64)
    pair = dialled_pair(shape | dict(n_layer=2), shape | dict(n_layer=1), .7, dtype=dtype, device='cpu')
    starts = [torch.arange(n) for n in (3, 9, 1, 5)]
    want = [generate(pair.target, pair.draft, o, 20) for o in starts]
    got = [*generate_batch(pair.target, pair.draft, starts, 3, 20)]
    assert tokens(got) == tokens(want)
    assert pooled(got) == pooled(want)


def test_trees_are_refused_by_name():
    with pytest.raises(ValueError, match='TreeDraft drafts trees'):
        [*generate_batch(TARGET, TreeDraft(DRAFT), STARTS, 2, 8)]
