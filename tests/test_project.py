"The repository keeps its own promises: the package is what the notebooks export, and imports point down."
import ast, importlib, inspect, json, re, shutil, subprocess, sys
from collections import Counter
import dag, pytest, specdec
from pathlib import Path

MACHINE = re.compile(r'(?<![\w.])/(work|farm|root|home/\w+|Users/\w+|tmp)/')
MODULES = sorted(p.stem for p in Path(specdec.__file__).parent.glob('*.py') if p.stem[0] != '_')

def cells(nb): return json.loads(nb.read_text(encoding='utf-8'))['cells']

def test_imports_point_down(root): assert not list(dag.faults(root/'nbs'))

def nb(path, *sources): path.write_text(json.dumps({'cells': [{'cell_type': 'code', 'source': s} for s in sources]}))

def test_dag_sees_every_way_up(tmp_path):
    nb(tmp_path/'00_a.ipynb', '#| default_exp a', '#| export\ndef low(): ...',
       '%matplotlib inline\nfrom specdec.b import high', 'from specdec import high, low', 'import specdec.b')
    nb(tmp_path/'01_b.ipynb', '#| default_exp b', '#| export\nfrom specdec.a import low\ndef high(): ...',
       'from specdec import low')
    assert list(dag.faults(tmp_path)) == ['00_a.ipynb imports specdec.b, which belongs to chapter 01',
                                          '00_a.ipynb imports specdec.high, which belongs to chapter 01',
                                          '00_a.ipynb imports specdec.low, which belongs to chapter 00']

@pytest.mark.parametrize('line', ['from .b import high', 'from . import b', 'from specdec.b import high',
                                  'import specdec.b', 'def f():\n    from .b import high'])
def test_dag_sees_relative_imports(tmp_path, line):
    "In cells, and in the module that was exported from them"
    (tmp_path/'nbs').mkdir(); (tmp_path/'specdec').mkdir()
    nb(tmp_path/'nbs/00_a.ipynb', '#| default_exp a', f'#| export\n{line}')
    nb(tmp_path/'nbs/01_b.ipynb', '#| default_exp b', '#| export\ndef high(): ...')
    (tmp_path/'specdec/a.py').write_text(line)
    (tmp_path/'specdec/b.py').write_text('from .a import low')
    assert [l.split(',')[0] for l in dag.faults(tmp_path/'nbs')] == ['00_a.ipynb imports specdec.b',
                                                                     'a.py imports specdec.b']

def test_cells_have_stable_ids(notebooks):
    assert notebooks
    for p in notebooks:
        ids = Counter(c.get('id') for c in cells(p))
        assert None not in ids and max(ids.values()) == 1, f'{p.name}: {ids.most_common(1)}'

@pytest.mark.parametrize('name', MODULES)
def test_exports_have_docstrings(name):
    mod = importlib.import_module(f'specdec.{name}')
    own = {n: o for n, o in vars(mod).items() if n[0] != '_' and getattr(o, '__module__', '') == mod.__name__}
    assert own, 'nothing is defined'
    bare = [n for n, o in own.items() if (inspect.isfunction(o) or inspect.isclass(o)) and not inspect.getdoc(o)]
    assert not bare, f'no docstring: {bare}'

@pytest.mark.parametrize('name', MODULES)
def test_module_comes_from_a_notebook(name, root):
    text = (root/'specdec'/f'{name}.py').read_text(encoding='utf-8')
    source = re.search(r'File to edit: \.\./(nbs/\S+\.ipynb)', text)
    assert source and (root/source[1]).exists()

def test_public_names(root):
    "What the README tells a user to import is there, and importing is all it takes"
    for n in 'load_pair generate autoregressive stream verify'.split(): assert callable(getattr(specdec, n)), n
    ini = re.search(r'^version\s*=\s*(\S+)', (root/'settings.ini').read_text(), re.M)[1]
    assert specdec.__version__ == ini
    assert re.search(rf'^## {re.escape(ini)}\b', (root/'CHANGELOG.md').read_text(),
                     re.M), 'the version has no entry in CHANGELOG.md'

def test_every_requirement_has_a_lowest_version(root):
    "The lowest that was tried, so that pip does not keep one that is too old"
    free = [r for r in re.search(r'^requirements\s*=(.*)', (root/'settings.ini').read_text(), re.M)[1].split()
            if not re.search('>=|==|~=', r)]
    assert not free

def test_the_package_does_not_need_the_tools(root):
    "Users get `requirements` only: no exported module imports what is a dev requirement"
    for p in (root/'specdec').rglob('*.py'):
        for node in ast.walk(ast.parse(p.read_text(encoding='utf-8'))):
            names = [a.name for a in node.names] if isinstance(node,
                                                               ast.Import) else [node.module or ''] if isinstance(node,
                                                                                                                  ast.ImportFrom) else []
            assert not {n.split('.')[0] for n in names} & {'fastcore', 'nbdev', 'execnb', 'pytest', 'hypothesis',
                                                           'playwright'}, p.name

