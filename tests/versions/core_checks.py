"""What must hold on every version of transformers and torch that the package says it supports. Needs the package and nothing else.

    python tests/versions/core_checks.py [name ...]"""
import os, random, runpy, sys, warnings
from pathlib import Path
os.environ.setdefault('HF_HUB_OFFLINE', '1')
from copy import deepcopy
import torch, transformers
from torch import tensor
from transformers import (Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM,
                          MambaConfig, MambaForCausalLM, MistralConfig, MistralForCausalLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          RecurrentGemmaConfig, RecurrentGemmaForCausalLM)
from specdec import autoregressive, generate, load_pair, speculative
from specdec.decoding import lossless_report
from specdec.distributions import probs
from specdec.huggingface import folder, stream_text
from specdec.models import HFModel
from specdec.written_out import StaticGPT2, as_cached
from specdec.verification import TokenRule

V, NO_ENDS = 97, dict(bos_token_id=None, eos_token_id=None, pad_token_id=None)
SHAPE = dict(vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, **NO_ENDS)
WINDOW = dict(SHAPE, sliding_window=6)
GEMMA = dict(WINDOW, head_dim=8, tie_word_embeddings=False, layer_types=['sliding_attention', 'full_attention'])
NEOX = {k: v for k, v in SHAPE.items() if k != 'num_key_value_heads'}
KINDS = {'GPT-2': (GPT2LMHeadModel, GPT2Config, dict(vocab_size=V, n_positions=64, n_embd=32, n_head=4, n_layer=2, tie_word_embeddings=False, **NO_ENDS)),
         'Llama': (LlamaForCausalLM, LlamaConfig, SHAPE), 'Qwen2': (Qwen2ForCausalLM, Qwen2Config, SHAPE), 'Qwen3': (Qwen3ForCausalLM, Qwen3Config, dict(SHAPE, head_dim=8)),
         'GPT-NeoX': (GPTNeoXForCausalLM, GPTNeoXConfig, NEOX), 'Mistral, window': (MistralForCausalLM, MistralConfig, WINDOW), 'Phi-3, window': (Phi3ForCausalLM, Phi3Config, WINDOW),
         'Qwen2, window': (Qwen2ForCausalLM, Qwen2Config, dict(WINDOW, use_sliding_window=True, max_window_layers=1)),
         'Gemma 2': (Gemma2ForCausalLM, Gemma2Config, GEMMA), 'Gemma 3': (Gemma3ForCausalLM, Gemma3TextConfig, GEMMA)}
RECURRENT = {'Mamba': (MambaForCausalLM, MambaConfig, dict(vocab_size=V, hidden_size=16, num_hidden_layers=1, state_size=4, **NO_ENDS)),
             'RecurrentGemma': (RecurrentGemmaForCausalLM, RecurrentGemmaConfig, dict(vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, lru_width=32, **NO_ENDS))}

def random_model(name, seed=0, std=.3, **changes):
    "Weights so large that what the model says next depends on all it has read"
    kind, config, kw = {**KINDS, **RECURRENT}[name]
    model, g = kind(config(**{**kw, **changes})).eval(), torch.Generator().manual_seed(seed)
    for p in model.parameters():
        if p.ndim > 1: p.data.normal_(std=std, generator=g)
    return model

def noised(model, sigma=.1):
    "A copy that is right now and then"
    m, g = deepcopy(model), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for w in m.parameters(): w += sigma * w.std() * torch.randn(w.shape, generator=g)
    return m

IDS = torch.randint(1, V, (1, 9), generator=torch.Generator().manual_seed(0))

def greedy(model, ids=IDS, **kw): return model.generate(ids, **{**dict(attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=32, pad_token_id=0), **kw})

def same(a, b): assert torch.equal(a, b), f'{a.tolist()} is not {b.tolist()}'

