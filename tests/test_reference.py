"Transformers' own loops in a comparison: whatever a checkpoint has written into its generation settings, both sides decode the same."
import copy
import pytest, torch
from specdec import autoregressive
from specdec.comparing import can_assist, compare, hf_generate, loops
from specdec.zoo import Pair, byte_tokenizer, random_gpt2

IDS = torch.tensor([1, 2, 3])
SHAPE = dict(vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None,
             initializer_range=.5)
def model(seed, **kw): return random_gpt2(seed, **SHAPE | kw)
TEXT = autoregressive(model(1), IDS, 16).tokens
ODD = dict(eos_token_id=int(TEXT[3]), repetition_penalty=1.8, no_repeat_ngram_size=1, num_beams=3, min_length=12,
           min_new_tokens=20, max_length=8, max_new_tokens=3, max_time=1e-9, do_sample=True, temperature=3., top_k=2,
           top_p=.1, min_p=.5, typical_p=.1, epsilon_cutoff=.1, eta_cutoff=.1, bad_words_ids=[[int(TEXT[1])]],
           suppress_tokens=[int(TEXT[2])], begin_suppress_tokens=[int(TEXT[0])], forced_bos_token_id=5,
           forced_eos_token_id=6, sequence_bias=[[[7], 50.]], exponential_decay_length_penalty=(1, 2.),
           num_return_sequences=2, use_cache=False, cache_implementation='static', stop_strings=['a'],
           guidance_scale=2., encoder_repetition_penalty=2., renormalize_logits=True, output_scores=True,
           return_dict_in_generate=True, prompt_lookup_num_tokens=3, assistant_early_exit=1, token_healing=True,
           num_assistant_tokens=1, num_assistant_tokens_schedule='heuristic', assistant_confidence_threshold=.99,
           pad_token_id=9, bos_token_id=4, a_key_of_nobody='x')

def with_setting(m, name):
    m = copy.deepcopy(m)
    setattr(m.generation_config, name, ODD[name])
    return m

@pytest.mark.parametrize('name', ODD)
def test_greedy_text_and_length(name):
    target, draft = with_setting(model(1), name), with_setting(model(2), name)
    before = [o.generation_config.to_dict() for o in (target, draft)]
    for assistant, gamma in ((None, None), (draft, 3), (draft, None)):
        assert torch.equal(hf_generate(target, IDS, 16, assistant, gamma), TEXT), (name, gamma)
    assert [o.generation_config.to_dict() for o in (target, draft)] == before

@pytest.mark.parametrize('name', 'eos_token_id repetition_penalty temperature top_k top_p min_p typical_p sequence_bias guidance_scale'.split())
def test_sampled_text(name):
    target, draft = model(1, initializer_range=.05), model(2, initializer_range=.05)
    def texts(t, d): return [hf_generate(t, IDS, 10, *o, temperature=1., seed=3).tolist() for o in ((), (d, 3), (d, None))]
    assert texts(with_setting(target, name), with_setting(draft, name)) == texts(target, draft)

class Reads:
    "Counts the passes of a model, its rows and how it is asked"
    def __init__(self, m):
        self.rows, self.old, self.cached = [], m.forward, []
        m.forward = self
    def __call__(self, *args, **kw):
        self.rows.append(kw['input_ids'].shape[1])
        self.cached.append(kw.get('use_cache'))
        return self.old(*args, **kw)

@pytest.mark.parametrize('name', ['num_assistant_tokens', 'num_assistant_tokens_schedule', 'assistant_confidence_threshold',
                                  'use_cache', 'prompt_lookup_num_tokens', 'num_beams', 'cache_implementation'])
@pytest.mark.parametrize('gamma', [None, 3])
def test_the_work_is_that_of_the_stated_settings(name, gamma):
    "Not only the text: a checkpoint must not change how many passes are made either"
    def passes(t, d):
        seen = Reads(t), Reads(d)
        hf_generate(t, IDS, 16, d, gamma)
        return [o.rows for o in seen]
    want = passes(model(1), model(2))
    assert passes(with_setting(model(1), name), with_setting(model(2), name)) == want

def test_the_cache_is_on_and_dropout_off():
    m = model(1, attn_pdrop=.5, resid_pdrop=.5, embd_pdrop=.5).train()
    m.config.use_cache = False
    reads = Reads(m)
    assert torch.equal(hf_generate(m, IDS, 16), TEXT) and m.training
    assert reads.rows == [3] + [1]*15 and all(reads.cached)

def test_an_error_inside_leaves_everything_as_it_was():
    m, state = with_setting(model(1), 'top_k'), torch.get_rng_state()
    before = m.generation_config.to_dict()
    def broken(*a, **kw): raise RuntimeError('broken')
    m.train().forward = broken
    with pytest.raises(RuntimeError, match='broken'): hf_generate(m, IDS, 4, temperature=1.)
    assert m.generation_config.to_dict() == before and m.training and torch.equal(torch.get_rng_state(), state)

def test_every_way_has_its_verdict():
    pair = Pair(with_setting(model(1), 'repetition_penalty'), with_setting(model(2), 'eos_token_id'), byte_tokenizer(), 'x')
    for T in (0., 1.):
        got = compare(pair, [IDS], 2, 12, T, runs=1)
        assert got['verdicts'] == dict.fromkeys(loops(pair, 2, 12), 'exact') and len(got['verdicts']) == 5
    steered, old = copy.deepcopy(model(1)), model(1).forward
    calls = []
    def drifting(*a, **kw):
        "A model that says something else each time: no two loops agree on it"
        out = old(*a, **kw)
        calls.append(1)
        out.logits[..., len(calls) % 90] += 1000
        return out
    steered.forward = drifting
    verdicts = compare(Pair(steered, model(2), byte_tokenizer(), 'x'), [IDS], 2, 8, runs=1)['verdicts']
    assert verdicts['hf_baseline'] == 'FAULT'

def test_who_can_assist():
    assert can_assist(model(1), model(2), 64) and not can_assist(model(1), model(2), 65)
    assert not can_assist(model(1), model(2, vocab_size=98)) and not can_assist(model(1), None)
    short = Pair(model(1), model(2, n_positions=8), byte_tokenizer(), 'x')
    got = compare(short, [IDS], 2, 16, runs=1)                                  # transformers would run into the end of the draft's context
    assert [*got['methods']] == ['baseline', 'speculative', 'hf_baseline'] and got['identical']
