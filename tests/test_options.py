"Odd arguments of controllers and of the formulas: each is a single clear `ValueError` that names what was given; what looks like a number and is one works."
from inspect import signature
from math import inf, nan
import numpy as np
import pytest, torch
from specdec import generate
from specdec.control import as_controller
from specdec.learning import STRATEGIES
from specdec.theory import best_gamma, expected_tokens, speedup
from specdec.zoo import random_gpt2

WHOLE = {'gamma', 'gamma_min', 'gamma_max', 'step_size', 'warmup_steps'}
SHARE = {'decrease_factor', 'smoothing_factor', 'threshold', 'target_acceptance', 'threshold_step', 'memory'}
OPEN = {'low_entropy_threshold', 'high_entropy_threshold', 'low_jsd_threshold', 'high_jsd_threshold', 'kappa', 'explore'}
OPTIONS = [(cls, name) for cls in STRATEGIES.values() for name in signature(cls).parameters]
NEVER = ['a', '4', b'4', nan, -1, True, False, torch.tensor(True), np.bool_(True), [4], torch.tensor([1., 2.]), object(), {}, 1j]

def test_every_option_is_known():
    assert {name for _, name in OPTIONS} == WHOLE | SHARE | OPEN | {'clock'}

@pytest.mark.parametrize('cls, name', OPTIONS, ids=lambda o: getattr(o, '__name__', o))
def test_odd_values(cls, name):
    bad = [3, 'now'] if name == 'clock' else NEVER + dict.fromkeys(WHOLE, [2.5, inf]).get(name, []) + dict.fromkeys(SHARE, [1.5, inf]).get(name, [])
    if name in ('kappa', 'explore'): bad = bad + [inf]
    if name == 'kappa': bad = bad + [0]
    for o in bad:
        with pytest.raises(ValueError) as e: cls(**{name: o})
        said = str(e.value)
        assert f'{name}={o!r}' in said and ': ' in said.split(f'{name}={o!r}')[1] and len(said.splitlines()) == 1

@pytest.mark.parametrize('cls, name', [(cls, name) for cls, name in OPTIONS if name != 'clock'], ids=lambda o: getattr(o, '__name__', o))
def test_numbers_of_other_libraries(cls, name):
    "NumPy's and torch's numbers make the controller that Python's make"
    value = 6 if name in WHOLE else 7. if 'entropy' in name else .25
    kinds = [np.int64, torch.tensor] if name in WHOLE else [np.float32, np.float64, torch.tensor]
    def state(c): return repr({k: v for k, v in vars(c).items() if k != 'clock'})
    for kind in kinds: assert state(cls(**{name: kind(value)})) == state(cls(**{name: value}))

def test_infinite_thresholds_are_never_reached():
    for cls in (STRATEGIES['entropy'], STRATEGIES['jsd']): assert cls(high_entropy_threshold=inf).high == inf

TARGET, DRAFT = (random_gpt2(seed, vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None) for seed in (1, 2))

@pytest.mark.parametrize('gamma', [True, False, torch.tensor(True), np.bool_(True), 0, -3, np.int64(0)])
def test_no_draft_length(gamma):
    with pytest.raises(ValueError, match='whole number >= 1'): generate(TARGET, DRAFT, [1, 2, 3], 4, gamma)

@pytest.mark.parametrize('gamma', [2.5, nan, '4', None, [4], STRATEGIES['aimd'], DRAFT])
def test_neither_length_nor_controller(gamma):
    with pytest.raises((TypeError, ValueError), match='give a whole number >= 1 or a controller') as e: generate(TARGET, DRAFT, [1, 2, 3], 4, gamma)
    assert len(str(e.value).splitlines()) == 1
    for cls in STRATEGIES.values():
        with pytest.raises(ValueError) as e: cls(gamma_max=DRAFT)
        assert len(str(e.value).splitlines()) == 1 and len(str(e.value)) < 250

@pytest.mark.parametrize('gamma', [np.int64(3), np.uint8(3), torch.tensor(3), np.array(3)])
def test_lengths_of_other_libraries(gamma):
    out = generate(TARGET, DRAFT, [1, 2, 3], 8, gamma)
    assert {type(r.gamma) for r in out.rounds} == {int} and out.rounds[0].gamma == 3
    assert as_controller(gamma).gamma_max == 3

@pytest.mark.parametrize('f', [expected_tokens, lambda alpha, gamma=2: speedup(alpha, gamma, .1), lambda alpha, gamma=2: best_gamma(alpha, .1, gamma_max=gamma)])
def test_formulas_name_what_is_odd(f):
    for o in ['.5', nan, 1.5, -1, True, None, object(), [.5, '.5'], [.5, nan]]:
        with pytest.raises(ValueError, match='alpha='): f(o, 2)
    for o in [-1, 2.5, nan, inf, True, '2', None]:
        with pytest.raises(ValueError, match='gamma'): f(.5, o)
    for o in (np.float32(.5), torch.tensor(.5), np.array([.5, .5]), torch.tensor([.5, .5]), (.5, .5)): assert f(o, np.int64(2)) == pytest.approx(f(.5, 2))

def test_costs_are_checked():
    for o in [-1, nan, inf, True, '.1', None]:
        with pytest.raises(ValueError, match='c=.*costs are finite'): speedup(.5, 2, o)
        with pytest.raises(ValueError, match='c=.*costs are finite'): best_gamma(.5, o)
    for o in [0, -1, nan, inf, True, '1', None, [1., nan], [0., 0.]]:
        with pytest.raises(ValueError, match='v=.*costs are finite'): best_gamma(.5, .1, o)
        with pytest.raises(ValueError, match='v=.*costs are finite'): speedup(.5, 2, .1, o)

@pytest.mark.parametrize('kind', [list, tuple, np.array, torch.tensor])
def test_best_gamma_looks_at_every_length(kind):
    "Against a search by hand, for costs of a longer pass that rise, jump and fall"
    gen = torch.Generator().manual_seed(0)
    for _ in range(50):
        v, a, c = 1 + torch.rand(8, generator=gen).double(), float(torch.rand(1, generator=gen)), float(torch.rand(1, generator=gen)) / 4
        gains = [1.] + [expected_tokens(a, g) / (g*c + float(v[g - 1])) for g in range(1, 9)]
        assert best_gamma(a, c, kind(v.tolist())) == gains.index(max(gains))
        assert best_gamma(a, c, kind(v.tolist()), 3) == gains[:4].index(max(gains[:4]))
    assert best_gamma(.8, .1) == best_gamma(.8, .1, gamma_max=60) == best_gamma(.8, .1, kind([1.]*60)) == 6

@pytest.mark.parametrize('answer', [2.5, -1, nan, None, '3', True, [3]])
def test_what_a_controller_of_the_user_may_answer(answer):
    class Mine:
        keep_going = None
        def gamma(self, remaining): return answer
        def observe(self, rnd): pass
    with pytest.raises(ValueError, match='gamma=.*: Mine asked for it'): generate(TARGET, DRAFT, [1, 2, 3], 4, Mine())
