"Odd arguments of drafters: one line each that says what was given and what to do. Vocabularies that differ by padding run. One drafter in two unfinished texts is refused or kept apart."
from math import inf, nan
import numpy as np
import pytest, torch
from specdec import autoregressive, generate, stream
from specdec.drafting import Bigram, Composite, EarlyExit, ModelDraft, PromptLookup, as_drafter
from specdec.pairs import named_draft
from specdec.quantise import quantise, quantised_bytes
from specdec.written_out import as_cached
from specdec.zoo import random_gpt2

def small(seed=1, **kw):
    return random_gpt2(seed, **dict(vocab_size=97, n_layer=2, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None, initializer_range=.5) | kw)
TARGET, DRAFT = small(1), small(2)
TABLE = torch.ones(97, 97)

ODD = [-1, 0, 2.5, nan, inf, True, torch.tensor(True), '3', [3], {}, 1j]                     # no whole numbers >= 1
CALLS = {
    'lookup, vocabulary': (lambda o: PromptLookup(o), 'vocab_size='), 'lookup, max_ngram': (lambda o: PromptLookup(97, max_ngram=o), 'max_ngram='), 'lookup, min_ngram': (lambda o: PromptLookup(97, min_ngram=o), 'min_ngram='),
    'model, vocabulary': (lambda o: ModelDraft(DRAFT, o), 'vocab_size='), 'bigram, vocabulary': (lambda o: Bigram(TABLE, o), 'vocab_size='), 'bigram, V': (lambda o: Bigram.from_text([1, 2], o), 'V='),
    'layers': (lambda o: EarlyExit(TARGET, o), 'layers='), 'bits': (lambda o: quantise(TARGET, o), 'bits='), 'group': (lambda o: quantise(TARGET, 4, group=o), 'group='),
    'bits, counted': (lambda o: quantised_bytes(TARGET, o), 'bits='), 'group, counted': (lambda o: quantised_bytes(TARGET, 4, o), 'group=')}

def one_line(call, *args, kinds=(ValueError,)):
    "The line with which `call` is refused"
    with pytest.raises(kinds) as e: call(*args)
    assert len(str(e.value).splitlines()) == 1 and '; ' in str(e.value) + '; ' and ': ' in str(e.value)
    return str(e.value)

@pytest.mark.parametrize('call, name', CALLS.values(), ids=CALLS)
def test_no_whole_number(call, name):
    for o in ODD: assert name in one_line(call, o)

@pytest.mark.parametrize('layers', [3, 99, 10**30])
def test_layers_that_are_not_there(layers):
    assert one_line(EarlyExit, TARGET, layers) == f'layers={layers}: GPT2LMHeadModel has 2; give a number in 1..2'
    assert one_line(named_draft, f'early_exit:{layers}', TARGET) == f'layers={layers}: GPT2LMHeadModel has 2; give a number in 1..2'

@pytest.mark.parametrize('bits, group', [(3, None), (16, None), (4, 16), (4, 48), (8, 1)])
def test_grids_that_are_not_there(bits, group): one_line(quantise, TARGET, bits, 'rtn', group)

@pytest.mark.parametrize('name', ['early_exit', 'early_exit:', 'early_exit:two', 'early_exit:-1', 'early_exit:2.0'])
def test_early_exit_after_how_many(name): assert 'say after how many layers, as in early_exit:4' in one_line(named_draft, name, TARGET)

def test_numbers_of_other_libraries():
    for one in (np.int64, torch.tensor, float):
        assert len(EarlyExit(TARGET, one(1)).model.w.layers) == 1 and PromptLookup(97, one(2)).max_ngram == 2
        assert all(map(torch.equal, quantise(TARGET, one(4), group=one(32)).state_dict().values(), quantise(TARGET, 4, group=32).state_dict().values()))
        assert quantised_bytes(TARGET, one(4), one(32)) == quantised_bytes(TARGET, 4, 32)

@pytest.mark.parametrize('counts', [None, 'a', 3, [], [[]], torch.ones(0, 0), torch.ones(2), torch.ones(2, 3), torch.ones(1, 2, 2), -torch.ones(2, 2), [[1, nan], [1, 1]], [[1, inf], [1, 1]],
                                    [[1, 2], [3]], torch.ones(2, 2).bool(), torch.ones(2, 2) + 1j, [['a', 'b'], ['c', 'd']], ...], ids=repr)
def test_odd_tables(counts): assert 'give a square table of finite numbers' in one_line(Bigram, counts)

