"A controller that reads a clock reads the device's, wherever it was made; and the cost model may choose 0 wherever it is offered."
import pytest, torch
from specdec import comparing, control, generate, sweeping, timing
from specdec.control import as_controller
from specdec.learning import STRATEGIES, Bandit, CostModel, named_controller
from specdec.settings import make_controller
from specdec.zoo import Pair, random_gpt2

SHAPE = dict(vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None, initializer_range=.5)
TARGET, DRAFT = (random_gpt2(seed, **SHAPE) for seed in (1, 2))
TIMED = dict(bandit=Bandit, cost_model=CostModel)

@pytest.fixture
def waits(monkeypatch):
    "The devices that were waited for, one entry a wait"
    seen = []
    monkeypatch.setattr(control, 'device_wait', lambda device: lambda: seen.append(torch.device(device).type))
    return seen

def test_only_these_read_a_clock():
    assert {k for k in STRATEGIES if hasattr(named_controller(k), 'use_device')} == {*TIMED}

@pytest.mark.parametrize('name', TIMED)
def test_generate_tells_the_device(name, waits):
    mine = TIMED[name]()
    rounds = generate(TARGET, DRAFT, [1, 2, 3], 40, mine).rounds
    assert {*waits} == {'cpu'} and len(waits) >= 2*len(rounds) - 1     # when a round begins and when it ends; the end of the first is not timed
    waits.clear(); mine.gamma(9); mine.observe(rounds[0])
    assert not waits                                                   # the controller of the caller was told nothing

@pytest.mark.parametrize('name', TIMED)
def test_every_way_to_a_controller(name, waits):
    pair, ids = Pair(TARGET, DRAFT, None, 'x'), torch.tensor([1, 2, 3])
    made = make_controller(dict(strategy=name, gamma_min=1, gamma_max=4))
    ways = [lambda: generate(TARGET, DRAFT, ids, 12, made), lambda: timing.timed(TARGET, DRAFT, ids, 12, made), lambda: comparing.pass_costs(TARGET, DRAFT, ids, (made,), max_new_tokens=12),
            lambda: sweeping.against_plain(pair, [ids], name, max_new_tokens=12, runs=1), lambda: generate(TARGET, DRAFT, ids, 12, named_controller(name))]
    for i, way in enumerate(ways):
        waits.clear(); way()
        assert waits, i

@pytest.mark.parametrize('name', TIMED)
def test_a_clock_that_was_given_stays(name, waits):
    ticks = iter(range(10**6))
    generate(TARGET, DRAFT, [1, 2, 3], 12, TIMED[name](clock=lambda: float(next(ticks))))
    assert not waits and next(ticks) > 2

def test_a_controller_of_the_user_is_told_too():
    class Mine(control.Fixed):
        def use_device(self, device): told.append(device)
    told = []
    generate(TARGET, DRAFT, [1, 2, 3], 8, Mine(3))
    assert told == [torch.device('cpu')]
    as_controller(Mine(3)); assert len(told) == 1

def test_the_cost_model_of_a_sweep_may_choose_0(monkeypatch):
    "And the other controllers draft at least one token"
    assert {k: named_controller(k).gamma_min for k in STRATEGIES} == {k: int(k != 'cost_model') for k in STRATEGIES}
    seen, real = [], sweeping.two_ways
    def two_ways(pair, gamma, *args, **kw): seen.append(gamma); return real(pair, gamma, *args, **kw)
    monkeypatch.setattr(sweeping, 'two_ways', two_ways)
    sweeping.against_plain(Pair(TARGET, DRAFT, None, 'x'), [torch.tensor([1, 2, 3])], 'cost_model', max_new_tokens=8, runs=1)
    assert [c.gamma_min for c in seen] == [0]
