"Every drafter in the real loop: the text and its law are the target's, whoever proposes."
import pytest, torch
from transformers import LlamaConfig, LlamaForCausalLM
from specdec import autoregressive, generate, load_pair
from specdec.distributions import new_generator
from specdec.drafting import Bigram, Composite, EarlyExit, ModelDraft, PromptLookup
from specdec.quantise import quantise
from specdec.written_out import as_cached
from specdec.verification import target_law
from specdec.zoo import byte_tokenizer, random_gpt2

def small(seed, **kw):
    return random_gpt2(seed, **{**dict(vocab_size=97, n_positions=96, n_embd=32, n_head=2, n_layer=3, initializer_range=.3, tie_word_embeddings=False,
                                       bos_token_id=None, eos_token_id=None), **kw})

def small_llama():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return LlamaForCausalLM(LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                                            max_position_embeddings=96, initializer_range=.3)).eval()

PROMPT = torch.tensor([5, 6, 7, 8, 5, 6, 7, 9, 5, 6])

def drafts(target, V):
    "One of each kind for a target of `V` tokens"
    text = torch.randint(V, (300,), generator=new_generator(0))
    layers = target.config.num_hidden_layers
    return dict(lookup=PromptLookup(), bigram=Bigram.from_text(text, V, .1), composite=Composite(PromptLookup(min_ngram=2), EarlyExit(target, 1)), first=EarlyExit(target, 1),
                all=EarlyExit(target, layers), int8=quantise(target, 8), int4=quantise(target, 4, group=32), gptq=quantise(target, 4, 'gptq', 32, text.view(5, -1)))

@pytest.mark.parametrize('target', [small(1), small_llama()], ids=['gpt2', 'llama'])
def test_greedy_text_is_the_targets(target):
    before = {k: v.clone() for k, v in target.state_dict().items()}
    plain = autoregressive(target, PROMPT, 40).tokens
    assert len(set(plain.tolist())) > 5
    for name, draft in drafts(target, 97).items():
        for gamma in (1, 5):
            out = generate(target, draft, PROMPT, 40, gamma)
            assert torch.equal(out.tokens, plain), (name, gamma)
            if name == 'all': assert out.stats.kept == out.stats.proposed > 0
        assert out.stats.proposed > 0, name
    assert all(torch.equal(v, before[k]) for k, v in target.state_dict().items()) and not target.training

def test_greedy_text_of_the_trained_pair():
    pair = load_pair(device='cpu')
    ids = torch.tensor(pair.tokenizer('def add(a, b):\n    return a + b\n\ndef sub(a, b):\n').input_ids)
    plain = autoregressive(pair.target, ids, 48).tokens
    for draft in (PromptLookup(), Composite(PromptLookup(), pair.draft), EarlyExit(pair.target, 8), quantise(pair.target, 4)):
        out = generate(pair.target, draft, ids, 48, 4)
        assert torch.equal(out.tokens, plain) and out.stats.kept > 0

class Dishonest(ModelDraft):
    def propose(self, ids, gamma, sampler, keep_going=None):
        _, q = super().propose(ids, gamma, sampler)
        return q.argmax(-1), q

def worst_z(target, draft, prompt, N=300):
    "Largest distance in standard errors between the frequency of two-token texts and the target's law"
    lm, counts = as_cached(target), torch.zeros(4, 4)
    def p_of(prefix): lm.rollback(0); return lm.forward(torch.cat([prompt, torch.tensor(prefix, dtype=torch.long)]), last=1)[0].softmax(-1)
    law = target_law(p_of, (), 2)
    for seed in range(N): counts[tuple(generate(target, draft, prompt, 3, 2, temperature=1., seed=seed).tokens[:2])] += 1
    return float(((counts/N - law).abs() / (law*(1 - law)/N).sqrt())[law > 5/N].max())

def test_sampled_text_has_the_targets_law():
    target, prompt = small(3, vocab_size=4, n_layer=2, initializer_range=.15), torch.tensor([1, 2, 3, 1, 2])
    for name in ('bigram', 'composite'): assert worst_z(target, drafts(target, 4)[name], prompt) < 4, name
    assert worst_z(target, Dishonest(small(10, vocab_size=4)), prompt) > 8

def test_contexts_and_vocabularies_of_other_sizes():
    "A draft of 97 tokens and 16 positions under a target of 104 and 96, and the other way round"
    target, draft = small(1, vocab_size=104), small(2, n_positions=16)
    prompt = torch.tensor([5, 103, 5, 103, 5])
    plain = autoregressive(target, prompt, 40).tokens
    for d in (draft, ModelDraft(draft), Composite(PromptLookup(), draft)):
        out = generate(target, d, prompt, 40, 4)
        assert torch.equal(out.tokens, plain) and out.rounds[0].gamma == 4
    assert len(out.tokens) == 40
    assert torch.equal(generate(draft, target, [5, 6, 7], 13, 4).tokens, autoregressive(draft, [5, 6, 7], 13).tokens)

def test_a_draft_with_another_tokenizer_is_refused_by_name(tmp_path):
    tok, shape = byte_tokenizer(), dict(n_embd=8, n_head=2, n_layer=1)
    for name, V in (('target', 256), ('padded', 300), ('stranger', 256)):
        small(1, vocab_size=V, **shape).save_pretrained(tmp_path/name)
        tok.save_pretrained(tmp_path/name)
    swapped = (tmp_path/'stranger'/'tokenizer.json').read_text(encoding='utf-8').replace('"a":', '"?":').replace('"b":', '"a":').replace('"?":', '"b":')
    (tmp_path/'stranger'/'tokenizer.json').write_text(swapped, encoding='utf-8')
    pair = load_pair(tmp_path/'target', tmp_path/'padded', device='cpu')
    out = generate(pair.target, pair.draft, 'abcab', 20, tokenizer=pair.tokenizer)
    assert torch.equal(out.tokens, autoregressive(pair.target, 'abcab', 20, tokenizer=pair.tokenizer).tokens)
    with pytest.raises(ValueError, match=r'target and \S*stranger do not share a tokenizer: id \d+ is'): load_pair(tmp_path/'target', tmp_path/'stranger', device='cpu', translate='no')
