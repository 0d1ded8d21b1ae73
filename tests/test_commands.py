"What a command reads and writes is settled first; options without effect, empty texts and impossible settings are refused before any work."
import json, os
from pathlib import Path
import pytest, yaml
from specdec import bench, cli, comparing, pairs, planning, sweeping, tables
from specdec.zoo import Pair, byte_tokenizer, random_gpt2

SHAPE = dict(vocab_size=256, n_layer=1, n_head=2, n_embd=32, n_positions=64, bos_token_id=None, eos_token_id=None)
CONFIG = dict(method='baseline', target_model='tiny', prompt='def ', output='o.jsonl', dtype='float32', max_new_tokens=2, warmup_steps=0)
FEW = '--prompt', 'def ', '--max-new-tokens', 4, '--runs', 1
COMMANDS = 'demo', 'bench', 'plan', 'sweep'

def pair(): return Pair(random_gpt2(1, **SHAPE), random_gpt2(2, **SHAPE), byte_tokenizer(), 'x')

@pytest.fixture
def here(tmp_path, monkeypatch):
    "An empty folder, and models that open at once"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sweeping, 'open_pair', lambda *args, **kw: pair())
    monkeypatch.setattr(pairs, 'open_pair', lambda *args, **kw: pair())
    monkeypatch.setattr(bench, 'load_models', lambda *args: pair())
    return tmp_path

@pytest.fixture
def idle(here, monkeypatch):
    "The same, and whoever opens models or measures fails"
    for module, name in ((sweeping, 'open_pair'), (pairs, 'open_pair'), (bench, 'load_models'), (tables, 'fill'), (planning, 'plan'), (comparing, 'compare'), (bench, 'run_bench'), (cli, 'run_demo')):
        monkeypatch.setattr(module, name, lambda *args, **kw: pytest.fail('the work has begun'))
    monkeypatch.setattr('specdec.zoo.load_pair', lambda *args, **kw: pytest.fail('the work has begun'))
    return here

def run(capsys, *args):
    "Exit code, what it printed, what it said on stderr"
    with pytest.raises(SystemExit) as e: cli.main([*map(str, args)])
    return e.value.code, *capsys.readouterr()

def refused(capsys, *args):
    "The one line of bad usage"
    code, out, err = run(capsys, *args)
    assert (code, out, err.count('\n')) == (2, '', 1) and err.startswith('specdec: '), (code, out, err)
    return err

# f32: what nobody named is kept
def test_a_picture_beside_the_table_is_kept(here, capsys):
    Path('s.png').write_text('mine')
    assert 's.png' in refused(capsys, 'sweep', *FEW, '--gamma', 1, '--output', 's.csv')
    assert Path('s.png').read_text() == 'mine' and not Path('s.csv').exists()
    assert run(capsys, 'sweep', *FEW, '--gamma', 1, '--output', 's.csv', '--force')[0] == 0
    assert sweeping.is_sweep_figure(Path('s.png'))
    assert run(capsys, 'sweep', *FEW, '--gamma', 1, '--output', 's.csv')[0] == 0                # it is a sweep's own now
    Path('named.svg').write_text('mine')
    assert run(capsys, 'sweep', *FEW, '--gamma', 1, '--output', 's.csv', '--figure', 'named.svg')[0] == 0
    assert sweeping.is_sweep_figure(Path('named.svg'))
    assert '--force' in refused(capsys, 'sweep', *FEW, '--output', 's.csv', '--figure', 'named.svg', '--force')

def test_a_folder_that_nobody_named_is_kept(here, capsys, monkeypatch):
    fetched = []
    def fetch(name, local_dir, **kw):
        fetched.append(name)
        (Path(local_dir)/'.cache/huggingface').mkdir(parents=True, exist_ok=True)
        (Path(local_dir)/'model.safetensors').write_text(name)
    monkeypatch.setattr('huggingface_hub.snapshot_download', fetch)
    Path('mine').mkdir()
    Path('mine/config.json').write_text('precious')
    assert '--path' in refused(capsys, 'download', '--model', 'a/mine')
    for _ in range(2): assert run(capsys, 'download', '--model', 'a/m')[0] == 0
    assert '--path' in refused(capsys, 'download', '--model', 'b/m') and '--path' in refused(capsys, 'download', '--dataset', 'a/m')
    assert run(capsys, 'download', '--model', 'b/m', '--path', 'm')[0] == 0
    assert fetched == ['a/m', 'a/m', 'b/m'] and Path('mine/config.json').read_text() == 'precious'

