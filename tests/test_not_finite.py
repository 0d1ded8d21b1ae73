"Logits that are no numbers to choose from: NaN, an overflow, a row that rules out everything; on either side, greedy and sampled, in any round."
import pytest, torch
import specdec.lossy                                                     # noqa: F401  (its rules are in RULES)
from specdec.decoding import autoregressive, generate, lossless_report
from specdec.distributions import probs
from specdec.drafting import Composite, ModelDraft, PromptLookup, Table
from specdec.models import HFModel
from specdec.verification import RULES
from specdec.zoo import random_gpt2

class Rows:
    "A language model over five tokens that counts on; after token 3 its row is `bad`"
    vocab_size, max_length, device = 5, 2**20, torch.device('cpu')
    def __init__(self, bad, dtype=torch.float32):
        self.logits, self.length = 4 * torch.eye(5, dtype=dtype).roll(1, 1), 0
        self.logits[3] = bad
    def forward(self, ids, last=None): self.length += len(ids); return self.logits[ids[-(last or len(ids)):]]
    def rollback(self, length): self.length = length

inf, nan = torch.inf, torch.nan
good = torch.tensor([0., 0, 0, 0, 4])
BAD = {'nan': nan * good, 'one nan': good + torch.tensor([nan, 0, 0, 0, 0]), 'overflow': good + torch.tensor([0, inf, 0, 0, 0]), 'both': torch.tensor([nan, inf, 0, 0, -inf]),
       'nan beside masks': torch.tensor([nan, -inf, -inf, -inf, -inf]), 'nothing left': torch.full((5,), -inf)}
SETTINGS = [dict(), dict(temperature=1., seed=0), dict(temperature=.5, top_k=2, seed=0), dict(temperature=1., top_p=.5, seed=0), *(dict(temperature=1., rule=r, seed=0) for r in RULES if r not in ('greedy', 'token'))]

@pytest.mark.parametrize('dtype', [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize('settings', SETTINGS, ids=str)
@pytest.mark.parametrize('bad', BAD)
def test_refused_on_either_side(bad, settings, dtype):
    sick, well, seen = Rows(BAD[bad].to(dtype), dtype), lambda: Rows(good.to(dtype), dtype), []
    for target, draft, who in ((sick, None, 'target'), (sick, well(), 'target'), (well(), sick, 'draft'), (well(), Composite(PromptLookup(min_ngram=3), sick), 'draft')):
        with pytest.raises(ValueError, match='the logits of the .* after .* tokens hold NaN or an overflow, or rule out every token') as e: seen.append(generate(target, draft, [0], 2000, 2, **settings))
        assert who in str(e.value)
    assert len(generate(well(), well(), [0], 50, 2, **settings).tokens) == 50

@pytest.mark.parametrize('settings', SETTINGS, ids=str)
def test_tokens_that_are_ruled_out_are_no_fault(settings):
    masked = torch.tensor([-inf, -inf, -inf, -inf, 1.])
    assert len(generate(Rows(masked), Rows(good), [0], 50, 2, **settings).tokens) == 50
    assert len(generate(Rows(good), Rows(masked), [0], 50, 2, **settings).tokens) == 50
    big = Rows(torch.full((5,), 6e4), torch.float16)                     # large, but a number
    assert len(generate(big, big.__class__(-6e4 * torch.ones(5), torch.float16), [0], 50, 2, **settings).tokens) == 50

@pytest.mark.parametrize('wrap', [lambda m: m, HFModel], ids=['written out', 'transformers'])
def test_a_head_that_overflows_in_half_precision(wrap):
    m = random_gpt2(1, vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None, tie_word_embeddings=False)
    z = m.transformer(torch.tensor([[1, 2, 3]])).last_hidden_state[0, -1].detach()
    m.lm_head.weight.data[5] = 6e4 * z.sign()
    m = m.half()
    for settings in SETTINGS:
        with pytest.raises(ValueError, match='overflow'): autoregressive(wrap(m), [1, 2, 3], 8, **{k: v for k, v in settings.items() if k != 'rule'})

def test_a_processor_that_rules_out_everything():
    def nothing(ids, scores): return torch.full_like(scores, -inf)
    for settings in (dict(), dict(temperature=1., seed=0)):
        with pytest.raises(ValueError, match='rule out every token'): generate(Rows(good), Rows(good), [0], 8, logits_processor=nothing, **settings)
        with pytest.raises(ValueError, match='rule out every token'): autoregressive(Rows(good), [0], 8, logits_processor=nothing, **settings)

def test_a_processor_may_mend_what_a_model_broke():
    def mended(ids, scores): return scores.nan_to_num(0., 9., -9.)
    sick = Rows(BAD['overflow'])
    assert generate(sick, None, [0], 8, logits_processor=mended).tokens.tolist() == [1, 2, 3, 1, 2, 3, 1, 2]

@pytest.mark.parametrize('bad', BAD)
def test_a_verdict_needs_numbers(bad):
    with pytest.raises(ValueError, match='overflow'): lossless_report(Rows(BAD[bad]), [3], [0, 1], [1, 2])

@pytest.mark.parametrize('bad', BAD)
@pytest.mark.parametrize('T', [0, .5, 1])
def test_probs_give_nan(bad, T):
    p = probs(torch.stack([BAD[bad], good]), T)
    assert p.isnan().any(-1).tolist() == [True, False]

def test_drafts_that_are_no_rows():
    class Odd(ModelDraft):
        def propose(self, ids, g, *args): return super().propose(ids, g + 1, *args)
    class Short(ModelDraft):
        def propose(self, *args): x, q = super().propose(*args); return x, q[:-1]
    for kind in (Odd, Short):
        with pytest.raises(ValueError, match=f'{kind.__name__} proposed'): generate(Table(torch.ones(5, 5)), kind(Table(torch.ones(5, 5))), [0], 8, 3)
