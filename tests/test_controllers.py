"Every controller in the real loop: same text, exact budget, no state from one call to the next, and it comes back when drafts become good again."
from copy import deepcopy
import pytest, torch
from specdec.control import AIMD, AdaEDL, Confidence, Entropy, Fixed, Heuristic, JSD
from specdec.learning import STRATEGIES, Bandit, CostModel
from specdec.decoding import autoregressive, generate
from specdec.written_out import as_cached
from specdec.zoo import random_gpt2

class Ticks:
    "A clock that the priced models move"
    now = 0.
    def __call__(self): return self.now

class Priced:
    "A model whose passes take `price` ticks of a clock: hardware that is always the same"
    def __init__(self, model, clock, price): self.lm, self.clock, self.price = as_cached(model), clock, price
    vocab_size, max_length, device, length = (property(lambda self, k=k: getattr(self.lm, k)) for k in ('vocab_size', 'max_length', 'device', 'length'))
    def rollback(self, length): self.lm.rollback(length)
    def forward(self, ids, last=None):
        self.clock.now += self.price
        return self.wrong(self.lm.forward(ids, last))
    def wrong(self, logits): return logits

class Sulking(Priced):
    "Never proposes the best token during its first `bad` rounds; a round begins where the text was rewound to"
    def __init__(self, *args, bad): super().__init__(*args); self.bad = bad
    def rollback(self, length):
        super().rollback(length)
        self.bad -= length > 0
    def wrong(self, logits): return -logits if self.bad > 0 else logits

class Copier:
    "A draft that is no model: proposes the last tokens again, and never asks `keep_going`"
    def propose(self, ids, gamma, sampler, keep_going=None):
        x = ids[-gamma:] if len(ids) % 3 else ids[:0]
        return x, torch.nn.functional.one_hot(x, 97).float()
    def rollback(self, length): pass

@pytest.fixture(scope='module')
def model(): return random_gpt2(1, vocab_size=97, n_positions=512, n_embd=32, n_head=2, n_layer=2, initializer_range=.3, tie_word_embeddings=False)

@pytest.fixture(scope='module')
def noisy(model):
    "A draft that agrees with the model now and then"
    noisy, g = deepcopy(model), torch.Generator().manual_seed(0)
    for w in noisy.parameters(): w.data += .05 * torch.randn(w.shape, generator=g)
    return noisy

PROMPT = torch.arange(7)
ALL = {'Fixed': lambda t: Fixed(4), 'AIMD': lambda t: AIMD(), 'Heuristic': lambda t: Heuristic(), 'Entropy': lambda t: Entropy(low_entropy_threshold=1., high_entropy_threshold=2., warmup_steps=3),
       'JSD': lambda t: JSD(high_entropy_threshold=4.), 'Confidence': lambda t: Confidence(), 'AdaEDL': lambda t: AdaEDL(), 'Bandit': lambda t: Bandit(clock=t), 'CostModel': lambda t: CostModel(clock=t)}
every = pytest.mark.parametrize('name', ALL)

def test_all_of_them(): assert set(ALL) == {c.__name__ for c in STRATEGIES.values()}

def run(name, target, draft, n, price=.1, clock=None, **kw):
    "Decode `n` tokens under a controller whose clock is moved by the two models"
    clock = clock or Ticks()
    d = Priced(draft, clock, price) if hasattr(draft, 'config') else draft
    return generate(Priced(target, clock, 1.), d, PROMPT, n, ALL[name](clock), **kw)

@every
def test_greedy_text_and_exact_budget(name, model, noisy):
    for n in (0, 1, 2, 5, 80):
        want = autoregressive(model, PROMPT, n).tokens
        for draft in (model, noisy, Copier()):
            out, left = run(name, model, draft, n), n
            assert out.tokens.equal(want)
            for r in out.rounds:
                assert len(r.x) <= min(r.gamma, left - 1)
                if not isinstance(draft, Copier): assert len(r.x) >= 1 or left == 1 or (r.gamma == 0 and name == 'CostModel')
                left -= len(r.tokens)
            assert left == 0

