"What a configuration says of the end of a text and of where its prompts are, and what its results say of both"
import json
import pytest
from command import inside
from specdec.files import BadInput
from specdec.settings import load_config
from specdec.tables import Table, fill

FEW = 'method: baseline\ntarget_model: tiny\ndtype: float32\nwarmup_steps: 0\nmax_new_tokens: 8\n'

def write(folder, text, name='c.yaml'):
    "A configuration file"
    folder.mkdir(exist_ok=True)
    (folder/name).write_text(FEW + text)
    return folder/name

@pytest.mark.parametrize('said, ends', [('none', None), ('model', 'model'), ('0', 0), ('0,5', [0, 5]), ('"0, 5"', [0, 5]), ('[0, 5.0]', [0, 5]), ('~', None)])
def test_the_end(tmp_path, said, ends): assert load_config(write(tmp_path, f'prompt: x\neos: {said}\n')).eos == ends

@pytest.mark.parametrize('said', ['never', '-1', '1.5', '[-1]', '0;5', '"0,"', 'true', '{a: 1}', '[[1]]'])
def test_what_is_no_end(tmp_path, said):
    with pytest.raises(BadInput, match='eos.*: give model .*, none .*, or token ids with commas between them') as e: load_config(write(tmp_path, f'prompt: x\neos: {said}\n'))
    assert '\n' not in str(e.value) and 'function' not in str(e.value)

def test_results_say_what_ended_them(capsys, tmp_path):
    file = write(tmp_path, f'prompt: "def "\neos: 0,5\noutput: {tmp_path}/out.jsonl\n')
    code, out, err = inside(capsys, 'bench', '--config', file, '--json', tmp_path/'got.json')
    assert code == 0 and 'texts end at' in out and '(0) or' in out and '(5)' in out
    got, head = json.loads((tmp_path/'got.json').read_text()), json.loads((tmp_path/'out.jsonl').read_text().split('\n')[0])
    assert got['eos_token_ids'] == head['eos_token_ids'] == [0, 5] and got['templated'] == head['templated'] == 0

def test_a_sampled_text_is_not_called_exact(capsys, tmp_path):
    "The column says that a greedy text was checked beside it"
    for temperature, column in ((0, 'greedy text'), (.8, 'greedy check')):
        code, out, err = inside(capsys, 'bench', '--config', write(tmp_path, f'prompt: "def "\ntemperature: {temperature}\noutput: {tmp_path}/{temperature}.jsonl\n'))
        assert code == 0 and column in out and ('greedy text' in out) == (temperature == 0)

def test_prompts_beside_the_configuration(tmp_path, monkeypatch):
    file = write(tmp_path/'there', 'data: p.txt\n')
    (tmp_path/'here').mkdir()
    monkeypatch.chdir(tmp_path/'here')
    assert load_config(file).data == 'p.txt'                                      # nowhere: named as it was written
    (tmp_path/'here'/'p.txt').write_text('here\n')
    assert load_config(file).data == 'p.txt'                                      # where the command runs
    (tmp_path/'there'/'p.txt').write_text('there\n')
    with pytest.raises(BadInput, match="data='p.txt': it is beside the configuration and another is where the command runs; give the whole path"): load_config(file)
    (tmp_path/'here'/'p.txt').unlink()
    assert load_config(file).data == str(tmp_path/'there'/'p.txt')
    assert load_config(file, data='q.txt').data == 'q.txt'                        # what the caller gives is the caller's
    assert load_config(write(tmp_path/'there', f'data: {tmp_path}/there/p.txt\n')).data == f'{tmp_path}/there/p.txt'
    monkeypatch.chdir(tmp_path/'there')
    assert load_config('c.yaml').data == f'{tmp_path}/there/p.txt'

@pytest.mark.parametrize('data', ['5', '""', '[a]', f'"{"x"*5000}"', r'"a\0b"'])
def test_what_is_no_path(tmp_path, data):
    "A fault, or a name that is not there, in one line"
    try:
        config = load_config(write(tmp_path, f'data: {data}\n'))
    except BadInput as e:
        assert '\n' not in str(e)
    else:
        assert config.data

def test_examples_run_from_anywhere(tmp_path, root, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in (root/'configs').glob('*.yaml'):
        config = load_config(file)
        assert config.prompt or config.data == str(root/'configs/prompts.jsonl'), file.name

@pytest.mark.parametrize('suffix', ['csv', 'jsonl'])
def test_two_runs_into_one_table(tmp_path, suffix):
    "The one that comes second stops in one line; no row stands twice, and the same call goes on afterwards"
    path, grid = tmp_path/f't.{suffix}', [dict(n=n) for n in range(3)]
    def slow(n):
        "The other run has been here in the meantime"
        if n == 1: fill(path, grid, lambda n: dict(square=n*n))
        return dict(square=n*n)
    with pytest.raises(ValueError, match='changed by somebody else.*give each run a table of its own') as e: fill(path, grid, slow)
    assert '\n' not in str(e.value)
    rows = fill(path, grid, lambda n: pytest.fail('all are there'))
    assert [r['n'] for r in rows] == [0, 1, 2] and len(Table(path, grid)._rows) == 3 and path.read_text().count('\n') == 3 + (suffix == 'csv')

def test_an_end_that_the_model_cannot_say(capsys, tmp_path):
    "Refused before anything is measured, on the command line and in a file"
    for args in (('bench', '--eos', '5,4096', '--prompt', 'x'), ('plan', '--eos', 4096, '--prompt', 'x'), ('demo', '--eos', 4096),
                 ('bench', '--config', write(tmp_path, f'prompt: x\neos: 4096\noutput: {tmp_path}/out.jsonl\n'))):
        code, out, err = inside(capsys, *args)
        assert code == 2 and 'a text cannot end at 4096: this model knows the tokens 0..4095' in err and not out, args
