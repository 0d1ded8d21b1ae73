"Small faults put into a copy of the package: does the check that is named for a trap notice?"
import json, os, re, shutil, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SKIP = r'^\s*#\s*\|\s*(eval:\s*false|slow|net|train|cuda)\b'
CELLS = '''
import json, re, sys
from execnb.shell import CaptureShell
book, name, skip = sys.argv[1:]
shell = CaptureShell(book)
for cell in json.loads(open(book, encoding='utf-8').read())['cells']:
    source = ''.join(cell['source'])
    if cell['cell_type'] != 'code' or re.search(skip, source, re.M): continue
    shell.run(source)
    if cell['id'] == name: print('RAISED', type(shell.exc).__name__ if shell.exc else None); break
'''
# nothing noticed, or nothing was tried
BROKEN = {'None', 'NameError', 'ImportError', 'ModuleNotFoundError', 'SyntaxError'}

def copy(dest):
    "Package, notebooks and tests; what is large or not changed is linked"
    for name in ('specdec', 'nbs', 'tests'):
        shutil.copytree(ROOT/name, dest/name, ignore=shutil.ignore_patterns('__pycache__', 'data'))
    for name in ('specdec/data', 'settings.ini', 'tools', 'configs'): (dest/name).symlink_to(ROOT/name)
    return dest

def mutate(place, old, new):
    "In the copy: the one line of a module that reads `old` reads `new`, and so does its notebook"
    found = [p for p in (place/'specdec').glob('*.py') if old in p.read_text(encoding='utf-8')]
    assert len(found) == 1, f'{old!r} is in {[p.name for p in found]}: a mutant needs one place'
    text = found[0].read_text(encoding='utf-8')
    assert text.count(old) == 1, f'{old!r} is {text.count(old)} times in {found[0].name}'
    found[0].write_text(text.replace(old, new), encoding='utf-8')
    book = next((place/'nbs').glob(f'*_{found[0].stem}.ipynb'))
    nb = json.loads(book.read_text(encoding='utf-8'))
    for c in nb['cells']:
        source = ''.join(c['source'])
        if c['cell_type'] == 'code' and re.match(r'#\|\s*export', source): c['source'] = source.replace(old, new)
    book.write_text(json.dumps(nb), encoding='utf-8')

def run(place, folder, *cmd):
    "A Python command with the copy as the package"
    env = {**os.environ, 'PYTHONPATH': str(place), 'HF_HUB_OFFLINE': '1', 'MPLBACKEND': 'Agg', 'OMP_NUM_THREADS': '1'}
    return subprocess.run([sys.executable, *map(str, cmd)], cwd=place/folder, capture_output=True, text=True,
                          timeout=600, env=env)

def notices(place, check):
    "Does `check` (a test, or a cell of a notebook) fail in the copy, by a verdict of its own? And what it said"
    if '::' in check:
        file, function = check.split('::')
        r = run(place, '.', '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider', f'tests/{file}.py', '-k', function)
        last = (r.stdout.splitlines() or [''])[-1]
        return r.returncode == 1 and ' failed' in last and not re.search(r' errors?\b', last), r.stdout[-1500:]
    name, cell = check.split('#')
    book = next(b for b in (place/'nbs').rglob('*.ipynb') if re.sub(r'^\d+_', '', b.stem) == name)
    r = run(place, book.parent.relative_to(place), '-c', CELLS, book.name, cell, SKIP)
    raised = re.search(r'^RAISED (\w+)$', r.stdout, re.M)
    return bool(raised) and raised[1] not in BROKEN, r.stdout[-1500:] + r.stderr[-500:]
