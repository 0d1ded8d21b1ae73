"A draft with another tokenizer: the text is the target's own"
import importlib.util
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from specdec import autoregressive, generate, load_pair
from specdec.distributions import Sampler
from specdec.smollm2 import NEEDED
from specdec.translation import TranslatedDraft, cut_again, shared_tokens
from specdec.written_out import as_cached

WAYS = 'shared', 'text'


def byte_tokenizer():
    "A tokenizer without merges: a token a byte, and one special token"
    vocab = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    inner = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token='<end>')


def byte_model(seed=0):
    "A random model over bytes"
    torch.manual_seed(seed)
    shape = GPT2Config(vocab_size=257, n_embd=32, n_head=2, n_layer=2, n_positions=128)
    return GPT2LMHeadModel(shape).eval()


@pytest.fixture(scope='module')
def pair():
    return load_pair()


@pytest.fixture(scope='module')
def drafts(pair):
    "A draft over bytes, and the pair's own through the same door"
    own, bytes_ = pair.tokenizer, byte_tokenizer()
    return {(name, how): TranslatedDraft(model, tok, own, how) for how in WAYS
            for name, model, tok in (('bytes', byte_model(), bytes_), ('own', pair.draft, own))}


@pytest.mark.parametrize('how', WAYS)
@pytest.mark.parametrize('name', ['bytes', 'own'])
@pytest.mark.parametrize('prompt', ['def add(a, b):\n    return', 'The café — naïve ✓', ' leading', 'retur'])
def test_greedy_text_is_the_targets(pair, drafts, name, how, prompt):
    options = dict(max_new_tokens=24, tokenizer=pair.tokenizer)
    want = autoregressive(pair.target, prompt, **options)
    out = generate(pair.target, drafts[name, how], prompt, gamma=4, **options)
    assert torch.equal(out.tokens, want.tokens)
    assert out.stats.proposed > 0


@pytest.mark.parametrize('how', WAYS)
def test_good_draft_is_kept_and_a_round_is_rejected(pair, drafts, how):
    out = generate(pair.target, drafts['own', how], 'import os\n', max_new_tokens=40, gamma=4,
                   tokenizer=pair.tokenizer)
    kept = {r.n for r in out.rounds}
    assert max(kept) > 0 and min(kept) < 4
    assert out.stats.tau > 1.3


@pytest.mark.parametrize('how', WAYS)
def test_sampled_twice_is_the_same(pair, drafts, how):
    options = dict(max_new_tokens=20, temperature=1., seed=3, tokenizer=pair.tokenizer)
    a, b = (generate(pair.target, drafts['bytes', how], 'class A:', **options) for _ in range(2))
    assert torch.equal(a.tokens, b.tokens)


def test_first_tokens_have_the_targets_distribution(pair):
    "Seeded Monte Carlo over the mass of the likeliest first tokens; a draft read with a soft q must fail it"
    draft, ids = TranslatedDraft(pair.draft, pair.tokenizer, pair.tokenizer, 'text'), [5, 9, 11]
    N = 400

    class Soft(TranslatedDraft):
        "Says that re-tokenized text was drawn from a flat distribution"
        def propose(self, *args):
            x, q = super().propose(*args)
            return x, torch.full_like(q, 1 / q.shape[-1])

    def share(d):
        out = [int(generate(pair.target, d, ids, max_new_tokens=2, gamma=1, temperature=1., seed=s).tokens[0])
               for s in range(N)]
        return torch.bincount(torch.tensor(out), minlength=len(p)) / N

    with torch.no_grad():
        p = pair.target(torch.tensor([ids])).logits[0, -1].softmax(-1)
        q = pair.draft(torch.tensor([ids])).logits[0, -1].softmax(-1)
    over = (q > p[:len(q)]).nonzero()[:, 0]                   # what the draft says too often
    want = float(p[over].sum())
    error = (want * (1 - want) / N) ** .5
    assert abs(float(share(draft)[over].sum()) - want) < 4 * error
    soft = Soft(pair.draft, pair.tokenizer, pair.tokenizer, 'text')
    assert abs(float(share(soft)[over].sum()) - want) > 4 * error


def test_end_token_ends_the_text(pair, drafts):
    want = autoregressive(pair.target, 'import os\n', 30, tokenizer=pair.tokenizer)
    end = int(want.tokens[12])
    options = dict(max_new_tokens=30, eos_token_id=end, tokenizer=pair.tokenizer)
    for draft in drafts.values():
        out = generate(pair.target, draft, 'import os\n', **options)
        assert torch.equal(out.tokens, autoregressive(pair.target, 'import os\n', **options).tokens)
        assert out.finish_reason == 'eos'


