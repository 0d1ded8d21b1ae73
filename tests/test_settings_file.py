"A benchmark's file of settings: what YAML makes of a value, keys that stand twice, files that would be read and written."
import os
from pathlib import Path
import pytest
from specdec.bench import run_bench
from specdec.files import BadInput, FileIsThere, NoFile, check_output, check_writable
from specdec.settings import BenchConfig, load_config

BASE = 'method: baseline\ntarget_model: tiny\nprompt: "def "\n'

@pytest.fixture
def read(tmp_path):
    "Settings of a file with these further lines"
    def read(text, base=BASE):
        path = tmp_path/'c.yaml'
        path.write_text(base + text, encoding='utf-8')
        return load_config(path)
    return read

@pytest.mark.parametrize('text, want', [('8e-1', .8), ('8E-1', .8), ('1e0', 1.), ('.5', .5), ('1.', 1.), ('+0.7', .7), ('0', 0.),
                                        ('00.7', .7), ('7_0e-2', .7), ('8.0e-1', .8)])
def test_numbers_that_are_read(read, text, want): assert read(f'temperature: {text}\n').temperature == want

@pytest.mark.parametrize('text', ['.inf', '.nan', '-1e-3', '"0.8"', 'e3', '1e', '0.8x', '0x', 'true', '1:30'])
def test_numbers_that_are_none(read, text):
    with pytest.raises(BadInput, match='temperature') as e: read(f'temperature: {text}\n')
    assert len(str(e.value).splitlines()) == 1

@pytest.mark.parametrize('text, want', [('010', 10), ('08', 8), ('1_000', 1000), ('1e2', 100), ('64.0', 64), ('0x10', 16), ('0o17', 15), ('+5', 5)])
def test_whole_numbers(read, text, want): assert read(f'max_new_tokens: {text}\n').max_new_tokens == want

@pytest.mark.parametrize('text', ['1:30', '2.5', '1e-1', '0b11', 'yes', '0', '-3'])
def test_no_whole_numbers(read, text):
    with pytest.raises(BadInput, match='max_new_tokens'): read(f'max_new_tokens: {text}\n')

@pytest.mark.parametrize('text', ['yes', 'no', 'on', 'off', 'y', '2024-01-01', '2024-01-01 10:00:00', '1:30', '=', 'Yes'])
def test_texts_that_were_something_else_in_2005(read, text):
    assert read(f'prompt: {text}\n', 'method: baseline\ntarget_model: tiny\n').prompt == text

@pytest.mark.parametrize('text, key, lines', [
    ('gamma: 3\nseed: 1\ngamma: 4\n', 'gamma', 'in line 4 and in line 6'), ('prompt: x\n', 'prompt', 'in line 3 and in line 4'),
    ('"seed": 1\nseed: 1\n', 'seed', 'in line 4 and in line 5'),
    ('adaptive:\n  strategy: aimd\n  gamma_min: 1\n  gamma_max: 8\n  gamma_min: 2\n', 'gamma_min', 'in line 6 and in line 8'),
    ('adaptive: {strategy: aimd, gamma_min: 1, gamma_min: 2, gamma_max: 8}\n', 'gamma_min', 'in line 4 and in line 4')])
def test_a_key_that_stands_twice(read, text, key, lines):
    with pytest.raises(BadInput) as e: read(text)
    assert f'the key {key!r} stands twice, {lines}' in str(e.value) and 'c.yaml, line' in str(e.value) and '\n' not in str(e.value)

def test_merged_blocks_may_say_a_key_again(tmp_path):
    (tmp_path/'c.yaml').write_text(BASE.replace('baseline', 'speculative') + 'draft_model: tiny\ngamma: 2\nsampling: greedy\nadaptive:\n'
                                   '  <<: {strategy: aimd, gamma_min: 1, gamma_max: 8}\n  gamma_max: 6\n')
    assert load_config(tmp_path/'c.yaml').adaptive.gamma_max == 6

@pytest.mark.parametrize('target, given, want', [('tiny', '', None), ('toy', '', None), ('gpt2', '', 'model'), ('./a/folder', '', 'model'), ('gpt2', 'eos: null', None),
    ('gpt2', 'eos:', None), ('gpt2', 'eos: 5', 5), ('gpt2', 'eos: [5, 6]', [5, 6]), ('tiny', 'eos: model', 'model'), ('tiny', 'eos: []', [])])