@every
def test_sampled_text_has_the_right_law(name):
    "A context-free target: every token is an independent draw from p"
    p, q = torch.tensor([.5, .3, .15, .05]), torch.tensor([.2, .3, .1, .4])
    class Table:
        vocab_size, max_length, device, length = 4, 2**20, torch.device('cpu'), 0
        def __init__(self, p, clock, price): self.logits, self.clock, self.price = p.log(), clock, price
        def rollback(self, length): self.length = length
        def forward(self, ids, last=None):
            self.length += len(ids); self.clock.now += self.price
            return self.logits.expand(last or len(ids), -1)
    t, N = Ticks(), 1000
    out = generate(Table(p, t, 1.), Table(q, t, .1), [0], N, ALL[name](t), temperature=1., seed=0)
    z = (torch.bincount(out.tokens, minlength=4) - N*p) / (N*p*(1 - p)).sqrt()
    assert z.abs().max() < 4
    assert 0 < out.stats.kept < out.stats.proposed                       # drafts were kept, and drafts were not

@every
def test_no_state_from_one_call_to_the_next(name, model, noisy):
    clock = Ticks()
    c, target, draft = ALL[name](clock), Priced(model, clock, 1.), Priced(noisy, clock, .1)
    before = repr({k: v for k, v in vars(c).items() if k != 'clock'})
    runs = [[(r.gamma, len(r.x), r.n) for r in generate(target, draft, PROMPT, 80, c).rounds] for _ in range(2)]
    assert runs[0] == runs[1]
    assert repr({k: v for k, v in vars(c).items() if k != 'clock'}) == before

@every
def test_recovers_from_fifty_bad_rounds(name, model):
    clock = Ticks()
    draft = Sulking(model, clock, .1, bad=50)
    rounds = generate(Priced(model, clock, 1.), draft, PROMPT, 400, ALL[name](clock)).rounds
    drafted = [r for r in rounds if len(r.x)]
    assert all(r.n == 0 for r in rounds[:50])
    assert all(r.n == len(r.x) for r in drafted[-20:])                   # every draft is kept again, whatever came before
    if name in ('Entropy', 'Confidence'): return                         # they judge the draft by its own rows alone
    assert max(len(r.x) for r in drafted[-20:]) >= 4                     # and they are long again

def test_cost_model_stops_when_drafts_are_dear_and_resumes_when_they_are_cheap(model):
    clock = Ticks()
    target, draft = Priced(model, clock, 1.), Priced(model, clock, 3.)
    class Cheaper(CostModel):
        "The draft gets cheap after 40 rounds"
        seen = 0
        def observe(self, rnd):
            super().observe(rnd)
            self.seen += 1
            if self.seen == 40: draft.price = .05
    rounds = generate(target, draft, PROMPT, 400, Cheaper(clock=clock)).rounds
    lengths = [len(r.x) for r in rounds]
    assert lengths[20:40].count(0) >= 18                                 # an oracle at three times the price: plain decoding, with a probe now and then
    assert lengths[-9:].count(0) <= 1 and max(lengths[-9:]) == 12        # cheap: back to drafting, as long as may be
    assert all(r.n == len(r.x) for r in rounds)                          # and the draft's cache was right each time it resumed

def test_scripted_pause(model):
    class Scripted(Fixed):
        def observe(self, rnd): self.length = self.script.pop(0)
    c = Scripted(4); c.script = [0, 0, 0, 4, 4]
    out = generate(model, model, PROMPT, 13, c)
    assert [(r.gamma, r.n) for r in out.rounds] == [(4, 4), (0, 0), (0, 0), (0, 0), (4, 4)]
    assert out.tokens.equal(autoregressive(model, PROMPT, 13).tokens)
