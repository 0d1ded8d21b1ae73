"How often the host waits for the device: once a round, and what the controllers that look at rows, the clocks and the lookup add to it."
import pytest, torch
from torch.utils._python_dispatch import TorchDispatchMode
from specdec import control, stream
from specdec.control import JSD, AdaEDL, Confidence, Entropy
from specdec.learning import STRATEGIES, named_controller
from specdec.drafting import Bigram, Composite, EarlyExit, PromptLookup
from specdec.zoo import random_gpt2

SHAPE = dict(vocab_size=97, n_layer=2, n_head=2, n_embd=32, n_positions=96, bos_token_id=None, eos_token_id=None, initializer_range=.3)
TARGET, DRAFT = (random_gpt2(seed, **SHAPE) for seed in (1, 2))
WAITS = ('aten._local_scalar_dense', 'aten.equal', 'aten.is_nonzero', 'aten.nonzero')

class Spy(TorchDispatchMode):
    "Counts what would make the host wait: copies to the CPU, and single numbers that are read"
    def __init__(self): super().__init__(); self.copies = self.numbers = 0
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.copies += str(op).startswith('aten._to_copy') and (kwargs or {}).get('device') == torch.device('cpu')
        self.numbers += str(op).startswith(WAITS)
        return op(*args, **(kwargs or {}))

def counted(draft, gamma, **kw):
    "Rounds of a text, and the copies and numbers that the host waited for"
    rounds = stream(TARGET, draft, [1, 2, 3, 1, 2], 30, gamma, seed=0, **kw)          # the prompt is looked at before
    with Spy() as spy: rounds = list(rounds)
    return rounds, spy.copies, spy.numbers

def a_token(rounds): return sum(len(r.x) for r in rounds)
EXTRA = dict(entropy=a_token, confidence=a_token, adaedl=a_token, jsd=lambda rounds: a_token(rounds) + sum(len(r.x) > 0 for r in rounds))

@pytest.mark.parametrize('temperature', [0., 1.])
@pytest.mark.parametrize('name', STRATEGIES)
def test_what_a_controller_adds(name, temperature):
    "A number a drafted token for those that stop drafts, one more a round for the distance; nothing for the others"
    rounds, copies, numbers = counted(DRAFT, named_controller(name), temperature=temperature)
    assert copies == len(rounds) and numbers == EXTRA.get(name, lambda rounds: 0)(rounds)

@pytest.mark.parametrize('c', [Entropy(high_entropy_threshold=1., low_entropy_threshold=0., warmup_steps=0), JSD(high_entropy_threshold=1., warmup_steps=0), Confidence(threshold=.9), AdaEDL(threshold=.9)], ids=lambda c: type(c).__name__)
def test_also_where_it_stops(c):
    rounds, copies, numbers = counted(DRAFT, c, temperature=1.)
    assert any(len(r.x) < r.gamma for r in rounds[:-1])                               # it did stop
    assert (copies, numbers) == (len(rounds), EXTRA[type(c).__name__.lower()](rounds))

def test_a_controller_that_reads_more_is_noticed():
    class Curious(Confidence):
        def sure(self, row): return bool(row.max() > 0) and super().sure(row)
    rounds, _, numbers = counted(DRAFT, Curious())
    assert numbers == 2*a_token(rounds)

def test_what_a_drafter_adds():
    "A lookup reads one number a proposal; a table, a model and the first layers none"
    for draft, per in ((EarlyExit(TARGET, 1), 0), (Bigram.from_text([1, 2, 3, 1], 97), 0), (PromptLookup(), 1), (Composite(PromptLookup(), DRAFT), 1)):
        rounds, copies, numbers = counted(draft, 3)
        asked = sum(1 for left in lefts(rounds) if left > 1)                          # the last round may have no room for a draft
        assert (copies, numbers) == (len(rounds), per*asked), type(draft)

def lefts(rounds, n=30):
    "Tokens still to come before each round"
    for r in rounds:
        yield n
        n -= len(r.tokens)

@pytest.mark.parametrize('name', ['bandit', 'cost_model'])
def test_what_a_clock_adds(name, monkeypatch):
    "A wait when a round begins and one when it ends; the cost model listens inside a draft in few rounds"
    waits = []
    monkeypatch.setattr(control, 'device_wait', lambda device: lambda: waits.append(1))
    rounds, copies, numbers = counted(DRAFT, named_controller(name))
    assert (copies, numbers) == (len(rounds), 0)
    inside = len(waits) - (2*len(rounds) - 1)
    assert inside == 0 if name == 'bandit' else 0 < inside < a_token(rounds)