def test_eos(read, target, given, want):
    config = read(given, BASE.replace('tiny', target))
    assert config.eos == want and BenchConfig(**config.model_dump()) == config

@pytest.mark.parametrize('given', ['-1', 'true', '1.5', 'end', '[1, x]', '{a: 1}', '[[1]]'])
def test_no_eos(read, given):
    with pytest.raises(BadInput, match='eos') as e: read(f'eos: {given}\n')
    assert len(str(e.value).splitlines()) == 1

def test_the_last_seed_is_checked_first(read):
    assert read(f'seed: {2**63 - 2}\nruns: 2\n').runs == 2
    with pytest.raises(BadInput, match='the seed of the last run'): read(f'seed: {2**63 - 1}\nruns: 2\n')

def test_the_settings_are_not_written_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = BASE + 'output: c.jsonl\n'
    Path('c.jsonl').write_text(text)
    os.symlink('c.jsonl', 'link.jsonl')
    os.link('c.jsonl', 'hard.jsonl')
    for name, output in [('c.jsonl', 'c.jsonl'), ('c.jsonl', './sub/../c.jsonl'), ('c.jsonl', 'link.jsonl'), ('c.jsonl', 'hard.jsonl'), ('hard.jsonl', 'c.jsonl'), (tmp_path/'c.jsonl', 'c.jsonl')]:
        with pytest.raises(BadInput, match='the settings are read from there'): load_config(name, output=output)
    assert Path('c.jsonl').read_text() == text

def test_prompts_are_not_written_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('data').mkdir()
    Path('data/p.jsonl').write_text('"a"\n')
    os.symlink('data/p.jsonl', 'link.jsonl')
    for output, data in [('data/p.jsonl', 'data/p.jsonl'), ('link.jsonl', 'data/p.jsonl'), ('data/p.jsonl', 'link.jsonl'), ('data/out.jsonl', 'data'), ('out.jsonl', '.')]:
        with pytest.raises(BadInput, match='the prompts are read from there'):
            run_bench(dict(method='baseline', target_model='tiny', data=data, output=output), force=True)
    with pytest.raises(BadInput, match='are read from there'): check_writable(Path('x.json'), source=[None, 'data', 'x.json'])
    assert sorted(p.name for p in tmp_path.rglob('*')) == ['data', 'link.jsonl', 'p.jsonl'] and Path('data/p.jsonl').read_text() == '"a"\n'

def test_a_look_leaves_nothing(tmp_path):
    os.symlink(tmp_path/'later.jsonl', tmp_path/'link.jsonl')
    check_writable(tmp_path/'link.jsonl')
    check_writable(tmp_path/'new.json')
    assert [p.name for p in tmp_path.iterdir()] == ['link.jsonl'] and (tmp_path/'link.jsonl').is_symlink()

def test_kinds_of_errors(tmp_path):
    "One class says: a mistake of the user's; the kinds are what Python calls them too"
    (tmp_path/'o.jsonl').write_text('mine')
    with pytest.raises(FileIsThere) as e: check_output(tmp_path/'o.jsonl', False)
    assert isinstance(e.value, (BadInput, FileExistsError)) and (tmp_path/'o.jsonl').read_text() == 'mine'
    for data, kind in [('none.txt', NoFile), ('bad.jsonl', BadInput), ('empty.txt', BadInput), ('o.csv', BadInput)]:
        (tmp_path/'bad.jsonl').write_text('{"turns": 3}\n{')
        (tmp_path/'empty.txt').write_text('\n')
        (tmp_path/'o.csv').write_text('x')
        with pytest.raises(kind) as e: run_bench(dict(method='baseline', target_model='nobody/knows', data=str(tmp_path/data), output=str(tmp_path/'new.jsonl')))
        assert isinstance(e.value, BadInput) and len(str(e.value).splitlines()) == 1 and data in str(e.value)
    with pytest.raises(BadInput, match='the prompt has 601 tokens'):
        run_bench(dict(method='baseline', target_model='tiny', prompt='x '*600, output=str(tmp_path/'new.jsonl')))
    assert not (tmp_path/'new.jsonl').exists()
