"What a caller asks for: every setting is checked before any work; end tokens, start tokens and logits processors are the caller's or the model's, as they are declared."
import copy, decimal, fractions, importlib, pickle, pkgutil
import numpy as np, pytest, torch
from tokenizers.processors import TemplateProcessing
from transformers import LogitsProcessorList, NoBadWordsLogitsProcessor
import specdec
from specdec import autoregressive, generate, speculative, stream
from specdec.decoding import DraftFailed
from specdec.drafting import ModelDraft, PromptLookup, Table
from specdec.models import HFModel
from specdec.written_out import as_cached
from specdec.texts import _declared_ends, _text_ids, end_tokens
from specdec.verification import GreedyRule, TokenRule
from specdec.zoo import byte_tokenizer, random_gpt2

IDS = [1, 2, 3]
def small(seed=1, **kw):
    return random_gpt2(seed, **dict(vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None, initializer_range=.5) | kw)
def plain(n=32, **kw): return autoregressive(small(), IDS, n, **kw).tokens.tolist()

# Settings
class Untouched:
    "A model that nobody may ask for anything"
    def as_cached(self): raise AssertionError('a model was touched before the settings were checked')

class Mine(GreedyRule): pass
BAD = dict(temperature=[-1, 'hot', None, True, torch.tensor(.5), decimal.Decimal('.5'), 1j], top_k=[-1, 1.5, '3', True, None, [3]], top_p=[0, 1.5, 'a', True, None], max_new_tokens=[-1, 1.5, True, '4', None, torch.tensor(4)],
           gamma=[0, -1, 2.5, 'four', None], seed=[1.5, '0', 2**64, -2**63 - 1, True, [1], torch.tensor(0)], rule=['best', None, 3, TokenRule], eos_token_id=['.', 1.5, True, {}, [None], torch.tensor([.5])],
           logits_processor=[3, [3], 'penalty', [len, None]], tokenizer=[3, 'gpt2', ...])

@pytest.mark.parametrize('name, value', [(k, v) for k, values in BAD.items() for v in values], ids=str)
@pytest.mark.parametrize('call', [generate, stream])
def test_a_setting_is_refused_before_any_model_is_touched(call, name, value):
    for T in (0., .7):
        with pytest.raises((ValueError, TypeError), match=name.replace('_processor', '')) as e: call(Untouched(), Untouched(), IDS, **dict(temperature=T) | {name: value})
        assert len(str(e.value).splitlines()) == 1

@pytest.mark.parametrize('rule', ['greedy', GreedyRule(), Mine()], ids=['name', 'object', 'subclass'])
def test_argmax_text_is_no_sample(rule):
    with pytest.raises(ValueError, match='set temperature=0'): generate(Untouched(), None, IDS, temperature=.5, rule=rule)
    assert generate(small(), small(2), IDS, 12, rule=rule).tokens.tolist() == plain(12)

@pytest.mark.parametrize('settings', [dict(temperature=np.float32(.7), seed=np.int64(1)), dict(temperature=fractions.Fraction(1, 2), seed=1), dict(temperature=1, top_k=np.int32(5), top_p=np.float64(.9), seed=np.uint8(3)),
                                      dict(max_new_tokens=np.int64(7)), dict(eos_token_id=np.int64(96)), dict(eos_token_id=torch.tensor(96)), dict(eos_token_id=np.array([95, 96])), dict(top_k=2., seed=0, temperature=1)], ids=str)
def test_numbers_of_other_kinds(settings):
    same = {k: v.tolist() if hasattr(v, 'tolist') else float(v) if k == 'temperature' else v for k, v in settings.items()}
    a, b = (generate(small(), small(2), IDS, **dict(max_new_tokens=12) | s) for s in (settings, same))
    assert a.tokens.equal(b.tokens) and a.finish_reason == b.finish_reason == 'length'

# The end of a text
VIEWS = dict(model=lambda m: m, view=as_cached, transformers=HFModel)

