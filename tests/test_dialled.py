"Dialled pairs in the loops: acceptance is that of the coins, and every loop writes the same text."
import pytest, torch
from specdec import autoregressive, generate
from specdec.comparing import hf_generate
from specdec.dialled import dialled_pair

FEW = dict(vocab_size=300, n_positions=200, n_embd=32, n_head=2)
PROMPT, NEW = torch.arange(10), 120

@pytest.fixture(scope='module', params=[.3, .7, .95])
def pair(request): return dialled_pair({**FEW, 'n_layer': 3}, {**FEW, 'n_layer': 1}, alpha=request.param, device='cpu', dtype='float32')

def walked(coins, gamma, L, limit):
    "(kept, tokens) of every round, from the coins alone: position i holds the coin of the token behind it"
    while L < limit:
        g = min(gamma, limit - L - 1)
        n = next((i for i in range(g) if not coins[L - 1 + i]), g)
        yield n, n + 1
        L += n + 1

@pytest.mark.parametrize('gamma', [1, 4, 9])
@pytest.mark.parametrize('temperature', [0., 1.])
def test_rounds_are_those_of_the_coins(pair, gamma, temperature):
    out = generate(pair.target, pair.draft, PROMPT, NEW, gamma, temperature, seed=0)
    coins = (pair.target.script == pair.draft.script).tolist()
    assert [(r.n, len(r.tokens)) for r in out.rounds] == list(walked(coins, gamma, len(PROMPT), len(PROMPT) + NEW))
    assert out.tokens.tolist() == pair.target.script[9:9 + NEW].tolist()

def test_every_loop_writes_the_same(pair):
    text = autoregressive(pair.target, PROMPT, NEW).tokens.tolist()
    assert generate(pair.target, pair.draft, PROMPT, NEW).tokens.tolist() == text
    for assistant, gamma in ((None, None), (pair.draft, 4), (pair.draft, None)):
        assert hf_generate(pair.target, PROMPT, NEW, assistant, gamma).tolist() == text

def test_transformers_accepts_what_the_coins_say(pair, monkeypatch):
    "Its assisted loop makes as many passes of the target as ours makes rounds"
    passes, forward = [], type(pair.target).forward
    def counted(self, *args, **kw):
        if len(self.transformer.h) == 3: passes.append(1)       # the target, or the copy of it that transformers runs
        return forward(self, *args, **kw)
    counted.__wrapped__ = forward
    monkeypatch.setattr(type(pair.target), 'forward', counted)
    hf_generate(pair.target, PROMPT, NEW, pair.draft, 4)
    rounds = len(generate(pair.target, pair.draft, PROMPT, NEW, 4).rounds)
    assert abs(len(passes) - rounds) <= 1

def test_the_stand_in_tokenizer_reads_and_writes(pair):
    out = generate(pair.target, pair.draft, 'abc', 20, tokenizer=pair.tokenizer)
    assert isinstance(out.text, str) and len(out.tokens) == 20
