"Drafts with another tokenizer, over odd texts and seven kinds of tokenizers: the text is the target's own, and q is a distribution that x can come from"
import importlib.util, json, random
import pytest, torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from specdec import autoregressive, generate, load_pair
from specdec.decoding import DraftFailed
from specdec.distributions import probs
from specdec.smollm2 import NEEDED
from specdec.translation import TranslatedDraft, cut_again, shared_tokens
from specdec.zoo import byte_tokenizer, random_gpt2

CORPUS = ['def add(a, b):\n    return a + b\n', 'The café — naïve ✓ 🙂 text of many words, and words again',
          'import os\nclass A:\n    "docs of the class"\n']*5
TEXTS = ['def add(a, b):\n    return', 'The café — naïve ✓', ' leading', '   ', '\n\n', 'retur', 'a🙂', '🙂🙂🙂', '👩‍👩‍👧‍👦 family',
         'x<end>y', '<|im_start|>user\nhi<|im_end|>\n', '\ufffd', 'a\ufffd', 'ﬁ ligature', '日本語のテキスト', 'é e\u0301', '\x00\x01',
         'tab\tand  two', ' ', '<unk>', '</s>', '[UNK] it', 'DEF Upper', "don 't do n't , this .", '\u200b', 'a'*60, '\r\n']

def trained(model, trainer, pre, decoder, normalizer=None, **special):
    "A tokenizer that has read the corpus"
    t = Tokenizer(model)
    t.pre_tokenizer, t.decoder = pre, decoder
    if normalizer: t.normalizer = normalizer
    t.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=t, **special)

def merges(size, prefix=False, special=('<end>', '<|im_start|>')):
    "GPT-2's kind: merges over bytes"
    pre = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre.alphabet(), special_tokens=[*special], show_progress=False)
    return trained(models.BPE(), trainer, pre, decoders.ByteLevel(), eos_token=special[0])

def marked(size, first):
    "Llama's kind: merges over characters, a mark for a space, bytes for what is unknown, a start token before each text"
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=['<unk>', '<s>', '</s>'], show_progress=False)
    decoder = decoders.Sequence([decoders.Replace('▁', ' '), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(' ', 1, 0)])
    tok = trained(models.BPE(unk_token='<unk>'), trainer, pre_tokenizers.Metaspace(prepend_scheme=first), decoder)
    inner = json.loads(tok.backend_tokenizer.to_str())
    vocab = inner['model']['vocab']
    vocab.update({f'<0x{b:02X}>': len(vocab) + b for b in range(256)})
    inner = Tokenizer.from_str(json.dumps({**inner, 'model': {**inner['model'], 'byte_fallback': True, 'vocab': vocab}}))
    inner.post_processor = processors.TemplateProcessing(single='<s> $A', special_tokens=[('<s>', inner.token_to_id('<s>'))])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token='<s>', eos_token='</s>', unk_token='<unk>')

def pieces():
    "BERT's kind: small letters, pieces marked by ##, and whatever else is unknown: what it reads is not what stands there"
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=['[UNK]', '[SEP]'], show_progress=False)
    return trained(models.WordPiece(unk_token='[UNK]'), trainer, pre_tokenizers.BertPreTokenizer(), decoders.WordPiece(),
                   normalizers.BertNormalizer(lowercase=True), unk_token='[UNK]')

def words():
    "A token a word, none for a space"
    trainer = trainers.WordLevelTrainer(special_tokens=['?'], show_progress=False)
    return trained(models.WordLevel(unk_token='?'), trainer, pre_tokenizers.Whitespace(), None, unk_token='?')

TOKENIZERS = dict(bytes=byte_tokenizer(), merges=merges(400), prefix=merges(350, True), always=marked(150, 'always'),
                  first=marked(150, 'first'), pieces=pieces(), words=words())

def model(name, seed, padding):
    "A random model over a tokenizer's vocabulary, and rows that stand for nothing"
    return random_gpt2(seed, vocab_size=len(TOKENIZERS[name]) + padding, n_embd=16, n_head=2, n_layer=1, n_positions=96,
                       initializer_range=.5, bos_token_id=None, eos_token_id=None)