@pytest.mark.parametrize('wrap', VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize('where', ['generation_config', 'config', 'both'])
def test_end_tokens_that_the_model_declares(wrap, where):
    m, text = small(), plain()
    k = next(i for i, t in enumerate(text) if i > 2 and t not in text[:i])
    if where != 'config': m.generation_config.eos_token_id = [96, text[k]]
    if where != 'generation_config': m.config.eos_token_id = text[0] if where == 'both' else text[k]     # the generation settings come first
    for draft in (None, small(2), small(1), PromptLookup()):
        out = generate(wrap(m), draft, IDS, 32, eos_token_id='model')
        assert (out.tokens.tolist(), out.finish_reason) == (text[:k + 1], 'eos')
    assert [t for r in stream(wrap(m), small(2), IDS, 32, eos_token_id='model') for t in r.tokens.tolist()] == text[:k + 1]
    assert autoregressive(wrap(m), IDS, 32, eos_token_id='model').finish_reason == 'eos'
    assert len(generate(wrap(m), None, IDS, 32).tokens) == 32            # unasked, nothing ends

@pytest.mark.parametrize('wrap', VIEWS.values(), ids=VIEWS)
def test_a_model_that_declares_none(wrap):
    assert _declared_ends(wrap(small())) == frozenset()
    assert generate(wrap(small()), small(2), IDS, 32, eos_token_id='model').finish_reason == 'length'
    assert end_tokens('model', Table(torch.ones(3, 3))) == frozenset()

def test_an_end_token_in_the_prompt_ends_nothing():
    text = plain()
    for draft in (None, small(1), small(2)):
        out = generate(small(), draft, IDS, 32, eos_token_id=[t for t in IDS if t not in text])
        assert (out.tokens.tolist(), out.finish_reason) == (text, 'length')

# The start of a text
def starting(template, *special):
    "The byte tokenizer with special tokens of its own, put around each text by `template`"
    tok = byte_tokenizer(); tok.add_special_tokens(dict(bos_token='<s>', eos_token='</s>', additional_special_tokens=[*special]))
    ids = {t: tok.convert_tokens_to_ids(t) for t in ('<s>', '</s>', *special)}
    tok.backend_tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=[*ids.items()])
    return tok, ids

@pytest.mark.parametrize('template, special, prefix', [('<s> $A', (), ['<s>']), ('<s> $A </s>', (), ['<s>']), ('[g] <sop> $A', ('[g]', '<sop>'), ['[g]', '<sop>']), ('$A', (), []), ('$A </s>', (), [])], ids=str)
def test_special_tokens_are_put_once(template, special, prefix):
    tok, ids = starting(template, *special)
    start = [ids[t] for t in prefix]
    body = tok('def', add_special_tokens=False).input_ids
    whole = tok('def').input_ids
    assert _text_ids('def', tok) == whole and whole[:len(start)] == start
    if start: assert _text_ids(''.join(prefix) + 'def', tok) == start + body          # complete as it is
    assert _text_ids('def' + ''.join(prefix), tok)[:len(start)] == start              # not at the beginning: put as always
    if len(start) == 2: assert _text_ids(prefix[0] + 'def', tok)[:3] == [*start, start[0]]      # only a part of what begins a text
    for text in ('<s>', '</s>', '<s></s>'): assert _text_ids(text, tok) in (tok(text).input_ids, tok(text, add_special_tokens=False).input_ids)
    out = generate(small(vocab_size=300), None, ''.join(prefix) + 'def', 4, tokenizer=tok)
    assert out.tokens.equal(generate(small(vocab_size=300), None, start + body if start else whole, 4).tokens)

def test_text_from_a_chat_template():
    tok, ids = starting('<s> $A')
    tok.chat_template = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    said = [dict(role='user', content='hi')]
    text, want = tok.apply_chat_template(said, tokenize=False), tok.apply_chat_template(said)
    want = want['input_ids'] if hasattr(want, 'keys') else want
    assert _text_ids(text, tok) == want and want.count(ids['<s>']) == 1

# Processors
def end_of(text): return next(t for i, t in enumerate(text) if i > 2 and t not in text[:i])
class Asked:
    "Refuses a text that has ended"
    def __init__(self, ends, n=len(IDS)): self.ends, self.n, self.seen = ends, n, 0
    def __call__(self, ids, scores):
        self.seen += 1
        assert not {*ids[0, self.n:].tolist()} & self.ends, 'asked about a text that has ended'
        return scores

@pytest.mark.parametrize('settings', [dict(), dict(temperature=1., seed=3), dict(temperature=1., seed=3, rule='block')], ids=str)
@pytest.mark.parametrize('draft', [lambda: small(1), lambda: small(2), lambda: PromptLookup()], ids=['copy', 'stranger', 'lookup'])
@pytest.mark.parametrize('listed', [False, True])
def test_processors_are_not_asked_about_a_text_that_has_ended(settings, draft, listed):
    ends = {end_of(plain()), *range(0, 97, 7)} - {*IDS}
    for gamma in (1, 4, 8):
        ask = Asked(ends)
        out = generate(small(), draft(), IDS, 32, gamma, eos_token_id=ends, logits_processor=[ask] if listed else ask, **settings)
        assert ask.seen and out.tokens.tolist()[-1] in ends
        if not settings: assert out.tokens.tolist() == plain(eos_token_id=ends)