def test_context_of_the_draft_ends_first(pair):
    draft = TranslatedDraft(byte_model(), byte_tokenizer(), pair.tokenizer, 'text')
    prompt = 'x = 1\n' * 18
    out = generate(pair.target, draft, prompt, max_new_tokens=40, tokenizer=pair.tokenizer)
    assert torch.equal(out.tokens, autoregressive(pair.target, prompt, 40, tokenizer=pair.tokenizer).tokens)


def test_special_tokens_are_not_shared(pair):
    own, theirs = shared_tokens(byte_tokenizer(), pair.tokenizer)
    assert len(own) and 256 not in own.tolist()
    assert not {*theirs.tolist()} & {*pair.tokenizer.all_special_ids}


def test_half_characters_are_left_out(pair):
    tok = pair.tokenizer
    assert cut_again(tok('caf').input_ids, '\ufffd', tok) == []
    assert cut_again(tok('caf').input_ids, 'é\ufffd', tok)
    half = byte_tokenizer()('é', add_special_tokens=False).input_ids
    assert len(half) == 2


def test_unknown_way_is_one_line(pair):
    with pytest.raises(ValueError, match='how=.*must be "shared" or "text"'):
        TranslatedDraft(pair.draft, pair.tokenizer, pair.tokenizer, 'both')


@pytest.mark.slow
@pytest.mark.parametrize('how', WAYS)
def test_another_family(pair, how):
    "SmolLM2 with the trained draft, whose tokenizer is another"
    missing = [n for n in NEEDED if not importlib.util.find_spec(n)]
    if missing: pytest.skip(f'{missing[0]} is not installed')
    other = load_pair('smollm2', dtype='float32')
    draft = TranslatedDraft(pair.draft, pair.tokenizer, other.tokenizer, how)
    options = dict(max_new_tokens=12, tokenizer=other.tokenizer)
    out = generate(other.target, draft, 'import os\n\ndef read(path):\n', gamma=3, **options)
    assert torch.equal(out.tokens, autoregressive(other.target, 'import os\n\ndef read(path):\n', **options).tokens)
    assert out.stats.proposed > 0


def test_the_host_waits_as_often_for_a_long_draft_as_for_a_short_one(pair, monkeypatch):
    "Lists are made of tensors: of the text, and of what was said; none a drafted token"
    ids, counts = torch.tensor(pair.tokenizer('def add(a, b):\n    return').input_ids), {}
    for how in WAYS:
        for gamma in 2, 6:
            draft, calls = TranslatedDraft(pair.draft, pair.tokenizer, pair.tokenizer, how), []
            draft = draft.for_target(as_cached(pair.target))
            real = torch.Tensor.tolist
            for name in 'tolist', 'item', '__int__', '__bool__':
                one = getattr(torch.Tensor, name)
                monkeypatch.setattr(torch.Tensor, name, lambda self, *a, one=one: calls.append(1) or one(self, *a))
            x, _ = draft.propose(ids, gamma, Sampler())
            monkeypatch.undo()
            assert torch.Tensor.tolist is real and len(x) > gamma//2
            counts[how, gamma] = len(calls)
    assert counts['shared', 2] == counts['shared', 6] and counts['text', 2] == counts['text', 6], counts
    assert max(counts.values()) <= 6, counts


@pytest.mark.parametrize('top_k, top_p', [(0, 1.), (3, 1.), (0, .6)])
def test_shared_says_what_its_q_promises(pair, top_k, top_p):
    "Monte Carlo: each token comes as often as q says, also where top-k and top-p follow the cut"
    draft = TranslatedDraft(byte_model(), byte_tokenizer(), pair.tokenizer, 'shared').for_target(as_cached(pair.target))
    ids, N = torch.tensor(pair.tokenizer('def ').input_ids), 600
    sampler = Sampler(.05, top_k, top_p, torch.Generator().manual_seed(1))
    said, rows = zip(*(draft.propose(ids, 2, sampler) for _ in range(N)))
    first, q = torch.stack([x[0] for x in said]), rows[0][0]
    assert all(torch.allclose(r[0], q, atol=1e-6) for r in rows)                            # read at once, or token by token
    assert q[draft.pairs[1]].sum() > .9999                                                  # nothing else is said
    seen = torch.bincount(first, minlength=len(q)) / N
    likely = q > 5/N
    z = (seen - q)[likely] / (q*(1 - q)/N)[likely].sqrt().clamp(min=1e-9)
    assert z.abs().max() < 4.5 and seen[q == 0].sum() == 0
    second = [(r[1], int(x[1])) for x, r in zip(said, rows)]                                # each drawn from a row of its own
    assert all(row[t] > 0 for row, t in second)
    p_true = torch.tensor([float(row.max()) for row, _ in second])
    hits = torch.tensor([float(int(row.argmax()) == t) for row, t in second])
    assert abs(float((hits - p_true).sum() / (p_true*(1 - p_true)).sum().sqrt().clamp(min=1e-9))) < 4.5
