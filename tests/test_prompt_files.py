"Files of prompts: every kind, every way in which an entry can be none, and turns that are not asked."
import json, warnings
import pytest
from specdec.bench import run_bench
from specdec.files import BadInput, Prompt, as_prompt, read_prompts
from specdec.zoo import load_pair

QUESTION = dict(question_id=81, category='writing', turns=['Compose a post.', 'Now shorter.'])

@pytest.fixture
def file(tmp_path):
    def file(name, text):
        path = tmp_path/name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path
    return file

@pytest.mark.parametrize('name, text, want', [
    ('a.txt', 'one\n\n two\n', [Prompt('one'), Prompt(' two')]), ('a.json', '["one", {"prompt": "two"}]', [Prompt('one'), Prompt('two')]),
    ('a.json', '"one"', [Prompt('one')]), ('a.json', '{"prompt": "one", "category": 7}', [Prompt('one', '7')]),
    ('a.jsonl', '\ufeff"a\u2028b"\r\n{"turns": ["x"], "question_id": 5}\n', [Prompt('a\u2028b'), Prompt('x', None, 5)])])
def test_read(file, name, text, want): assert read_prompts(file(name, text)) == want

@pytest.mark.parametrize('name, text, words', [
    ('a.jsonl', '"one"\n{"turns": []}\n\n"two\n7', 'line 2: .*is no prompt: give.*; .*line 4: this is no JSON.*; .*line 5'), ('a.jsonl', '7\n'*12, 'line 3.*and 9 more$'),
    ('a.json', '["one",\n two]', 'a.json: this is no JSON: Expecting value in line 2'), ('a.json', '["one", {"text": "two"}]', 'entry 2'), ('a.json', '[null]', 'entry 1'),
    ('a.jsonl', '{"prompt": "a", "turns": ["b"]}', 'line 1.*no prompt'), ('a.jsonl', '{"turns": ["a", 5]}', 'no prompt'), ('a.jsonl', '{"turns": ["a", ""]}', 'no prompt'),
    ('a.jsonl', '{"prompt": "a", "prompt": "b"}', "the key 'prompt' stands twice"), ('a.json', '{"prompt": "a", "prompt": "b"}', "the key 'prompt' stands twice"),
    ('a.jsonl', '{"prompt": "a", "category": ["x"]}', 'a category is a text'), ('a.jsonl', '{"messages": [{"role": "user"}]}', 'no prompt'), ('a.jsonl', '{"messages": ["a"]}', 'no prompt'), ('a.jsonl', '{"messages": "a"}', 'no prompt'),
    ('a.jsonl', '{"messages": [], "prompt": "a"}', 'no prompt'),
    ('a.jsonl', '{"turns": "one text"}', 'no prompt'), ('a.jsonl', '[' * 3000, 'no JSON'), ('a.txt', '\n \n', 'holds no prompt'), ('a.csv', 'x', 'give a .txt'),
    ('a.txt', 'caf\u00e9'.encode('latin-1'), 'no UTF-8')])
def test_refused(file, name, text, words):
    path = file(name, text)
    with pytest.raises(BadInput, match=words) as e: read_prompts(path)
    assert len(str(e.value).splitlines()) == 1 and path.name in str(e.value)

def test_folders(file, tmp_path):
    file('set/.cache/x.jsonl', '"hidden"')
    file('set/info.json', '{}')
    file('set/readme.txt', 'about')
    with pytest.raises(BadInput, match='is no prompt'): read_prompts(tmp_path/'set')
    file('set/data/test.jsonl', '"b"')
    file('set/data/a.jsonl', '"a"')
    assert read_prompts(tmp_path/'set') == [Prompt('a'), Prompt('b')]
    file('rows/x.parquet', '')
    with pytest.raises(BadInput, match='only .parquet; export'): read_prompts(tmp_path/'rows')

def test_turns_that_are_left_out_are_said(file):
    with pytest.warns(UserWarning) as said: assert as_prompt(QUESTION).left_out == 1
    assert 'turns left out: 1' in str(said[0].message) and "'Compose a post.' (question 81)" in str(said[0].message)
    path = file('bench.jsonl', '\n'.join(json.dumps(QUESTION | dict(question_id=i, turns=['a']*(1 + i % 4))) for i in range(20)))
    with pytest.warns(UserWarning) as said: found = read_prompts(path)
    assert len(said) == 1 and 'bench.jsonl: only the first turn' in str(said[0].message)
    assert 'turns left out: 30, of 15 of 20 prompts' in str(said[0].message)                # once a file, not once a prompt
    assert [p.left_out for p in found] == [i % 4 for i in range(20)]
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert as_prompt(dict(turns=['one'])).left_out == 0 == as_prompt('x').left_out

def test_a_file_of_two_turns_runs(file, tmp_path):
    data = file('bench.jsonl', '\n'.join(json.dumps(QUESTION | dict(question_id=i)) for i in range(2)))
    settings = dict(method='baseline', target_model='tiny', data=str(data), output=str(tmp_path/'o.jsonl'), max_new_tokens=2, warmup_steps=0)
    with pytest.warns(UserWarning, match='turns left out: 2, of 2 of 2 prompts') as said: rows = run_bench(settings, pair=load_pair(device='cpu'))
    assert len(said) == 1 and [r['turns_left_out'] for r in rows] == [1, 1]

CONVERSATION = [dict(role='system', content='Be brief.'), dict(role='user', content='Hi'), dict(role='assistant', content='Hello'), dict(role='user', content='Again')]

def test_a_conversation_goes_through_the_template_and_a_text_does_not(file, tmp_path):
    path = file('c.jsonl', '\n'.join(json.dumps(o) for o in (dict(messages=CONVERSATION), dict(turns=['One', 'Two']), dict(prompt='Plain'))))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        talk, turns, plain = read_prompts(path)
    assert (talk.text, talk.left_out, talk.turns) == ('Again', 0, CONVERSATION) and (turns.text, turns.left_out) == ('One', 1)
    first = [dict(role='user', content='One')]
    assert [p.asked('auto', True) for p in (talk, turns, plain)] == [CONVERSATION, first, 'Plain']
    assert [p.asked('auto', False) for p in (talk, turns, plain)] == [CONVERSATION, 'One', 'Plain']       # a conversation needs a template
    assert [p.asked('no', True) for p in (talk, turns, plain)] == ['Again', 'One', 'Plain']
    pair = load_pair('toy', device='cpu')
    config = dict(method='baseline', target_model='toy', data=str(path), max_new_tokens=3, warmup_steps=0, temperature=0., dtype='float32', output=str(tmp_path/'o.jsonl'))
    def rows(force=True, **kw):
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            return run_bench({**config, **kw}, pair, force)
    with pytest.raises(BadInput, match='prompt 1 of 3: .*chat template, and this tokenizer has none'): rows()
    assert [r['chat'] for r in rows(chat='no')] == [False]*3
    pair.tokenizer.chat_template = "{% for m in messages %}<{{ m['role'][0] }}>{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    assert [r['chat'] for r in rows()] == [True, True, False] and [r['chat'] for r in rows(chat='yes')] == [True]*3
    with pytest.raises(BadInput, match='chat'): rows(chat='perhaps')