def test_an_end_token_in_the_prompt_does_not_silence_processors():
    no_nine = NoBadWordsLogitsProcessor([[plain()[0]]], eos_token_id=None)
    want = autoregressive(small(), IDS, 16, logits_processor=no_nine).tokens.tolist()
    assert want != plain(16)
    assert generate(small(), small(2), IDS, 16, eos_token_id=IDS[0], logits_processor=no_nine).tokens.tolist() == want[:want.index(IDS[0]) + 1 if IDS[0] in want else None]

def test_processors_are_not_asked_about_a_text_that_they_rule_out():
    allowed = {*range(0, 97, 2)}
    def grammar(ids, scores):
        "Even tokens only, and a parser that fails on a text with an odd one"
        assert not {*ids[0, len(IDS):].tolist()} - allowed, 'asked about a text that is not in the language'
        scores[:, 1::2] = -torch.inf
        return scores
    want = autoregressive(small(), IDS, 24, logits_processor=grammar).tokens.tolist()
    class Odd(ModelDraft):
        "Knows nothing of the grammar"
        def propose(self, ids, g, sampler, keep_going=None): x = ids[:g] * 0 + torch.arange(min(g, len(ids))); return x, torch.nn.functional.one_hot(x, 97).float()
    for gamma in (1, 3, 6):
        assert generate(small(), Odd(small(2)), IDS, 24, gamma, logits_processor=grammar).tokens.tolist() == want
        for rule in ('token', 'block'): assert not {*generate(small(), Odd(small(2)), IDS, 24, gamma, 1., rule=rule, seed=0, logits_processor=grammar).tokens.tolist()} - allowed

@pytest.mark.parametrize('sampled', [False, True])
def test_nor_inside_transformers(sampled):
    ends, ids = {end_of(plain()), *range(0, 97, 7)} - {*IDS}, torch.tensor([IDS])
    kw = dict(max_new_tokens=32, do_sample=sampled, eos_token_id=sorted(ends), pad_token_id=0, attention_mask=torch.ones_like(ids))
    for draft in (small(1), small(2), PromptLookup()):
        ask = Asked(ends)
        out = small().generate(ids, custom_generate=speculative(draft, gamma=8, seed=0), logits_processor=LogitsProcessorList([ask]), **kw)
        assert ask.seen and out[0, -1].item() in ends
        if not sampled: assert out.equal(small().generate(ids, logits_processor=LogitsProcessorList([Asked(ends)]), **kw))

class Failed(Exception): pass
@pytest.mark.parametrize('after', [0, 1, 3, 5])
@pytest.mark.parametrize('draft', [lambda: small(1), lambda: small(2), lambda: PromptLookup()], ids=['copy', 'stranger', 'lookup'])
def test_an_error_in_a_processor_is_the_processors(after, draft):
    def bad(ids, scores):
        if ids.shape[1] >= len(IDS) + after: raise Failed('of my own')
        return scores
    for lp in (bad, [bad], LogitsProcessorList([bad])):
        with pytest.raises(Failed, match='of my own'): generate(small(), draft(), IDS, 12, 3, logits_processor=lp)
    def odd(ids, scores): return scores[0] if ids.shape[1] >= len(IDS) + after else scores
    with pytest.raises(ValueError, match='a logits processor must give back scores'): generate(small(), draft(), IDS, 12, 3, logits_processor=odd)

def test_an_error_in_a_controller_is_the_controllers():
    class Broken:
        def gamma(self, remaining): return 3
        def keep_going(self, row): raise Failed('of my own')
        def observe(self, rnd): pass
    with pytest.raises(Failed): generate(small(), small(2), IDS, 12, Broken())

# Errors that travel
def test_a_failed_draft_can_be_sent():
    for error in (OSError('gone'), ValueError(), RuntimeError('two\n lines')):
        e = DraftFailed(error, torch.tensor([1, 2]))
        for same in (pickle.loads(pickle.dumps(e)), copy.copy(e), copy.deepcopy(e)):
            assert str(same) == str(e) and same.tokens.equal(e.tokens) and len(str(e).splitlines()) == 1 and type(same) is DraftFailed

