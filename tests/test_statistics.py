"What a run was is still known when runs are pooled, and the tests of the counts can fail."
import inspect, textwrap
from dataclasses import replace
import pytest, torch
from specdec import autoregressive, bench, comparing, generate, planning, stream, sweeping
from specdec.huggingface import speculative
from specdec.rounds import Round, Stats, pooled
from specdec.zoo import Pair, random_gpt2

SHAPE = dict(vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None, initializer_range=.5)
TARGET, DRAFT = (random_gpt2(seed, **SHAPE) for seed in (1, 2))

def run(rule, **kw): return generate(TARGET, DRAFT, [1, 2, 3], 8, temperature=1., rule=rule, seed=0, **kw)

@pytest.mark.parametrize('rule, lossless', [('token', True), ('block', True), ('ada', False), ('typical', False)])
def test_lossless_is_known_wherever_rounds_are_counted(rule, lossless):
    out = run(rule)
    rounds = list(stream(TARGET, DRAFT, [1, 2, 3], 8, temperature=1., rule=rule, seed=0))
    assert [s.lossless for s in (out.stats, Stats.of(rounds), pooled([out]), pooled([run('token'), out]))] == [lossless]*4
    call = speculative(DRAFT, rule=rule, seed=0)
    TARGET.generate(torch.tensor([[1, 2, 3]]), custom_generate=call, max_new_tokens=8, do_sample=True, top_k=0, pad_token_id=0)
    assert call.last.stats.lossless is lossless

@pytest.mark.parametrize('rule, lossless', [('token', True), ('ada', False)])
def test_lossless_is_known_in_plans_comparisons_and_sweeps(rule, lossless):
    pair, inputs = Pair(TARGET, DRAFT, None, 'x'), [torch.tensor([1, 2, 3])]
    assert planning.plan(pair, inputs, (1, 2), 8, 1., runs=1, rule=rule).stats.lossless is lossless
    assert comparing.compare(pair, inputs, 2, 8, 1., runs=1, rule=rule)['lossless'] is lossless
    assert sweeping.against_plain(pair, inputs, 2, 1., rule, 8, runs=1)['lossless'] is lossless

def test_nobody_said_is_no_yes():
    bare = [replace(r, lossless=None) for r in run('ada').rounds]
    assert Stats.of(bare).lossless is None and Stats.of([]).lossless is None
    assert Round(torch.tensor([1]), 1, 0, torch.tensor([2])).lossless is None
    assert autoregressive(TARGET, [1, 2, 3], 4).stats.lossless is True

def rows(*said): return [dict(category='a', prompt=0, run=0, new_tokens=4, seconds=1.) | ({} if o is None else dict(lossless=o)) for o in said]

def test_lossless_is_known_in_summaries_by_category():
    assert [bench.summary(rows(*o))['lossless'] for o in ((True, True), (True, False), (None,), (True, None))] == [True, False, None, None]

def adds_up(counts):
    "The checks of the chapter on rounds, for a form of `Stats.of`"
    rounds = [Round(torch.zeros(g), g, n, torch.zeros(n + 1), True) for g, n in ((3, 2), (3, 3), (2, 0), (4, 1))]
    whole = counts(rounds)
    assert counts(iter(rounds)) == whole and counts(rounds[::-1]) == whole
    for i in range(5):
        a, b = counts(rounds[:i]), counts(rounds[i:])
        for name in ('rounds', 'new_tokens', 'proposed', 'tested', 'kept'): assert getattr(a, name) + getattr(b, name) == getattr(whole, name)

def mutant(old, new):
    "`Stats.of` with a piece of its source replaced"
    source = textwrap.dedent(inspect.getsource(Stats.of)).removeprefix('@classmethod\n')
    assert source.count(old) == 1
    names = dict(vars(inspect.getmodule(Stats)))
    exec(source.replace(old, new), names)
    return lambda rounds: names['of'](Stats, rounds)

def test_counts_add_up(): adds_up(Stats.of)

@pytest.mark.parametrize('old, new', [('rounds = list(rounds)', 'pass'), ('sum(tested)', 'max(tested, default=0)'), ('sum(len(r.x) for r in rounds)', 'sum(i*len(r.x) for i, r in enumerate(rounds))')])
def test_the_checks_catch_a_mutant(old, new):
    "An iterator read twice, a count that is no sum, a count that depends on the order"
    with pytest.raises((AssertionError, TypeError)): adds_up(mutant(old, new))