class Checked(TranslatedDraft):
    "Looks at what it proposes, and at what it says it has read"
    def propose(self, ids, gamma, sampler, keep_going=None):
        x, q = super().propose(ids, gamma, sampler, keep_going)
        assert len(x) <= gamma and q.shape == (len(x), self.vocab_size) and len(self.read) == self.inner.length
        if len(x) and not sampler.greedy:
            assert torch.allclose(q.sum(-1), torch.ones(len(x)), atol=1e-4) and (q[range(len(x)), x] > 0).all()
        return x, q

@pytest.mark.parametrize('how', ['shared', 'text'])
@pytest.mark.parametrize('target', TOKENIZERS)
def test_any_two_tokenizers_and_any_text(target, how):
    rng, proposed = random.Random(f'{target} {how}'), 0
    for draft in TOKENIZERS:
        seed, padding = rng.randrange(100), rng.choice([0, 8])
        big, small = model(target, seed, padding), model(draft, seed + 1, 8 - padding)
        drafter = Checked(small, TOKENIZERS[draft], TOKENIZERS[target], how)
        text, V = ''.join(rng.sample(TEXTS, rng.choice([1, 2]))), big.config.vocab_size
        ids = TOKENIZERS[target](text).input_ids[:60] or [0]
        if rng.random() < .3: ids = [rng.randrange(V) for _ in range(rng.randrange(1, 20))]        # halves of characters as well
        ends, gamma = rng.choice([None, rng.randrange(V)]), rng.choice([1, 2, 4, 7])
        out = generate(big, drafter, ids, 24, gamma, eos_token_id=ends)
        want = autoregressive(big, ids, 24, eos_token_id=ends)
        assert torch.equal(out.tokens, want.tokens) and out.finish_reason == want.finish_reason, (draft, seed, text)
        drawn = generate(big, drafter, ids, 24, gamma, temperature=1., seed=1, **rng.choice([{}, dict(top_k=3), dict(top_p=.5), dict(min_p=.1)]))
        proposed += out.stats.proposed + drawn.stats.proposed
    assert proposed

def test_what_is_no_text_is_never_shared():
    "No special token on either side, and no token twice"
    for ours in TOKENIZERS.values():
        for theirs in TOKENIZERS.values():
            own, its = shared_tokens(ours, theirs)
            assert len(own.unique()) == len(own) == len(its) == len(its.unique())
            assert not {*own.tolist()} & {*ours.all_special_ids} and not {*its.tolist()} & {*theirs.all_special_ids}

@pytest.mark.parametrize('name', ['bytes', 'merges'])
@pytest.mark.parametrize('text, new', [('a', '🙂'), ('x ', ' y'), ('def', 'ault'), ('\n', '\n    return'), ('café', ' ✓'), ('', ' leading'), ('🙂', '🙂')])
def test_what_is_cut_again_is_what_was_written(name, text, new):
    tok = TOKENIZERS[name]
    got = cut_again(tok(text).input_ids, new, tok)
    assert tok.decode(got, clean_up_tokenization_spaces=False) == new

@pytest.mark.parametrize('temperature', [0., 1.])
@pytest.mark.parametrize('how', ['shared', 'text'])
def test_a_sick_draft_is_named(how, temperature):
    "NaN in the draft is said to be the draft's, and is no index beyond a table"
    big, small = model('merges', 1, 0), model('bytes', 2, 0)
    with torch.no_grad(): small.transformer.ln_f.weight.fill_(torch.nan)
    drafter = TranslatedDraft(small, TOKENIZERS['bytes'], TOKENIZERS['merges'], how)
    with pytest.raises((ValueError, DraftFailed), match='logits|NaN') as e:
        generate(big, drafter, TOKENIZERS['merges']('def add').input_ids, 8, temperature=temperature, seed=0)
    assert 'draft' in str(e.value)

TALKS = [[dict(role='user', content='Name three planets. 🪐')],
         [dict(role='system', content='Answer in one word.'), dict(role='user', content=' 2 + 2?'), dict(role='assistant', content='Four'), dict(role='user', content='é\n\n<|im_end|>')],
         [dict(role='user', content='Write def add'), dict(role='assistant', content='def add(a,')]]