def test_so_can_every_error_of_the_package():
    modules = [importlib.import_module(f'specdec.{m.name}') for m in pkgutil.iter_modules(specdec.__path__)]
    ours = {c for m in modules for c in vars(m).values() if isinstance(c, type) and issubclass(c, BaseException) and c.__module__.startswith('specdec.')}
    assert DraftFailed in ours and len(ours) > 1
    for c in ours:
        e = DraftFailed(OSError('gone'), torch.tensor([1, 2])) if c is DraftFailed else c('a line')
        same = pickle.loads(pickle.dumps(e))
        assert type(same) is c and str(same) == str(e) and vars(same).keys() == vars(e).keys(), c

# Draft lengths that a script asks for: the draft model falls behind, catches up, and is wholly kept again
class Scripted:
    "Draft lengths from a list, then the last one for ever"
    keep_going = None
    def __init__(self, lengths): self.lengths = list(lengths)
    def gamma(self, remaining): return self.lengths.pop(0) if len(self.lengths) > 1 else self.lengths[0]
    def observe(self, rnd): pass

def test_a_draft_that_pauses_catches_up():
    out = generate(small(), small(), IDS, 13, Scripted([4, 0, 0, 0, 4]))
    assert [(r.gamma, len(r.x), r.n) for r in out.rounds] == [(4, 4, 4), (0, 0, 0), (0, 0, 0), (0, 0, 0), (4, 4, 4)]
    assert out.tokens.tolist() == plain(13)

def test_a_draft_that_was_always_wrong_recovers():
    class Sulking(ModelDraft):
        "Wrong on purpose for the first ten rounds"
        rounds = 0
        def propose(self, ids, *args):
            self.rounds += 1
            x, q = super().propose(ids, *args)
            return ((x + 1) % 97 if self.rounds <= 10 else x), q
    out = generate(small(), Sulking(small()), IDS, 10 + 5 * 4, 4)
    assert [r.n for r in out.rounds] == [0]*10 + [4]*4 and out.tokens.tolist() == plain(30)

def test_every_setting_shows_in_the_statistics():
    base = dict(max_new_tokens=40, gamma=4, temperature=1., top_k=0, top_p=1., min_p=0., rule='token', seed=0)
    changed = dict(max_new_tokens=41, gamma=5, temperature=.5, top_k=2, top_p=.5, min_p=.5, rule='block', seed=1)
    near, g = small(), torch.Generator().manual_seed(0)
    for w in near.parameters(): w.data += .1 * w.std() * torch.randn(w.shape, generator=g)
    first, *others = [generate(small(), near, IDS, **base | o).stats for o in ({}, *({k: v} for k, v in changed.items()))]
    assert all(s != first for s in others)

@pytest.mark.parametrize('call, words', [
    (lambda: generate(small(), None, torch.ones(2, 3).long()), '[2, 3]'), (lambda: generate(small(), None, [[1, 2], [3]]), 'one sequence at a time'), (lambda: generate(small(), None, []), 'empty'),
    (lambda: generate(small(), None, [.5]), 'must be integers'), (lambda: generate(small(), None, [97]), 'knows 0..96'), (lambda: generate(small(), None, [-1]), 'knows 0..96'), (lambda: generate(small(), None, [[[1]]]), 'shape'),
    (lambda: generate(small(), None, [2**70]), 'no sequence of token ids'), (lambda: generate(small(), None, {'text': 1}), 'no sequence of token ids'), (lambda: generate(small(), None, 'hello'), 'no tokenizer'),
    (lambda: generate(small(vocab_size=300), None, '', tokenizer=byte_tokenizer()), 'empty'), (lambda: generate(small(vocab_size=300), None, 'ok\ud800', tokenizer=byte_tokenizer()), 'from character 2 on'),
    (lambda: generate(small(), None, [1]*64), 'shorten it to 63'), (lambda: generate(small(vocab_size=600), small(), IDS), '600 tokens and the draft 97'),
    (lambda: generate('gpt2', None, IDS), 'give a transformers causal language model'), (lambda: generate(small(), 'gpt2', IDS), 'give a model or a drafter')], ids=range(16))
def test_prompts_and_models_that_are_refused(call, words):
    with pytest.raises((ValueError, TypeError)) as e: call()
    assert words in str(e.value) and len(str(e.value).splitlines()) == 1, e.value
