"Whatever the models, the draft, the controller and the settings: the text is the target's, the counts add up, the caches stand where they should."
import profiles                                                          # noqa: F401  (how many examples)
from copy import deepcopy
from functools import lru_cache
from itertools import count
import numpy as np, pytest, torch
from hypothesis import assume, event, given, settings, strategies as st
from transformers import LlamaConfig, LlamaForCausalLM, LogitsProcessorList, NoRepeatNGramLogitsProcessor, RepetitionPenaltyLogitsProcessor
import specdec.lossy                                                     # noqa: F401  (its rules are in RULES)
from specdec.learning import STRATEGIES
from specdec.settings import make_controller
from specdec.decoding import Generation, autoregressive, generate, stream
from specdec.distributions import new_generator, probs
from specdec.drafting import Bigram, Composite, EarlyExit, ModelDraft, PromptLookup, Table
from specdec.quantise import quantise
from specdec.models import HFModel
from specdec.written_out import as_cached
from specdec.rounds import Stats
from specdec.verification import RULES, output_law, target_law
from specdec.zoo import random_gpt2

# Models, few and small: made once, named by strings so that a failing example can be read.
V, ROOM = 23, 40                                                         # vocabulary, context
SHAPE = dict(n_embd=16, n_head=2, initializer_range=.4, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)

@lru_cache(None)
def model(name):
    "gpt2-SEED, noisy-SEED (the same with noise on its weights), short-SEED, padded-SEED, llama-SEED, table-SEED, or mixed-SEED (that table with noise)"
    kind, _, seed = name.partition('-')
    g = new_generator(int(seed))
    if kind == 'table': return torch.rand(V, V, generator=g) * (torch.rand(V, V, generator=g) < .4)
    if kind == 'mixed': return model(f'table-{seed}') + .4 * torch.rand(V, V, generator=g)
    if kind == 'noisy':
        m = deepcopy(model(f'gpt2-{seed}'))
        for w in m.parameters(): w.data += .1 * w.std() * torch.randn(w.shape, generator=g)
        return m
    if kind == 'llama':
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(seed))
            return LlamaForCausalLM(LlamaConfig(vocab_size=V, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                                max_position_embeddings=ROOM, initializer_range=.4)).eval()
    size = dict(gpt2=(V, ROOM), short=(V, 12), padded=(V + 9, ROOM))[kind]
    return random_gpt2(int(seed), vocab_size=size[0], n_positions=size[1], n_layer=2, **SHAPE)

@lru_cache(None)
def int8(name): return quantise(model(name), 8)

def opened(name): return Table(model(name)) if name[:5] in ('table', 'mixed') else as_cached(model(name))

def drafter(name, target):
    "A fresh drafter for the model called `target`, and the models in it"
    kind, _, rest = name.partition(' ')
    if kind == 'none': return None, []
    if kind == 'lookup': return PromptLookup(max_ngram=int(rest)), []
    d = dict(bigram=lambda: Bigram(model('table-9') * V), early_exit=lambda: EarlyExit(model(target), 1), int8=lambda: ModelDraft(int8(target)), adversary=lambda: ModelDraft(Adversary(opened(target))),
             hf=lambda: ModelDraft(HFModel(model(rest))), composite=lambda: ModelDraft(opened(rest))).get(kind, lambda: ModelDraft(opened(name)))()
    return (Composite(PromptLookup(min_ngram=2), d) if kind == 'composite' else d), [d.model]

class Adversary:
    "Prefers the token behind the target's choice"
    def __init__(self, lm): self.lm = lm
    vocab_size, max_length, device, length = (property(lambda self, k=k: getattr(self.lm, k)) for k in ('vocab_size', 'max_length', 'device', 'length'))
    def rollback(self, length): self.lm.rollback(length)
    def forward(self, ids, last=None): return self.lm.forward(ids, last).roll(1, -1)

