"Tables that grow by a row a point: nothing is measured twice, nothing of other weights is served, nothing foreign is touched."
import json, math, sys
import pytest, torch
from specdec import cli, sweeping
from specdec.tables import add_row, fill, read_rows
from specdec.sweeping import points, sweep
from specdec.zoo import Pair, byte_tokenizer, random_gpt2

SHAPE = dict(vocab_size=256, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None)
def pair(seed=1, **kw): return Pair(random_gpt2(seed, **SHAPE | kw), random_gpt2(seed + 1, **SHAPE | kw), byte_tokenizer(), 'x')

KEYS = ['12e45678', '00123456', 'abcdef01', '1_0', '01', '1e5', '1e400', 'nan', 'inf', '-0', '٣', ' x ', 'a,b', '"', 'a"b\nc', '\r', 'a\r\nb', 'True', 'None', 'π', '\udc80', '\x00', '\u2028',
        '#x', "=1+1", 1, 10**30, .1, 1e-7, 1e22, -0., True, None, '[1]', '{}']

@pytest.mark.parametrize('suffix', ['.csv', '.jsonl'])
@pytest.mark.parametrize('key', KEYS, ids=ascii)
def test_a_point_is_measured_once_whatever_its_key_looks_like(tmp_path, suffix, key):
    seen, path = [], tmp_path/f't{suffix}'
    grid = [dict(pair='x', inputs=key, n=2), dict(pair='x', inputs=key, n=3)]
    def measure(**kw):
        seen.append(kw)
        return dict(speedup=1.5)
    if key == '\x00' and suffix == '.csv' and sys.version_info < (3, 11):      # its csv module has no NUL
        with pytest.raises(ValueError, match='choose a .jsonl file'): fill(path, grid, measure)
        return
    for n in (1, 2, 2): rows = fill(path, grid[:n], measure)                 # stopped after the first, and started again
    assert seen == grid and rows == [dict(o, speedup=1.5) for o in grid]
    assert [r['speedup'] for r in read_rows(path)] == [1.5, 1.5]

@pytest.mark.parametrize('a, b', [('1', 1), ('', None), ('True', True), (1., '1.0'), (math.nan, None)])
def test_points_that_a_csv_cannot_tell_apart_are_refused(tmp_path, a, b):
    with pytest.raises(ValueError, match='written alike'): fill(tmp_path/'t.csv', [dict(n=a), dict(n=b)], lambda n: pytest.fail('measured'))
    if b == b and a == a: fill(tmp_path/'t.jsonl', [dict(n=a), dict(n=b)], lambda n: dict(y=1))

@pytest.mark.parametrize('text', ['x,y\n"a\nb",1\n"c\nd', 'x,y\n"a\nb",1\n"c\n', 'x,y\n"a\nb",1\nc,', '\ufeffx,y\n"a\nb",1\n', 'x,y\r\n"a\nb",1\r\nc'])
def test_a_torn_line_goes_and_whole_ones_stay(tmp_path, text):
    (path := tmp_path/'t.csv').write_bytes(text.encode())
    assert fill(path, [dict(x='a\nb'), dict(x='c')], lambda x: dict(y=2)) == [dict(x='a\nb', y=1), dict(x='c', y=2)]
    assert read_rows(path) == [dict(x='a\nb', y=1), dict(x='c', y=2)]

@pytest.mark.parametrize('name, data', [('a.csv', b'precious notes'), ('b.csv', b'line one\nline two'), ('c.csv', b'junk,header\n1,2\n'), ('d.jsonl', b'{"x": 1}\n'), ('e.jsonl', b'no json\n'), ('f.csv', b'\xff\xfe'),
    ('g.jsonl', b'[1]\n'), ('h.csv', b'n\n1\n1,2\n'), ('i.csv', b'n,m\n1\n'), ('j.jsonl', b'{"n": 1}\n{"m": 1}\n'), ('k.jsonl', b'{"n": 1}\n3\n'), ('l.jsonl', b'[' * 3000 + b'\n'), ('m.csv', b'n\n"x"y\n'),
    ('n.csv', b'\x89PNG\r\n\x1a\n\0\0\n'), ('o.csv', b'n\n' + b'x'*200_000 + b'\n')], ids=lambda v: v if isinstance(v, str) else '')
def test_a_file_that_is_no_such_table_is_left_alone(tmp_path, name, data):
    (path := tmp_path/name).write_bytes(data)
    with pytest.raises(ValueError, match=f'{name}: there is such a file, and it is no table with the columns n'): fill(path, [dict(n=1)], lambda n: pytest.fail('measured'))
    assert path.read_bytes() == data