def check_cache():
    "Reading and rewinding at random gives the logits of a pass without a cache; every architecture, both kinds of attention"
    for name in KINDS:
        for attention in ('eager', 'sdpa'):
            model, rng, read = random_model(name), random.Random(0), []
            if attention == 'sdpa' and not model._supports_sdpa: continue
            model.set_attn_implementation(attention)
            lm, rewound = HFModel(model), 0
            for _ in range(40):
                if len(read) == lm.max_length or rng.random() < .4:
                    keep = rng.randint(0, len(read)); rewound += keep < len(read)
                    lm.rollback(keep); read = read[:keep]
                else:
                    new = [rng.randrange(V) for _ in range(min(rng.randint(1, 9), lm.max_length - len(read)))]; read += new
                    with torch.no_grad(): want = model(tensor([read]), use_cache=False).logits[0, -len(new):]
                    got = lm.forward(tensor(new))
                    assert (got - want).abs().max() <= 1e-5*max(1., float(want.abs().max())), (name, attention, float((got - want).abs().max()))
                assert lm.length == len(read)
            assert rewound > 5

def check_greedy():
    "Every architecture: the text of transformers' own greedy generate, with drafts that are kept and drafts that are taken back"
    for name in KINDS:
        model = random_model(name); small, want = noised(model), greedy(model)[0, 9:]
        for gamma in (1, 5):
            for t, d in ((model, small), (HFModel(model), HFModel(small)), (model, model)):
                out = generate(t, d, IDS, 32, gamma)
                same(out.tokens, want)
                assert d is model or 0 < out.stats.kept < out.stats.proposed, name
        same(autoregressive(model, IDS, 32).tokens, want)
        assert len(set(want.tolist())) > 8, f'{name}: a text that repeats itself tests little'

def check_plugin():
    "generate(custom_generate=speculative(draft)) gives the text of generate, under settings that matter"
    for name in ('GPT-2', 'Llama', 'Gemma 3'):
        model = random_model(name); small, text = noised(model), greedy(model)[0, 9:].tolist()
        for kw in ({}, dict(repetition_penalty=1.3), dict(repetition_penalty=1.3, no_repeat_ngram_size=3), dict(eos_token_id=text[6]), dict(eos_token_id=[text[4], text[9]], min_new_tokens=8),
                   dict(bad_words_ids=[[text[3]]], sequence_bias={(text[0],): -9.}), dict(max_new_tokens=None, max_length=20), dict(forced_eos_token_id=3)):
            want = greedy(model, **kw)
            assert not kw or want[0, 9:].tolist() != text, f'{kw} changes nothing'
            for gamma in (1, 4): same(greedy(model, custom_generate=speculative(small), gamma=gamma, **kw), want)

class Recorder:
    def __init__(self): self.told = []
    def put(self, value): self.told.append(value.tolist())
    def end(self): self.told.append('end')

def check_around():
    "Streamer, stopping criteria, dictionary, left padding, statistics, what is refused"
    model = random_model('Llama'); small = noised(model)
    a, b = Recorder(), Recorder()
    want = greedy(model, streamer=a); same(greedy(model, custom_generate=speculative(small, streamer=b)), want)
    assert a.told == b.told
    for n in range(10, 20):
        def stop(ids, scores, **kw): return tensor([ids.shape[1] >= n])
        same(greedy(model, stopping_criteria=[stop], custom_generate=speculative(small, gamma=6)), want[:, :n])
    out = greedy(model, return_dict_in_generate=True, custom_generate=speculative(small))
    assert type(out) is type(greedy(model, return_dict_in_generate=True)); same(out.sequences, want)
    padded, mask = torch.cat([torch.zeros(1, 3).long(), IDS], 1), tensor([[0]*3 + [1]*9])
    for kw in ({}, dict(repetition_penalty=1.3)): same(greedy(model, padded, attention_mask=mask, custom_generate=speculative(small), **kw), greedy(model, padded, attention_mask=mask, **kw))
    loop = speculative(small); greedy(model, custom_generate=loop)
    assert loop.last.finish_reason == 'length' and loop.last.stats.new_tokens == 32
    for kw, words in ((dict(num_beams=2), 'beam_search'), (dict(output_scores=True, return_dict_in_generate=True), 'output_scores'), (dict(gamma=0), 'gamma=0'), (dict(guidance_scale=2.), 'Guidance')):
        refused(lambda: greedy(model, custom_generate=loop, **kw), words)

def refused(call, words):
    try: call()
    except ValueError as e: assert words in str(e) and '\n' not in str(e), e
    else: raise AssertionError(f'not refused: {words}')

def check_folder():
    "The folder form: as it is, and as the generate of a model that brings it"
    model = random_model('GPT-2'); small, a, b = noised(model), Recorder(), Recorder()
    want = greedy(model, streamer=a)
    same(greedy(model, custom_generate=folder(), trust_remote_code=True, assistant_model=small, streamer=b, gamma=3), want)
    assert a.told == b.told
    refused(lambda: greedy(model, custom_generate=folder(), trust_remote_code=True), 'no draft')