def no_echo(ids, scores): scores[0, ids[0, -1]] = -torch.inf; return scores
PROCESSORS = dict(none=None, penalty=[RepetitionPenaltyLogitsProcessor(1.5)], ngram=[NoRepeatNGramLogitsProcessor(2)], no_echo=no_echo,
                  both=LogitsProcessorList([RepetitionPenaltyLogitsProcessor(.7), no_echo]))

# What a run is made of.
OPTIONS = dict(aimd=dict(step_size=st.integers(1, 4), decrease_factor=st.floats(0, 1)), entropy=dict(low_entropy_threshold=st.floats(0, 1.5), high_entropy_threshold=st.floats(1.5, 3), warmup_steps=st.integers(0, 5)),
               jsd=dict(low_jsd_threshold=st.floats(0, .4), high_jsd_threshold=st.floats(.4, .8), high_entropy_threshold=st.floats(0, 3), warmup_steps=st.integers(0, 5)),
               confidence=dict(threshold=st.floats(0, 1)), adaedl=dict(threshold=st.floats(0, 1), kappa=st.floats(.01, 2), threshold_step=st.floats(0, .5)), bandit=dict(explore=st.floats(0, 3), memory=st.floats(0, 1)),
               cost_model=dict(memory=st.floats(0, 1)))

@st.composite
def controllers(draw):
    "A draft length, or the settings of a controller of any kind"
    if draw(st.booleans()): return draw(st.integers(1, 12))
    name, low = draw(st.sampled_from(sorted(STRATEGIES))), draw(st.integers(1, 3))
    high = draw(st.integers(low, 10))
    return dict(strategy=name, gamma_min=low, gamma_max=high, **{k: draw(o) for k, o in OPTIONS.get(name, {}).items()}), draw(st.none() | st.integers(low, high))

def controller(o):
    "What `controllers` drew, with a clock that ticks once a reading"
    return o if isinstance(o, int) else make_controller(*o, clock=lambda ticks=count(): float(next(ticks)))

SEEDS = (0, 1, 2)
TARGETS = [f'{k}-{s}' for k in ('gpt2', 'table') for s in SEEDS] + ['llama-0']

@st.composite
def runs(draw):
    "Names and numbers for one call"
    target = draw(st.sampled_from(TARGETS))
    seed, kind = target[-1], target[:-2]
    near = dict(gpt2=[f'noisy-{seed}', f'hf noisy-{seed}', f'composite noisy-{seed}', 'early_exit', 'int8'], table=[f'mixed-{seed}', f'composite mixed-{seed}'], llama=['early_exit', 'int8'])[kind]
    kinds = [target, f'composite {target}', *near, *near, f'short-{seed}', f'padded-{seed}', 'gpt2-3', 'table-5', 'none', 'lookup 1', 'lookup 3', 'bigram', 'adversary']
    return dict(target=target, draft=draw(st.sampled_from(kinds)), prompt=tuple(draw(st.lists(st.integers(0, V - 1), min_size=1, max_size=12))), n=draw(st.integers(0, 32)), gamma=draw(controllers()),
                rule=draw(st.sampled_from(sorted(RULES))), processor=draw(st.sampled_from(sorted(PROCESSORS))), ends=draw(st.just(()) | st.lists(st.integers(0, 20), min_size=1, max_size=2).map(tuple)))

@torch.no_grad()
def rows(name, ids):
    "The target's logits behind each of `ids`, with no cache and no code of the loop"
    if not name.startswith('table'): return model(name)(torch.tensor([ids])).logits[0]
    counts = model(name)[ids]
    return torch.where(counts.sum(-1, keepdim=True) > 0, counts, 1.).log()