def test_a_row_of_other_columns_is_refused(tmp_path):
    add_row(tmp_path/'t.csv', dict(n=1, y=2))
    add_row(tmp_path/'t.csv', dict(y=4, n=3))
    with pytest.raises(ValueError, match='differs in y, z'): add_row(tmp_path/'t.csv', dict(n=5, z=6))
    assert read_rows(tmp_path/'t.csv') == [dict(n=1, y=2), dict(n=3, y=4)]

@pytest.mark.parametrize('name', ['s.csv', 's.jsonl'])
def test_a_row_stands_for_the_weights_threads_and_texts_that_gave_it(tmp_path, monkeypatch, name):
    first, second = pair(1), pair(5)
    def measured(p, prompts=('def ',), **kw):
        monkeypatch.setattr(sweeping, 'open_pair', lambda *args, **kw: p)
        news = []
        sweep(points((2,)), tmp_path/name, [*prompts], 4, 1, done=lambda point, new: news.append(new), **kw)
        return news
    assert measured(first) == [True] and measured(first) == [False]
    assert measured(second) == [True] and measured(second) == [False] and measured(first) == [False]
    assert measured(first, ('de', 'f ')) == [True] and measured(first, seed=3) == [True]
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try: assert measured(first) == [True]
    finally: torch.set_num_threads(before)
    with torch.no_grad(): first.draft.transformer.wte.weight[0, 0] += 1        # the same objects, other weights
    assert measured(first) == [True]
    assert len(read_rows(tmp_path/name)) == 6

@pytest.mark.parametrize('bad, words', [(dict(gamma=[1, 0]), 'gamma=0'), (dict(gamma=[True]), 'gamma=True'), (dict(gamma=[2.5]), 'gamma=2.5'), (dict(gamma=['best']), "gamma='best'"), (dict(gamma=[]), 'gamma: the grid is empty'),
    (dict(temperature=[0., -1.]), 'temperature=-1'), (dict(temperature=[math.nan]), 'temperature=nan'), (dict(rule=['token', 'none']), "rule='none'"),
    (dict(rule=['token', 'greedy'], temperature=[0., .8]), 'rule="greedy" .* temperature=0.8')], ids=str)
def test_values_of_a_grid_that_cannot_be_run(bad, words):
    with pytest.raises(ValueError, match=words): points(**bad)

@pytest.mark.parametrize('args, words', [(['--gamma', '1,60'], 'gamma=60'), (['--max-new-tokens', '80'], 'max_new_tokens=80'), (['--pair', 'x,y+'], "pair='y+'"), (['--pair', 'x,+'], "pair='+'"), (['--rule', 'token,greedy', '--temperature', '0,0.8'], 'greedy'),
    (['--rule', 'token,block'], 'block'), (['--prompt', 'x'*70], '70'), (['--temperature', '0,inf'], 'inf'), (['--gamma', '1,,2'], '--gamma'), (['--gamma', ','], '--gamma'), (['--seed', 2**64], 'seed')], ids=str)
def test_a_grid_that_cannot_be_run_is_refused_before_the_first_point(tmp_path, monkeypatch, capsys, args, words):
    real = sweeping.open_pair
    monkeypatch.setattr(sweeping, 'open_pair', lambda name, **kw: pair() if name == 'x' else real(name, **kw))
    monkeypatch.setattr(sweeping, 'against_plain', lambda *a, **kw: pytest.fail('measured'))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as e: cli.main(['sweep', '--prompt', 'def ', '--max-new-tokens', '4', '--pair', 'x', '--gamma', '1', *map(str, args)])
    said = capsys.readouterr().err
    assert e.value.code == 2 and said.count('\n') == 1 and words in said, said
    assert not [*tmp_path.iterdir()]

def test_no_prompts_are_not_replaced(tmp_path):
    for prompts in ([], [''], [' '], [3]):
        with pytest.raises(ValueError, match='prompts'): sweep(points((2,)), tmp_path/'s.csv', prompts)

def test_a_table_that_was_measured_is_read_back_as_it_was(tmp_path):
    row = dict(pair='a+b', gamma=3, rate=1.25e-7, big=1e22, yes=True, none=None, text='007')
    for name in ('t.csv', 't.jsonl'):
        add_row(tmp_path/name, row)
        assert read_rows(tmp_path/name) == [row]
    assert json.loads((tmp_path/'t.jsonl').read_text()) == row
