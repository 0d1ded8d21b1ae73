"""Check that each numbered notebook imports only modules of lower-numbered ones: from the package, from its root, or
relatively; and that
each exported module does so too, as its file says.

    python tools/dag.py"""
import ast, json, re, sys
from pathlib import Path

def code_cells(path):
    return [''.join(c['source']) for c in json.loads(path.read_text(encoding='utf-8'))['cells']
            if c['cell_type'] == 'code']

def module(cells):
    return next((m[1] for s in cells if (m := re.search(r'^\s*#\s*\|\s*default_exp\s+(\w+)', s, re.M))), None)

def defined(cells):
    "Top-level names that the exported cells of a notebook define"
    for s in cells:
        if not re.match(r'\s*#\s*\|\s*export', s): continue
        for node in ast.parse(s).body:
            if hasattr(node, 'name'): yield node.name
            for t in getattr(node, 'targets', []): yield from (n.id for n in ast.walk(t) if isinstance(n, ast.Name))

def imported(code, lib):
    "The modules, or names of the root, that a cell takes from `lib`"
    try: tree = ast.parse(re.sub(r'^(\s*)[%!].*$', r'\1pass', code, flags=re.M))
    except SyntaxError: return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import): paths = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            # `from .low import x` in a module
            origin = '.'.join(filter(None, [lib if node.level else None, node.module]))
            paths = [f'{origin}.{a.name}' for a in node.names]
        else: continue
        yield from (p.split('.')[1] for p in paths if p.startswith(f'{lib}.'))

def faults(nbs, lib='specdec'):
    "One line for each import that points up"
    chapters = {p: code_cells(p) for p in sorted(nbs.glob('[0-9][0-9]_*.ipynb'))}
    number = {m: int(p.name[:2]) for p,cells in chapters.items() if (m := module(cells))}
    for p,cells in chapters.items(): number.update((n, int(p.name[:2])) for n in defined(cells) if n not in number)
    for p,cells in chapters.items():
        for name in sorted({n for s in cells for n in imported(s, lib)}):
            if number.get(name, -1) >= int(p.name[:2]):
                yield f'{p.name} imports {lib}.{name}, which belongs to chapter {number[name]:02}'
    yield from module_faults(nbs.parent/lib, number, lib)

def module_faults(folder, number, lib):
    "The same for the exported files, which a reader of the package sees"
    for p in sorted(folder.glob('[a-z]*.py')):
        for name in sorted({*imported(p.read_text(encoding='utf-8'), lib)}):
            if p.stem in number and number.get(name, -1) >= number[p.stem]:
                yield f'{p.name} imports {lib}.{name}, which belongs to chapter {number[name]:02}'

if __name__ == '__main__':
    bad = list(faults(Path(__file__).resolve().parents[1]/'nbs'))
    print(*bad, f'{len(bad)} imports point up', sep='\n')
    sys.exit(bool(bad))