def test_export_and_clean_change_nothing(root, tmp_path):
    for name in ('nbs', 'specdec'):
        shutil.copytree(root/name, tmp_path/name, symlinks=True,
                        ignore=shutil.ignore_patterns('__pycache__', '.ipynb_checkpoints', 'tiny'))
    for name in ('settings.ini', '_quarto.yml'): shutil.copy(root/name, tmp_path)
    def state(d):
        return {p.relative_to(d).as_posix(): p.read_bytes() for f in ('nbs', 'specdec') for p in (d/f).rglob('*')
                if p.suffix in ('.ipynb', '.py')}
    before = state(tmp_path)
    code = 'from nbdev.export import *; from nbdev.doclinks import nbdev_export; from nbdev.clean import nbdev_clean; nbdev_export(); nbdev_clean()'
    subprocess.run([sys.executable, '-c', code], cwd=tmp_path, check=True)
    after = state(tmp_path)
    assert sorted(k for k in {*before, *after} if before.get(k) != after.get(k)) == []

def tracked(root):
    if not (root/'.git').exists() or not shutil.which('git'): pytest.skip('not a git checkout')
    out = subprocess.run(['git', 'ls-files', '-z'], cwd=root, capture_output=True, text=True, check=True).stdout
    return [p for f in out.split('\0') if f and (p := root/f).is_file() and not p.is_symlink()]

def test_no_machine_paths(root):
    bad = []
    for p in tracked(root):
        try: lines = p.read_text(encoding='utf-8').splitlines()
        except UnicodeDecodeError: continue
        bad += [f'{p.relative_to(root)}:{i}: {m[0]}' for i,l in enumerate(lines, 1) if (m := MACHINE.search(l))]
    assert not bad, bad[:10]

def test_notebooks_are_saved_whole(notebooks):
    "Outputs are there for those who only read, and none is an error or a live widget that needs a kernel"
    for p in notebooks:
        code = [c for c in cells(p) if c['cell_type'] == 'code']
        outs = [o for c in code for o in c['outputs']]
        shows = [c for c in code if not re.match(r'#\|\s*export', ''.join(c['source']))
                 and re.search(r'^\s*(print|display|plot_\w+|html_\w+)\(', ''.join(c['source']), re.M)]
        assert outs or not shows, f'{p.name}: no output is saved: python tools/execute.py {p.name}'
        assert not [o for o in outs if o['output_type'] == 'error'], f'{p.name}: an error is saved'
        assert not [o for o in outs if set(o.get('data', {})) == {'application/vnd.jupyter.widget-view+json',
                                                                  'text/plain'}], f'{p.name}: a bare widget'

def debris(output):
    "What an output says that nobody meant to show: a bare number or object, stderr; else None"
    said = ''.join(output.get('data', {}).get('text/plain', '') or output.get('text', ''))
    if output.get('name') == 'stderr': return said
    alone = output['output_type'] == 'execute_result' and set(output['data']) == {'text/plain'}
    return said if alone and re.fullmatch(r'-?[\d.]+(e-?\d+)?|<.*( at 0x|object).*>', said.strip()) else None

def test_no_debris_in_outputs(notebooks):
    found = {(p.parent.name, p.name, c['id']): d for p in notebooks for c in cells(p) if c['cell_type'] == 'code'
             for o in c['outputs'] if (d := debris(o))}
    assert not found, found

@pytest.mark.parametrize('said, bad', [('272', True), ('-1.5', True), ('<object object>', True), ("'text'", False),
                                       ('Stats(rounds=2)', False), ('tensor([1.])', False)])
def test_debris_is_told_from_results(said, bad):
    assert bool(debris(dict(output_type='execute_result', data={'text/plain': said}))) == bad
    assert not debris(dict(output_type='stream', name='stdout', text=said)) and debris(dict(output_type='stream',
                                                                                            name='stderr', text=said))

def test_every_figure_is_saved(notebooks):
    "A cell that is labelled as a figure has a picture in its outputs"
    figures = {(p.parent.name, p.name, c['id']): c['outputs'] for p in notebooks for c in cells(p)
               if re.search(r'^#\| label: fig-', ''.join(c['source']), re.M)}
    def pictured(outputs):
        return any({'image/png', 'image/svg+xml', 'text/html'} & {*o.get('data', {})} for o in outputs)
    assert len(figures) > 20 and not [k for k, outputs in figures.items() if not pictured(outputs)]

def test_readme_is_the_index(root):
    r = subprocess.run([sys.executable, 'tools/mkreadme.py', '--check'], cwd=root, capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