@pytest.mark.slow
def test_conversations_on_a_real_model():
    "Any draft, also in other tokens: the text of transformers' own greedy generate with the template, to the model's own end"
    missing = [n for n in NEEDED if not importlib.util.find_spec(n)]
    if missing: pytest.skip(f'{missing[0]} is not installed')
    small, big = load_pair(device='cpu'), load_pair('smollm2', device='cpu', dtype='float32')
    drafts = [TranslatedDraft(small.draft, small.tokenizer, big.tokenizer, how) for how in ('shared', 'text')]
    for talk in TALKS:
        goes_on = talk[-1]['role'] == 'assistant'
        asked = big.tokenizer.apply_chat_template(talk, add_generation_prompt=not goes_on, continue_final_message=goes_on, return_tensors='pt', return_dict=True)
        want = big.target.generate(**asked, do_sample=False, max_new_tokens=24)[0, asked['input_ids'].shape[1]:]
        for draft in (None, *drafts):
            out = generate(big.target, draft, talk, 24, 3, tokenizer=big.tokenizer, eos_token_id='model')
            assert torch.equal(out.tokens, want), talk
            assert draft is None or out.stats.proposed

def say(*names):
    "A tokenizer that knows these words, and one for all others"
    t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(('?', *names))}, unk_token='?'))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=t, unk_token='?')

class Flat(TranslatedDraft):
    "Wrong: says that each of its tokens was as likely as any other"
    def propose(self, ids, gamma, sampler, keep_going=None):
        x, q = super().propose(ids, gamma, sampler, keep_going)
        return x, torch.full_like(q, 1 / self.vocab_size)

def law_of_two(model, ids, warp):
    "Exact distribution of the next two tokens of a model, [V, V]"
    with torch.no_grad():
        first = probs(model(torch.tensor([ids])).logits[0, -1:], **warp)[0]
        rows = model(torch.tensor([ids + [t] for t in range(len(first))])).logits[:, -1]
    return first[:, None] * probs(rows, **warp)

def distance(draft, want, target, ids, warp, N=400):
    "How far counted pairs of tokens are from a distribution, in standard deviations of chi-square; and the drafted tokens that were kept"
    runs = [generate(target, draft, ids, 3, 2, seed=s, **warp) for s in range(N)]
    seen = torch.zeros_like(want).index_put((torch.stack([o.tokens[0] for o in runs]), torch.stack([o.tokens[1] for o in runs])), torch.tensor(1.), accumulate=True)
    assert not seen[want == 0].any()
    cells = want > 3/N
    left, rest = N - seen[cells].sum(), 1 - want[cells].sum()
    chi = ((seen - N*want)[cells]**2 / (N*want[cells])).sum() + ((left - N*rest)**2 / (N*rest) if rest > 3/N else 0.)
    free = int(cells.sum()) - (rest <= 3/N).int()
    return float((chi - free) / (2*free)**.5), sum(o.stats.kept for o in runs)

@pytest.mark.parametrize('how', ['shared', 'text'])
@pytest.mark.parametrize('warp', [{}, dict(top_k=3)], ids=['all', 'top-k'])
def test_two_tokens_have_the_targets_distribution(how, warp):
    "Monte Carlo through propose and the whole loop, against enumeration; a draft that misreports its q fails the same test"
    big, small, warp = say('a', 'b', 'c', 'd'), say('b', 'x', 'd', 'a', 'y'), dict(temperature=1., **warp)
    shape = dict(n_embd=16, n_head=2, n_layer=1, n_positions=32, initializer_range=.6, bos_token_id=None, eos_token_id=None)
    target, draft = random_gpt2(7, vocab_size=5, **shape), random_gpt2(8, vocab_size=6, **shape)
    ids = big('a b').input_ids
    want = law_of_two(target, ids, warp)
    z, kept = distance(TranslatedDraft(draft, small, big, how), want, target, ids, warp)
    assert z < 4 and kept > 50, (z, kept)
    wrong, _ = distance(Flat(draft, small, big, how), want, target, ids, warp)
    assert wrong > 8, wrong
