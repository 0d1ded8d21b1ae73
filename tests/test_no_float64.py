"On a device without float64: the loops, every rule, draft and controller run, and draw nothing of probability zero."
from copy import deepcopy
import pytest, torch
from fake_device import no_float64
from specdec import generate
import specdec.lossy                                                     # noqa: F401  (its rules are in RULES)
from specdec.learning import STRATEGIES
from specdec.settings import make_controller
from specdec.distributions import draw, new_generator, probs
from specdec.drafting import Bigram, Composite, EarlyExit, ModelDraft, PromptLookup
from specdec.quantise import quantise
from specdec.models import HFModel
from specdec.verification import RULES
from specdec.zoo import random_gpt2

SHAPE = dict(vocab_size=31, n_positions=64, n_embd=32, n_head=2, n_layer=2, initializer_range=.3, tie_word_embeddings=False, bos_token_id=None, eos_token_id=None)
TARGET, SMALL = random_gpt2(1, **SHAPE), random_gpt2(2, **SHAPE)
DRAFTS = dict(model=lambda t, s: s, transformers=lambda t, s: HFModel(s), lookup=lambda t, s: PromptLookup(), composite=lambda t, s: Composite(PromptLookup(), ModelDraft(s)),
              bigram=lambda t, s: Bigram(torch.rand(31, 31, generator=new_generator(5))), early_exit=lambda t, s: EarlyExit(t, 1), int8=lambda t, s: quantise(s, 8), int4=lambda t, s: quantise(s, 4, group=32))

def run(draft, settings):
    "Decode with models that have just come to the device"
    target, small = deepcopy(TARGET), deepcopy(SMALL)
    return generate(target, DRAFTS[draft](target, small), [1, 2, 3, 1, 2, 3], 20, seed=0, **settings)

def test_the_stand_in_refuses_and_reports():
    with no_float64() as calls:
        assert torch.ones(2).device.type == 'mps' and torch.ones(2, device='mps').to('mps').device.type == 'mps' and 'ones' in calls
        for call in (lambda: torch.ones(2).double(), lambda: torch.rand(2, dtype=torch.float64), lambda: torch.ones(2).cumsum(-1, dtype=torch.float64)):
            with pytest.raises(TypeError, match='float64'): call()
    assert torch.ones(2).device.type == 'cpu' and torch.ones(2).double().dtype == torch.float64

@pytest.mark.parametrize('name', DRAFTS)
@pytest.mark.parametrize('settings', [{}, dict(temperature=1.), dict(temperature=.7, top_k=5, top_p=.9)], ids=str)
def test_every_draft(name, settings):
    want = run(name, settings)
    with no_float64() as calls: got = run(name, settings)
    assert len(got.tokens) == 20 and 'multinomial' not in calls
    if not settings: assert got.tokens.equal(want.tokens) and got.stats == want.stats          # greedy: no draw, the same operations

@pytest.mark.parametrize('rule', [k for k in sorted(RULES) if k != 'greedy'])
@pytest.mark.parametrize('strategy', sorted(STRATEGIES))
def test_every_rule_and_controller(rule, strategy):
    with no_float64(): out = generate(deepcopy(TARGET), deepcopy(SMALL), [1, 2, 3], 20, make_controller(dict(strategy=strategy, gamma_min=1, gamma_max=6), 3), 1., rule=rule, seed=0)
    assert len(out.tokens) == 20

def test_draws_in_float32_have_the_law_and_no_zeros():
    "Half of the tokens are ruled out; a draw of one of them would be a fault"
    z = torch.randn(1000, generator=new_generator(0)); z[::2] = -torch.inf
    with no_float64():
        p = probs(z)
        x = draw(p.expand(200_000, -1), new_generator(1))
    count = torch.bincount(x, minlength=1000).double()
    assert count[::2].sum() == 0 and p.sum() > .999
    e = 200_000 * probs(z.double())
    assert ((count - e).abs() / e.sqrt())[1::2].max() < 5
