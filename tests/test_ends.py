"`--eos`: what ends a text, on the command line; every loop ends there, and the results say so"
import json
import pytest, torch
from command import inside
from specdec import autoregressive, load_pair
from specdec.bench import run_bench
from specdec.comparing import compare
from specdec.zoo import byte_tokenizer, random_gpt2

SHAPE = dict(vocab_size=256, n_positions=96, n_embd=16, n_head=2, n_layer=1)
PROMPT, NEW = 'def add(a, b):', 24

@pytest.fixture
def folder(tmp_path):
    "A model that declares an end: a token that its greedy text comes to"
    model, tok = random_gpt2(3, **SHAPE), byte_tokenizer()
    text = autoregressive(model, PROMPT, NEW, tokenizer=tok).tokens.tolist()
    end = next(t for i, t in enumerate(text) if i > 3 and t not in text[:i])
    model.generation_config.eos_token_id = end
    model.save_pretrained(tmp_path/'m')
    tok.chat_template = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
    tok.save_pretrained(tmp_path/'m')
    return tmp_path/'m', end, text.index(end) + 1

def results(capsys, tmp_path, command, folder, *more):
    "What a command prints and writes, of texts from PROMPT"
    file = tmp_path/'got.json'
    code, out, err = inside(capsys, command, '--target', folder, '--draft', folder, '--prompt', PROMPT, '--runs', 1,
                            '--dtype', 'float32', '--json', file, *more)
    assert code == 0, err
    return out, json.loads(file.read_text())

@pytest.mark.parametrize('eos, at', [(None, True), ('model', True), ('none', False)])
def test_bench_ends_where_the_model_says(capsys, tmp_path, folder, eos, at):
    model, end, n = folder
    out, got = results(capsys, tmp_path, 'bench', model, '--max-new-tokens', NEW, *(('--eos', eos) if eos else ()))
    assert got['eos_token_ids'] == ([end] if at else []) and set(got['verdicts'].values()) == {'exact'}
    assert ('texts end at' in out) is at and got['templated'] == 0 and 'template' not in out

@pytest.mark.parametrize('eos', ['model', None])
def test_every_loop_ends_there(folder, eos):
    "Where nothing ends a text, all of them write texts of full length, whatever the checkpoints declare"
    model, end, n = folder
    n = n if eos else NEW
    pair = load_pair(str(model), str(model), device='cpu', dtype='float32')
    ids = torch.tensor(pair.tokenizer(PROMPT).input_ids)
    got = compare(pair, [ids], 3, NEW, runs=1, eos_token_id=eos)
    assert {*got['methods']} == {'baseline', 'speculative', 'hf_baseline', 'hf_assisted', 'hf_assisted_default'}
    counted = {k: round(o['tokens_per_second']*o['seconds_median']) for k, o in got['methods'].items()}
    assert {*counted.values()} == {n} and got['eos_token_ids'] == ([end] if eos else [])
    assert {*got['verdicts'].values()} == {'exact'}

def test_plan_and_demo_end_there(capsys, tmp_path, folder):
    model, end, n = folder
    out, got = results(capsys, tmp_path, 'plan', model, '--max-new-tokens', NEW, '--gamma-max', 2, '--chat', 'yes')
    assert got['eos_token_ids'] == [end] and got['templated'] == 1 and '1 of 1 prompts through the chat template' in out
    out, got = results(capsys, tmp_path, 'demo', model, '--tokens', NEW, '--gamma', 2, '--eos', f'{end},250', '--temperature', 0)
    assert got['eos_token_ids'] == sorted([end, 250]) and 'texts end at' in out

@pytest.mark.parametrize('eos', ['never', '1;2', '-1', '1,,2', '2.5'])
def test_what_is_no_end(capsys, eos):
    code, out, err = inside(capsys, 'bench', f'--eos={eos}')
    assert code == 2 and f'--eos {eos}: give model' in err and err.count('\n') == 1

def test_our_own_pairs_write_texts_of_full_length(capsys, tmp_path):
    file = tmp_path/'got.json'
    code, out, err = inside(capsys, 'bench', '--backend', 'toy', '--runs', 1, '--max-new-tokens', 8, '--json', file)
    assert code == 0 and json.loads(file.read_text())['eos_token_ids'] == []

@pytest.mark.parametrize('method', ['baseline', 'speculative', 'hf_baseline', 'hf_assisted'])
def test_a_configuration_ends_there(folder, tmp_path, method):
    "Each method by the same end, and says why its text has ended"
    model, end, n = folder
    lines = dict(method=method, target_model=str(model), draft_model=str(model), gamma=3, sampling='greedy', temperature=0., prompt=PROMPT, max_new_tokens=NEW,
                 dtype='float32', warmup_steps=0)
    for eos, count, reason in (('model', n, 'eos'), ('none', NEW, 'length')):
        row, = run_bench(dict(lines, eos=eos, output=f'{tmp_path}/{eos}.jsonl'))
        assert (row['new_tokens'], row['finish_reason'], row['verdict']) == (count, reason, 'exact')
