"Plain transformers code with one line of specdec in it, `custom_generate=speculative(draft)`: greedy and sampled, streamed, with end tokens and penalties."
import contextlib, io
from collections import Counter
from copy import deepcopy
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TextStreamer
from specdec import speculative

WORDS = '<end> the cat sat on a mat and saw one red hen'.split()
tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token='<end>'))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token='<end>', pad_token='<end>')

def model_of(kind, config, std=.6):
    "Random weights, so large that the next word depends on all that was read"
    model, g = kind(config).eval(), torch.Generator().manual_seed(0)
    for p in model.parameters():
        if p.ndim > 1: p.data.normal_(std=std, generator=g)
    return model

def draft_of(model):
    "A copy that is right now and then"
    draft, g = deepcopy(model), torch.Generator().manual_seed(1)
    for p in draft.parameters(): p.data += .3 * p.std() * torch.randn(p.shape, generator=g) if p.ndim > 1 else 0.
    return draft

ids = dict(vocab_size=len(WORDS), bos_token_id=None, eos_token_id=0, pad_token_id=0)
TARGETS = {'GPT-2': model_of(GPT2LMHeadModel, GPT2Config(n_positions=64, n_embd=24, n_head=2, n_layer=2, tie_word_embeddings=False, **ids)),
           'Llama': model_of(LlamaForCausalLM, LlamaConfig(hidden_size=24, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=64, **ids))}
prompt = tokenizer('the cat sat on', return_tensors='pt')

def printed(model, **options):
    "What a `TextStreamer` shows of a call, and the ids it returns"
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        loop = options.pop('draft', None)
        streamer = TextStreamer(tokenizer, skip_prompt=True)
        found = model.generate(prompt.input_ids, attention_mask=prompt.attention_mask, **options, **(dict(custom_generate=speculative(loop, streamer=streamer), gamma=3) if loop else dict(streamer=streamer)))
    return shown.getvalue().strip(), found[0].tolist()

def check_greedy(name, model):
    "The same text and the same stream; with penalties; up to an end token"
    draft = draft_of(model)
    for penalties in ({}, dict(repetition_penalty=1.4), dict(no_repeat_ngram_size=2), dict(repetition_penalty=1.2, no_repeat_ngram_size=3, suppress_tokens=[3])):
        options = dict(do_sample=False, max_new_tokens=24, eos_token_id=None, **penalties)
        text = printed(model, **options)[1][4:]
        for ends in (None, text[0], text[6], [text[2], text[15]]):
            options['eos_token_id'] = ends
            want, got = printed(model, **options), printed(model, draft=draft, **options)
            assert got == want, (name, options, got, want)
            assert ends is None or len(want[1]) < 4 + 24

def check_sampled(name, model, n=300):
    "Texts drawn with the plug-in and without it have the same law; and a change of the temperature would be seen"
    draft = draft_of(model)
    options = dict(do_sample=True, temperature=1.6, top_k=8, top_p=.95, repetition_penalty=1.3, eos_token_id=[0, 7], max_new_tokens=3)
    def sample(**kw):
        "The first two tokens of each text; behind an end token there is padding, or nothing"
        new = model.generate(**prompt, **{**options, **kw})[:, 4:].tolist()
        return Counter(tuple(t[:1 if t[0] in options['eos_token_id'] else 2]) for t in new)
    torch.manual_seed(0)
    loop, reference = speculative(draft), sample(num_return_sequences=8*n)
    mine = sum((sample(custom_generate=loop, gamma=2) for _ in range(n)), Counter())
    def distance(a, b):
        "Chi-squared of two samples, in standard deviations above its mean; cells too small to count are one"
        A, B, keys = sum(a.values()), sum(b.values()), a.keys() | b.keys()
        big = [k for k in keys if a[k] + b[k] >= 10 * (A + B) / min(A, B)]
        cells = [(a[k], b[k]) for k in big] + [tuple(sum(c[k] for k in keys - {*big}) for c in (a, b))]
        x2 = sum((x * B - y * A)**2 / (A * B * (x + y)) for x, y in cells if x + y)
        return (x2 - (len(cells) - 1)) / (2 * (len(cells) - 1))**.5
    same, other = distance(mine, reference), distance(mine, sample(num_return_sequences=8*n, temperature=1.2))
    assert same < 4.5 < 6 < other, (name, same, other)
    shown, found = printed(model, draft=draft, **{**options, 'max_new_tokens': 20})
    assert shown == tokenizer.decode(found[4:]), (shown, found)
    return same, other, len(reference)

if __name__ == '__main__':
    for name, model in TARGETS.items(): check_greedy(name, model); print(name, *check_sampled(name, model))