@pytest.mark.parametrize('table', [[[1, 2], [3, 4]], np.array([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 4]], dtype=torch.int32), torch.tensor([[1., 2], [3, 4]], dtype=torch.bfloat16)], ids=lambda o: type(o).__name__)
def test_tables_of_other_kinds(table):
    target = small(vocab_size=2)
    assert torch.equal(generate(target, Bigram(table), [0, 1], 12, temperature=0.).tokens, autoregressive(target, [0, 1], 12).tokens)
    assert len(generate(target, Bigram(table), [0, 1], 12, temperature=1., seed=0).tokens) == 12

@pytest.mark.parametrize('ids', [None, 'abc', [[1, 2]], [.5], [True, False], [97], [-1], 3, ...], ids=repr)
def test_odd_texts_of_a_table(ids): one_line(Bigram.from_text, ids, 97)

@pytest.mark.parametrize('smoothing', [-1, nan, inf, '1', None, True])
def test_odd_smoothing(smoothing): assert 'smoothing=' in one_line(Bigram.from_text, [1, 2], 97, smoothing)

@pytest.mark.parametrize('parts', [(), ([],), (None,), ('lookup',), ([PromptLookup(), DRAFT],), (PromptLookup,), (3,), (PromptLookup(), None)])
def test_odd_parts(parts): one_line(Composite, *parts, kinds=(ValueError, TypeError))

@pytest.mark.parametrize('text', [None, [], [[]], [.5], [97], [-1], [True], 'abc', torch.ones(2, 2, 2).long(), torch.zeros(65).long()], ids=lambda o: type(o).__name__)
def test_odd_calibration(text): assert 'calibration' in one_line(quantise, TARGET, 8, 'gptq', None, text)

@pytest.mark.parametrize('model', [None, 'gpt2', 3, as_cached(TARGET)], ids=lambda o: type(o).__name__)
def test_what_is_no_model(model):
    for call in (lambda: EarlyExit(model, 1), lambda: quantise(model, 8)): assert 'give the transformers model itself' in one_line(call, kinds=(TypeError, ValueError))

@pytest.mark.parametrize('target, draft', [(1152, 1024), (1024, 1152), (1024, 1152 + 128), (1536, 1024), (152064 // 64, 151936 // 64), (97, 100), (97, 140)])
def test_padding_runs(target, draft):
    "Whatever the difference, as long as padding may explain it: greedy text is the target's, and a sampled one stays inside its vocabulary"
    target, draft = small(1, vocab_size=target, n_embd=16), small(2, vocab_size=draft, n_embd=16)
    for d in (draft, ModelDraft(draft), Composite(PromptLookup(), draft)):
        assert torch.equal(generate(target, d, [1, 2, 3], 12).tokens, autoregressive(target, [1, 2, 3], 12).tokens)
    assert int(generate(target, draft, [1, 2, 3], 20, temperature=9., seed=0).tokens.max()) < target.config.vocab_size

@pytest.mark.parametrize('target, draft', [(97, 300), (300, 97), (50257 // 64, 32000 // 64), (128256 // 64, 50257 // 64)])
def test_another_vocabulary_is_refused(target, draft):
    line = one_line(as_drafter, small(2, vocab_size=draft, n_embd=16), as_cached(small(1, vocab_size=target, n_embd=16)))
    assert f'the target knows {target} tokens and the draft {draft}: give models that share a tokenizer' in line

DRAFTERS = dict(lookup=lambda: PromptLookup(), bigram=lambda: Bigram.from_text([1, 2, 3, 1, 2], 97, 1), model=lambda: ModelDraft(DRAFT), early_exit=lambda: EarlyExit(TARGET, 1),
                composite=lambda: Composite(PromptLookup(), EarlyExit(TARGET, 1)), nested=lambda: Composite(PromptLookup(min_ngram=2), Composite(Bigram.from_text([1, 2], 97), ModelDraft(DRAFT))))

@pytest.mark.parametrize('make', DRAFTERS.values(), ids=DRAFTERS)
def test_one_drafter_in_two_unfinished_texts(make):
    "Refused, or both texts and all statistics are those of the texts alone"
    prompts, draft = ([1, 2, 3, 1, 2], [5, 6, 5, 6, 5, 6, 7]), make()
    alone = [[(r.tokens.tolist(), r.n, r.x.tolist()) for r in stream(TARGET, make(), p, 20)] for p in prompts]
    a, b, got = *(stream(TARGET, draft, p, 20) for p in prompts), ([], [])
    try:
        for _ in range(20):
            for s, out in zip((a, b), got): out += [(r.tokens.tolist(), r.n, r.x.tolist()) for r in [next(s, None)] if r is not None]
    except ValueError as e: assert type(draft) is not PromptLookup and len(str(e).splitlines()) == 1
    for out, want in zip(got, alone): assert out == want[:len(out)]
    assert [(r.tokens.tolist(), r.n, r.x.tolist()) for r in stream(TARGET, draft, prompts[0], 20)] == alone[0]      # and free again
