"A view or a drafter that two unfinished texts share: refused or kept apart, never read with the other's past."
import gc, threading
import pytest, torch
from specdec import texts
from specdec.decoding import autoregressive, generate, lossless_report, stream
from specdec.drafting import Composite, EarlyExit, ModelDraft, PromptLookup
from specdec.models import HFModel
from specdec.written_out import as_cached
from specdec.texts import _parts
from specdec.zoo import random_gpt2

def small(seed=1):
    return random_gpt2(seed, vocab_size=97, n_layer=2, n_head=2, n_embd=32, n_positions=128, bos_token_id=None, eos_token_id=None, initializer_range=.5)

TARGET, DRAFT, ONE, TWO, N = small(1), small(2), [1, 2, 3], [5, 6, 7, 8], 40
WANT = autoregressive(TARGET, ONE, N).tokens.tolist()

class Slotted:
    "A drafter of the caller's that remembers, and holds its views in a dict"
    def __init__(self, model): self.inner = dict(a=[ModelDraft(model)])
    def propose(self, *args): return self.inner['a'][0].propose(*args)
    def rollback(self, length): self.inner['a'][0].rollback(length)

view, draft_view, part = as_cached, as_cached, ModelDraft
SHARED = {
    'view': lambda: ((lm := as_cached(TARGET)), None, lm, None),
    'slow view': lambda: ((lm := HFModel(TARGET)), None, lm, None),
    'view of the draft': lambda: (TARGET, (lm := as_cached(DRAFT)), TARGET, lm),
    'drafter': lambda: (TARGET, (d := ModelDraft(DRAFT)), TARGET, d),
    'two drafters over one view': lambda: (TARGET, ModelDraft(lm := as_cached(DRAFT)), TARGET, ModelDraft(lm)),
    'early exit': lambda: (TARGET, (d := EarlyExit(TARGET, 1)), TARGET, d),
    'part of two composites': lambda: (TARGET, Composite(PromptLookup(), d := ModelDraft(DRAFT)), TARGET, Composite(d)),
    'composite': lambda: (TARGET, (d := Composite(PromptLookup(), DRAFT)), TARGET, d),
    'of its own making': lambda: (TARGET, (d := Slotted(DRAFT)), TARGET, d),
    'target of one, draft of the other': lambda: ((lm := as_cached(TARGET)), None, TARGET, lm),
}

@pytest.mark.parametrize('name', SHARED)
@pytest.mark.parametrize('before', [1, 3])
def test_the_older_text_is_refused_and_the_newer_one_is_right(name, before):
    t1, d1, t2, d2 = SHARED[name]()
    a, got = stream(t1, d1, ONE, N), []
    for _ in range(before): got += next(a).tokens.tolist()
    b = stream(t2, d2, TWO, N)
    new = next(b).tokens.tolist()
    with pytest.raises(ValueError, match='another text was begun with the same CachedLM or drafter'):
        for r in a: got += r.tokens.tolist()
    assert got == WANT[:len(got)]
    for r in b: new += r.tokens.tolist()
    assert new == autoregressive(TARGET, TWO, N).tokens.tolist()

@pytest.mark.parametrize('name', SHARED)
def test_a_text_that_was_not_begun_takes_nothing(name):
    t1, d1, t2, d2 = SHARED[name]()
    a, got = stream(t1, d1, ONE, N), []
    got += next(a).tokens.tolist()
    b = stream(t2, d2, TWO, N)                                           # forgets what was read, and reads nothing yet
    for r in a: got += r.tokens.tolist()
    assert got == WANT
    assert [t for r in b for t in r.tokens.tolist()] == autoregressive(TARGET, TWO, N).tokens.tolist()

@pytest.mark.parametrize('name', SHARED)
def test_an_abandoned_text_locks_nothing(name):
    t1, d1, t2, d2 = SHARED[name]()
    a = stream(t1, d1, ONE, N); next(a)
    assert generate(t2, d2, ONE, N).tokens.tolist() == WANT              # while it lives
    a.close(); del a; gc.collect()
    for _ in range(2): assert generate(t1, d1, ONE, N).tokens.tolist() == WANT

def test_what_remembers_nothing_may_be_shared():
    lookup = PromptLookup(vocab_size=97)
    a, b = (stream(TARGET, lookup, ids, N) for ids in (ONE, TWO))
    got = [[], []]
    for pair in zip(a, b):
        for g, r in zip(got, pair): g += r.tokens.tolist()
    for g, rest in zip(got, (a, b)): g += [t for r in rest for t in r.tokens.tolist()]
    wanted = [autoregressive(TARGET, ids, N).tokens.tolist() for ids in (ONE, TWO)]
    assert all(w[:len(g)] == g and len(g) > 20 for g, w in zip(got, wanted))

def test_models_give_each_text_its_own_view():
    a, b = stream(TARGET, DRAFT, ONE, N), stream(TARGET, DRAFT, TWO, N)
    got = []
    for r in a:
        got += r.tokens.tolist()
        next(b, None)
    assert got == WANT

def test_a_report_in_the_middle_of_a_text():
    lm, a = as_cached(TARGET), None
    a = stream(lm, None, ONE, N); next(a)
    wrong = torch.tensor(WANT); wrong[4] += 1
    assert lossless_report(lm, ONE, wrong, torch.tensor(WANT)).verdict == 'FAULT'
    with pytest.raises(ValueError, match='another text was begun'): next(a)

def test_reading_by_hand_in_the_middle_of_a_text():
    lm = as_cached(TARGET)
    a = stream(lm, None, ONE, N); next(a)
    lm.forward(torch.tensor([4, 5]))
    with pytest.raises(ValueError, match='used for another text'): next(a)
    b = stream(lm, None, ONE, N)
    got = next(b).tokens.tolist()
    lm.rollback(0)                                                       # emptied: read again
    assert got + [t for r in b for t in r.tokens.tolist()] == WANT

def test_one_view_is_no_pair():
    for make in (as_cached, HFModel):
        lm = make(TARGET)
        with pytest.raises(ValueError, match='not one CachedLM twice'): generate(lm, lm, ONE, N)
        with pytest.raises(ValueError, match='not one CachedLM twice'): generate(lm, ModelDraft(lm), ONE, N)
        with pytest.raises(ValueError, match='not one CachedLM twice'): generate(lm, Composite(PromptLookup(min_ngram=3), lm), ONE, N)

def test_threads_over_one_view_give_the_right_text_or_an_error():
    lm, draft, outcomes, start = as_cached(TARGET), ModelDraft(DRAFT), [], threading.Barrier(4)
    def work():
        start.wait()
        for _ in range(5):
            try: outcomes.append(generate(lm, draft, ONE, N).tokens.tolist() == WANT)
            except ValueError as e: outcomes.append(str(e))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join(120)
    assert len(outcomes) == 20 and False not in outcomes and True in outcomes
    assert all(o is True or 'another text was begun' in o for o in outcomes), outcomes

def test_nothing_is_kept_alive():
    known = len(texts._slots)
    lm, draft = as_cached(TARGET), Composite(DRAFT, PromptLookup())
    list(stream(lm, draft, ONE, 8))
    assert len(_parts(draft)) == 3 and len(texts._slots) > known
    del lm, draft; gc.collect()
    assert len(texts._slots) <= known