# f33: no two files are one
SAME = ['c.yaml', './c.yaml', 'no/../c.yaml', 'C.YAML', 'link', 'hard', 'o.jsonl', 'O.jsonl']
@pytest.mark.parametrize('data, name', [(d, n) for d in ('p.txt', 'd') for n in SAME] + [('p.txt', 'p.txt'), ('p.txt', 'P.TXT'), ('d', 'd/p.txt'), ('d', 'd/new.json')])
def test_results_of_a_configuration(idle, capsys, data, name):
    Path('d').mkdir()
    for p in ('p.txt', 'd/p.txt'): Path(p).write_text('def ')
    Path('c.yaml').write_text(yaml.safe_dump({k: v for k, v in CONFIG.items() if k != 'prompt'} | dict(data=data)))
    Path('link').symlink_to('c.yaml')
    os.link('c.yaml', 'hard')
    before = {p: p.read_bytes() for p in Path().rglob('*') if p.is_file()}
    assert name.removeprefix('./') in refused(capsys, 'bench', '--config', 'c.yaml', '--force', '--json', name)
    assert {p: p.read_bytes() for p in Path().rglob('*') if p.is_file()} == before

@pytest.mark.parametrize('output', ['c.jsonl', 'link.jsonl', 'd/o.jsonl', 'm/o.jsonl'])
def test_a_configuration_that_writes_over_what_it_reads(idle, capsys, output):
    for d in 'dm': Path(d).mkdir()
    Path('c.jsonl').write_text(yaml.safe_dump({**{k: v for k, v in CONFIG.items() if k != 'prompt'}, 'data': 'd', 'target_model': 'm', 'output': output}))
    Path('d/p.txt').write_text('def ')
    Path('link.jsonl').symlink_to('c.jsonl')
    assert output in refused(capsys, 'bench', '--config', 'c.jsonl', '--force')

@pytest.mark.parametrize('command', ['bench', 'plan', 'sweep'])
def test_prompts_and_models_are_not_written_over(idle, capsys, command):
    Path('p.json').write_text('["def "]')
    Path('p.csv').symlink_to('p.json')
    Path('m').mkdir()
    option, names = ('--output', ['p.csv']) if command == 'sweep' else ('--json', ['p.json', './p.json', 'P.json', 'p.csv'])
    for name in names: assert '--data' in refused(capsys, command, '--data', 'p.json', option, name)
    models = ('--pair', 'm+m', '--output', 'm/s.csv') if command == 'sweep' else ('--target', 'm', '--draft', 'm', '--json', 'm/config.json')
    assert 'model m' in refused(capsys, command, *models)
    assert Path('p.json').read_text() == '["def "]'

def test_table_and_figure_are_two_files(idle, capsys):
    Path('s.png').symlink_to('s.csv')
    assert 's.png' in refused(capsys, 'sweep', '--output', 's.csv')
    assert 's.png' in refused(capsys, 'sweep', '--output', 's.csv', '--figure', 's.png')
    Path('loop.csv').symlink_to('loop.csv')
    assert 'loop.csv' in refused(capsys, 'sweep', '--output', 'loop.csv')

# f35: an option that a mode does not use
@pytest.mark.parametrize('option', ['--target x', '--draft x', '--backend toy', '--device cpu', '--dtype float32', '--prompt x', '--data x', '--max-new-tokens 5', '--gamma 4', '--k 4', '--temperature 0', '--runs 3', '--seed 0', '--rule token', '--alpha 0.5'])
def test_options_beside_a_configuration(idle, capsys, option):
    Path('c.yaml').write_text(yaml.safe_dump(CONFIG))
    assert option.split()[0].replace('--k', '--gamma') in refused(capsys, 'bench', '--config', 'c.yaml', '--force', *option.split())