@lru_cache(10_000)
def plain(name, prompt, n, processor):
    "Greedy text without a cache, and its narrowest margin; a table has no rounding"
    ids, margin, f = list(prompt), torch.inf, PROCESSORS[processor]
    f = LogitsProcessorList(f) if isinstance(f, list) else f
    for _ in range(min(n, ROOM - len(prompt)) if not name.startswith('table') else n):
        z = rows(name, ids)[-1]
        if f: z = f(torch.tensor([ids]), z[None].clone())[0]
        if not name.startswith('table'): margin = min(margin, float(z.topk(2).values.diff().abs()))
        ids.append(int(z.argmax()))
    return ids[len(prompt):], margin

def check_rounds(rounds, tokens, n, room, ends):
    "What a run says of itself adds up"
    s, left = Stats.of(rounds), min(n, room)
    assert s.new_tokens == len(tokens) == sum(k*v for k, v in s.histogram.items()) and s.rounds == len(rounds) == sum(s.histogram.values())
    assert (s.kept, s.tested, s.proposed) == (sum(s.kept_by_position), sum(s.tested_by_position), sum(len(r.x) for r in rounds))
    assert s.kept <= s.tested <= s.proposed
    assert all(b <= k <= a for k, a, b in zip(s.kept_by_position, s.tested_by_position, (*s.tested_by_position[1:], 0)))
    assert s.new_tokens == s.kept + s.rounds - sum(r.closing == 'none' for r in rounds)
    for r in rounds:
        assert len(r.x) <= max(0, min(r.gamma, left - 1)) and len(r.tokens) >= 1 and r.tokens[:r.n].equal(r.x[:r.n])
        left -= len(r.tokens)
    assert not {*ends} & {*tokens[:-1]} and (left == 0 or tokens[-1] in ends)

@given(runs())
def test_greedy_text_counts_and_caches(o):
    text, margin = plain(o['target'], o['prompt'], o['n'], o['processor'])
    assume(margin > 1e-4)                                                # a tie may fall either way
    ends = [text[i % len(text)] for i in o['ends']] if text else []      # end tokens that do come
    want = text[:next((i + 1 for i, t in enumerate(text) if t in ends), len(text))]
    target, (draft, inside), L, before = opened(o['target']), drafter(o['draft'], o['target']), len(o['prompt']), torch.random.get_rng_state()
    room, rounds, tokens = target.max_length - L, [], []
    for r in stream(target, draft, list(o['prompt']), o['n'], controller(o['gamma']), rule=o['rule'], eos_token_id=ends or None, logits_processor=PROCESSORS[o['processor']]):
        rounds.append(r); tokens += r.tokens.tolist(); L += len(r.tokens)
        assert target.length == L - 1 and all(lm.length <= L - 1 for lm in inside)
    assert tokens == want
    check_rounds(rounds, tokens, o['n'], room, ends)
    assert torch.random.get_rng_state().equal(before)
    event('kept ' + ('none' if not sum(r.n for r in rounds) else 'all' if all(r.n == len(r.x) for r in rounds) else 'some'))

