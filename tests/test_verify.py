"`verify`: a mistake in its arguments gets one line that names it, whatever was given."
import subprocess, sys
import numpy as np, pytest, torch
from torch import tensor
from specdec.lossy import Thresholds, TypicalRule
from specdec.verification import RULES, GreedyRule, TokenRule, as_rule, check_rule, verify

p, q = tensor([.5, .3, .2]), tensor([.2, .3, .5])
P, Q, X = p.expand(3, 3), q.expand(2, 3), tensor([0, 2])

BAD = {
    'lists': (dict(p=[[1.]], q=[], x=[]), 'p is of type list'),
    'a list for q': (dict(q=Q.tolist()), 'q is of type list'),
    'a list for x': (dict(x=[0, 2]), 'x is of type list'),
    'a list for u': (dict(u=[.1, .2]), 'u is of type list'),
    'numpy': (dict(p=np.ones((3, 3)) / 3), 'p is of type ndarray'),
    'nothing': (dict(p=None), 'p is of type NoneType'),
    'a number for x': (dict(x=tensor(1)), 'batch size 1'),
    'a batch': (dict(p=P[None], q=Q[None], x=X[None]), 'batch size 1'),
    'fewer drafts': (dict(x=X[:1]), '3 rows of p and 2 of q for 1 drafted'),
    'fewer rows of p': (dict(p=P[:2]), '2 rows of p and 2 of q for 2 drafted'),
    'vocabularies': (dict(q=Q[:, :2]), 'p has 3 tokens and q 2'),
    'no vocabulary': (dict(p=P[:, :0], q=Q[:, :0]), 'not empty'),
    'float ids': (dict(x=X.float()), 'token ids must be integers'),
    'complex ids': (dict(x=X.to(torch.complex64)), 'token ids must be integers'),
    'truth values': (dict(x=tensor([True, False])), 'token ids must be integers'),
    'id too large': (dict(x=tensor([0, 3])), 'ids from 0 to 3: they must be in 0..2'),
    'id below 0': (dict(x=tensor([-1, 2])), 'ids from -1 to 2'),
    'whole numbers for p': (dict(p=tensor([[1, 0, 0]] * 3)), 'p has dtype torch.int64'),
    'complex q': (dict(q=Q.to(torch.complex64)), 'q has dtype torch.complex64'),
    'three coins': (dict(u=torch.rand(3)), 'one coin a draft'),
    'a coin of 1': (dict(u=tensor([.1, 1.])), 'outside [0, 1)'),
    'a coin below 0': (dict(u=tensor([-.1, .1])), 'outside [0, 1)'),
    'a coin that is NaN': (dict(u=tensor([.1, torch.nan])), 'outside [0, 1)'),
    'whole coins': (dict(u=tensor([0, 0])), 'u has dtype torch.int64'),
    'NaN': (dict(q=Q * torch.nan), 'row 0 of q sums to nan'),
    'infinity': (dict(q=Q * torch.inf), 'row 0 of q sums to inf'),
    'a row that sums to 2': (dict(p=P * tensor([[1.], [2.], [1.]])), 'row 1 of p sums to 2, its least entry is 0.4'),
    'a negative entry': (dict(q=Q - tensor([.4, 0, -.4])), 'row 0 of q sums to 1, its least entry is -0.2'),
    'logits': (dict(p=P.log(), rule='greedy'), 'row 0 of p sums to -3.5'),
    'another device': (dict(q=Q.to('meta')), 'p is on cpu and another argument on meta'),
    'an unknown rule': (dict(rule='best'), "rule='best': it must be one of"),
    'no rule': (dict(rule=None), 'rule=None: it must be one of'),
}

@pytest.mark.parametrize('name', BAD)
def test_a_mistake_gets_one_line(name):
    wrong, words = BAD[name]
    with pytest.raises((ValueError, TypeError)) as e: verify(**dict(p=P, q=Q, x=X) | wrong)
    assert words in str(e.value) and len(str(e.value).splitlines()) == 1, str(e.value)

@pytest.mark.parametrize('dtype', [torch.int32, torch.uint8, torch.int16])
def test_ids_of_any_whole_type(dtype):
    tokens, n = verify(P, Q, X.to(dtype), u=tensor([.1, .1]))
    assert tokens.dtype == torch.long and n == 2 and tokens[:2].equal(X)

@pytest.mark.parametrize('rule', RULES)
def test_nothing_drafted_is_no_mistake(rule):
    tokens, n = verify(P[:1], Q[:0], X[:0], rule=rule)
    assert len(tokens) == 1 and n == 0

def test_float32_over_a_large_vocabulary_is_close_enough():
    wide = torch.randn(2, 10**5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    state = torch.get_rng_state()
    verify(wide, wide[:1], X[:1])
    assert torch.get_rng_state().equal(state)                            # the global stream is not touched

# A rule that is handed over meets the checks that its name meets.
class Mine(GreedyRule): pass
class Half:
    lossless = True
    def __repr__(self): return 'half a rule'
    def ratio(self, p, q, x): pass

def test_the_greedy_rule_is_for_temperature_0_in_any_form():
    for rule in ('greedy', GreedyRule(), Mine()):
        check_rule(as_rule(rule), 0)
        with pytest.raises(ValueError, match='set temperature=0'): check_rule(as_rule(rule), .5)
    for rule in ('token', 'block', 'ada', 'typical', TokenRule()): check_rule(as_rule(rule), .5)

@pytest.mark.parametrize('rule, words', [(TokenRule, 'give an instance, TokenRule()'), (Half(), 'a Rule has count, closing, observe too'), (3, 'it must be one of'), ([], 'it must be one of'), (True, 'it must be one of')], ids=str)
def test_what_is_no_rule_is_named(rule, words):
    with pytest.raises(ValueError) as e: as_rule(rule)
    assert words in str(e.value)

@pytest.mark.parametrize('bad', [dict(epsilon=1.), dict(epsilon=-.1), dict(delta=0.), dict(delta='a'), dict(epsilon=None), dict(epsilon=float('nan')), dict(epsilon=True)], ids=str)
def test_settings_of_the_typical_rule(bad):
    with pytest.raises(ValueError, match='must be in'): TypicalRule(**bad)

@pytest.mark.parametrize('bad', [dict(keep_smoothing=2.), dict(reject_smoothing=-1.), dict(keep_smoothing=float('nan'))], ids=str)
def test_settings_of_the_thresholds(bad):
    with pytest.raises(ValueError, match='a smoothing must be in'): Thresholds(**bad)

@pytest.mark.parametrize('name', ['ada', 'typical'])
def test_a_lossy_rule_is_found_by_its_name(name):
    "Also where only `verification` was imported"
    code = f"from specdec.verification import as_rule; print(as_rule({name!r}).lossless)"
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout.strip() == 'False'