def test_options_that_belong_to_another_mode(idle, capsys):
    assert '--force' in refused(capsys, 'bench', '--force')
    assert '--alpha' in refused(capsys, 'bench', '--alpha', .5) and '--alpha' in refused(capsys, 'plan', '--backend', 'toy', '--alpha', .5)

# f36, f37: texts that are none, settings that cannot be
@pytest.mark.parametrize('command', COMMANDS)
@pytest.mark.parametrize('option', ['--prompt', '--data', '--target', '--draft', '--backend', '--device', '--dtype', '--json', '--output', '--figure', '--config', '--pair', '--rule', '--gamma', '--temperature', '--seed', '--runs'])
@pytest.mark.parametrize('text', ['', ' '])
def test_an_empty_text_is_no_text(idle, capsys, command, option, text):
    assert option in refused(capsys, command, option, text)

@pytest.mark.parametrize('option', ['--model', '--dataset', '--revision', '--path'])
def test_an_empty_name_is_no_name(idle, capsys, option): assert option in refused(capsys, 'download', '--model', 'a', option, '')

@pytest.mark.parametrize('command', COMMANDS)
@pytest.mark.parametrize('option, value', [('seed', 2**64), ('seed', 10**20), ('seed', '1e20'), ('seed', 1.5), ('seed', -2**64), ('temperature', 'nan'), ('temperature', -1), ('temperature', 'inf'), ('runs', 0), ('runs', 'x')])
def test_settings_are_checked_first(idle, capsys, command, option, value): assert option in refused(capsys, command, f'--{option}', value)

def test_the_second_seed_of_a_dialled_pair(idle, capsys):
    "The draft's weights are drawn with the next one"
    assert 'seed' in refused(capsys, 'bench', '--backend', 'dialled', '--seed', 2**64 - 1)

# Files that cannot be read are bad usage
@pytest.mark.parametrize('command', ['bench', 'plan', 'sweep', 'config'])
@pytest.mark.parametrize('name, data', [('none.jsonl', None), ('p.csv', b'x'), ('p.jsonl', b'{'), ('p.jsonl', b'\xff\xfe\0'), ('p.json', b'{'), ('p.json', b'[3]'), ('p.txt', b''), ('p.txt', b'\x89PNG\r\n\x1a\n\0\xff'), ('folder', None), ('p.jsonl', b'1\n2\n3\n')])
def test_prompts_that_cannot_be_read(here, capsys, command, name, data):
    if name == 'folder': Path(name).mkdir()
    elif data is not None: Path(name).write_bytes(data)
    Path('c.yaml').write_text(yaml.safe_dump({k: v for k, v in CONFIG.items() if k != 'prompt'} | dict(data=name)))
    assert name in refused(capsys, *(('bench', '--config', 'c.yaml') if command == 'config' else (command, '--data', name)))

@pytest.mark.parametrize('data', [None, b'', b'{', b'\xff\xfe\0', b'- 1', b'a: [', b'\0'])
def test_a_configuration_that_cannot_be_read(idle, capsys, data):
    if data is not None: Path('c.yaml').write_bytes(data)
    assert 'c.yaml' in refused(capsys, 'bench', '--config', 'c.yaml')
    Path('d').mkdir()
    assert 'd' in refused(capsys, 'bench', '--config', 'd')

def test_a_token_file_that_is_no_text(here, capsys, monkeypatch):
    monkeypatch.delenv('HF_TOKEN', raising=False)
    Path('.env').write_bytes(b'HF_TOKEN=\xff')
    assert '.env' in refused(capsys, 'download', '--model', 'a/b')

# What a machine reads
def test_a_plan_says_what_it_is_of(here, capsys, monkeypatch):
    monkeypatch.setattr(cli, 'open_models', lambda *args: pair())
    code, out, err = run(capsys, 'plan', *FEW, '--gamma-max', 2, '--rule', 'ada', '--temperature', 1, '--json', 'p.json')
    got = json.loads(Path('p.json').read_text())
    assert code == 0 and got['rule'] == 'ada' and got['lossless'] is False and isinstance(got['disturbed'], list)
    assert 'rule ada is lossy' in out and 'measuring: 0 of' in err
    assert all(f'disturbed: {o}' in out for o in got['disturbed'])