@settings(max_examples=max(200, settings.default.max_examples // 2))     # each runs twice
@given(runs(), st.fixed_dictionaries(dict(temperature=st.floats(.05, 5) | st.sampled_from([1e-3, 1., 100.]), top_k=st.integers(0, V + 2), top_p=st.floats(.05, 1.), seed=st.integers(-2**63, 2**64 - 1),
                                          rule=st.sampled_from([k for k in sorted(RULES) if k != 'greedy']))))
def test_sampled_runs_repeat_and_add_up(o, s):
    ends, before = list(o['ends']) or None, torch.random.get_rng_state()
    def run(): return generate(opened(o['target']), drafter(o['draft'], o['target'])[0], list(o['prompt']), o['n'], controller(o['gamma']), eos_token_id=ends, logits_processor=PROCESSORS[o['processor']], **s)
    a, b = run(), run()
    tokens = a.tokens.tolist()
    assert tokens == b.tokens.tolist() and a.stats == b.stats and [r.n for r in a.rounds] == [r.n for r in b.rounds]
    assert torch.random.get_rng_state().equal(before)
    check_rounds(a.rounds, tokens, o['n'], opened(o['target']).max_length - len(o['prompt']), ends or [])
    assert a.finish_reason == ('eos' if ends and tokens and tokens[-1] in ends else 'length' if len(tokens) == o['n'] else 'context')
    if s['top_k'] and o['processor'] == 'none' and s['rule'] in ('token', 'block'):
        z = rows(o['target'], [*o['prompt'], *tokens])[len(o['prompt']) - 1:-1]
        kth = z.topk(min(s['top_k'], V)).values[:, -1]
        assert (z[range(len(tokens)), tokens] >= kth - 1e-4).all()       # nothing from outside the target's top k

@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 3), st.sampled_from(['token', 'block']), st.floats(0, 1), st.floats(0, .6))
def test_the_exact_law_is_the_targets(seed, gamma, n, rule, stop, zeros):
    "Random laws that depend on all before them, with zeros, under a draft that is cut short by what it has drawn"
    g, seen = new_generator(seed), {}
    def made(kind, prefix):
        if (kind, prefix) not in seen:
            p = torch.rand(n, generator=g, dtype=torch.float64) * (torch.rand(n, generator=g) >= zeros)
            seen[kind, prefix] = p / p.sum() if p.sum() else torch.ones(n, dtype=torch.float64) / n
        return seen[kind, prefix]
    def p(prefix): return made('p', prefix)
    def keep_going(prefix): return bool(made('stop', prefix)[0] >= stop)
    law = output_law(p, lambda prefix: made('q', prefix), gamma, rule, keep_going)
    assert (law - target_law(p, (), gamma + 1)).abs().max() < 1e-12

# Arguments of any kind: a text, or a line that names what is wrong.
junk = st.one_of(st.none(), st.booleans(), st.integers(-3, 30), st.sampled_from([2**31, 2**63, 2**64, -2**63 - 1, 2**200]), st.floats(), st.text(max_size=3), st.binary(max_size=2), st.lists(st.integers(-1, 30), max_size=3),
                 st.lists(st.none() | st.text(max_size=1) | st.floats(), max_size=2), st.dictionaries(st.text(max_size=1), st.integers(), max_size=1), st.complex_numbers(), st.sets(st.integers(0, 30), max_size=2),
                 st.sampled_from([object(), int, np.float32(.5), np.int64(2), torch.tensor(2), torch.tensor(.5), torch.tensor([1, 2]), len]))
NAMED = dict(prompt='prompt', max_new_tokens='max_new_tokens', gamma='gamma', temperature='temperature', top_k='top_k', top_p='top_p', rule='rule', seed='seed', eos_token_id='eos_token_id', logits_processor='logits_processor')

@given(st.sampled_from(sorted(NAMED)), junk, st.booleans())
def test_a_wrong_argument_is_named_in_one_line(name, value, sampled):
    given = dict(prompt=[1, 2, 3], max_new_tokens=4, gamma=3, temperature=float(sampled), seed=0) | {name: value}
    if name == 'logits_processor': assume(not callable(value) and not (isinstance(value, list) and any(map(callable, value))))
    try: out = generate(model('gpt2-0'), model('noisy-0'), given.pop('prompt'), **given)
    except (TypeError, ValueError) as e:
        line = str(e)
        assert len(line.splitlines()) == 1 and NAMED[name] in line, line
        event(f'{name} refused')
    else: assert isinstance(out, Generation) and len(out.tokens) <= 40

@pytest.mark.parametrize('name', TARGETS)
def test_the_targets_are_no_constants(name):
    "A target that repeats one token would hide most faults"
    text, _ = plain(name, (1, 2, 3), 30, 'none')
    out = autoregressive(opened(name), [1, 2, 3], 30)
    assert out.tokens.tolist() == text and len({*text}) > 1, text
    assert probs(rows(name, [1, 2, 3])[-1]).max() < .999