def check_recurrent():
    "A model that cannot take a token back is refused, as target or draft"
    for name in RECURRENT:
        m = random_model(name)
        refused(lambda: HFModel(m), 'cannot be rolled back')
        refused(lambda: greedy(m, custom_generate=speculative(m)), 'cannot be rolled back')
        refused(lambda: greedy(random_model('Llama'), custom_generate=speculative(m)), 'cannot be rolled back')

class FromP(TokenRule):
    "Closes with a draw from p, also after a rejection: wrong"
    def closing(self, p, q, x, n): return p[n]

def check_law():
    "Sampled pairs of tokens follow the target's law under temperature, top-k and top-p, and a wrong rule is found out"
    big = random_model('GPT-2', 1, vocab_size=6, n_positions=4096, n_layer=1)
    with torch.no_grad():
        for name, w in big.named_parameters():
            if 'c_proj' in name or 'wpe' in name: w.zero_()                          # knows its last token alone
        big.lm_head.weight *= .6
        logits = big(torch.arange(6)[:, None]).logits[:, -1]
    small = noised(big, 1.)
    def worst_z(rule, N=1500, **kw):
        law = probs(logits, **{'temperature': 1., **kw})
        text = big.generate(tensor([[1]]), custom_generate=speculative(small, rule=rule, seed=1), gamma=3, do_sample=True, max_new_tokens=N, pad_token_id=0, **kw)[0]
        count = torch.zeros(6, 6).index_put_((text[:-1], text[1:]), torch.ones(N), accumulate=True)
        n = count.sum(1, keepdim=True); var = n * law * (1 - law)
        assert count[law == 0].sum() == 0
        return float(((count - n*law).abs() / var.sqrt())[var > 5].max())
    for rule, kw in (('token', {}), ('token', dict(temperature=.7, top_k=3)), ('block', dict(temperature=1.5, top_p=.8))):
        assert (z := worst_z(rule, **kw)) < 4.5, (rule, kw, z)
    assert (z := worst_z(FromP(), 4000)) > 6, z

def check_half():
    "In half precision the text is transformers' own, or parts from it at a tie"
    for dtype in (torch.bfloat16, torch.float16):
        for name in ('GPT-2', 'Llama'):
            model = random_model(name).to(dtype); got = greedy(model, custom_generate=speculative(noised(model)))[0, 9:]
            r = lossless_report(model, IDS, got, greedy(model)[0, 9:])
            assert r.verdict in ('exact', 'tie'), (name, dtype, r)

def check_pair():
    "The trained pair: text, identity, the written-out GPT-2, text as it comes"
    pair = load_pair(device='cpu')
    assert isinstance(as_cached(pair.target), StaticGPT2)
    ids = pair.tokenizer('Return the number of', return_tensors='pt').input_ids
    out = generate(pair.target, pair.draft, ids, 40, tokenizer=pair.tokenizer)
    same(out.tokens, greedy(pair.target, ids, max_new_tokens=40, eos_token_id=None)[0, ids.shape[1]:])
    assert out.stats.kept and ''.join(stream_text(pair.target, pair.draft, ids, pair.tokenizer, max_new_tokens=40)) == out.text

def check_script():
    "What a user writes: plain transformers code, and one line of specdec in it"
    runpy.run_path(str(Path(__file__).with_name('plain_script.py')), run_name='__main__')

CHECKS = {k.removeprefix('check_'): f for k, f in list(globals().items()) if k.startswith('check_')}

def main(names):
    "Run the checks; one line each, exit code 1 if any failed"
    transformers.logging.set_verbosity_error(); warnings.simplefilter('ignore')
    print(f'Python {sys.version.split()[0]}  torch {torch.__version__}  transformers {transformers.__version__}', flush=True)
    failed = 0
    for name in names or CHECKS:
        try: CHECKS[name](); print(f'ok    {name}', flush=True)
        except Exception as e: failed += 1; print(f'FAIL  {name}: {type(e).__name__}: {str(e)[:300]}', flush=True)
    return failed > 0

if __name__ == '__main__': sys.exit(main(sys.argv[1:]))
