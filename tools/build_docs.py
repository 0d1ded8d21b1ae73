"""Build the docs site into `doc_path`: nbdev prepares the pages in _proc, then Quarto renders them where it is
installed, else smalldocs.

    python tools/build_docs.py [--smalldocs]        # --smalldocs: even where Quarto is installed"""
import ast, json, re, shutil, subprocess, sys, warnings
from pathlib import Path
import nbdev.processors
from nbdev.config import get_config
from nbdev.quarto import refresh_quarto_yml
from nbdev.serve import proc_nbs
import live_site

# as nbdev names it: 01_acceptance.ipynb -> acceptance.ipynb
def page(name): return re.sub(r'^\d+[a-zA-Z0-9]*_', '', name)

def unnested(text):
    "A name in the text of a link is linked by nbdev once more: the inner link goes"
    return re.sub(r'\[((?:[^\[\]]|\[`[^`\n]+`\]\([^)\s]*\))*)\]\(',
                  lambda m: '[' + re.sub(r'\[(`[^`\n]+`)\]\([^)\s]*\)', r'\1', m[1]) + '](', text)

def shown(lib):
    "Where the API entries are: module -> the names that have one, as anchors"
    trees = {p.stem: ast.parse(p.read_text(encoding='utf-8')).body for p in lib.glob('[a-z]*.py')}
    public = {m: [n.value for n in body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == '__all__']
              for m, body in trees.items()}
    return {m: {name.lower() for value in values for name in ast.literal_eval(value)} for m, values in public.items()}

def linked_if_shown(text, entries):
    "nbdev links every name that it knows, private ones and methods too: a link to what has no entry goes"
    def link(m): return m[0] if m[3].lower() in entries.get(m[2], {m[3].lower()}) else m[1]
    return re.sub(r'\[(`[^`\n]+`)\]\([^)\s]*?(\w+)(?:\.html)?#([\w.]+)\)', link, text)

def plain_code(proc):
    "Take back the links that nbdev sets inside of code and of other links, where nothing renders them"
    def plain(fence): return re.sub(r'\[(`[^`\n]+`)\]\([^)\s]*\)', r'\1', fence[0])
    entries = shown(get_config().lib_path)
    for p in proc.rglob('*.ipynb'):
        nb = json.loads(p.read_text(encoding='utf-8'))
        for c in nb['cells']:
            if c['cell_type'] == 'markdown': c['source'] = linked_if_shown(unnested(''.join(c['source'])), entries)
        for o in (o['data'] for c in nb['cells'] for o in c.get('outputs', []) if 'text/markdown' in o.get('data', {})):
            text = re.sub(r'^```.*?^```', plain, ''.join(o['text/markdown']), flags=re.M | re.S)
            o['text/markdown'] = linked_if_shown(text, entries)
        p.write_text(json.dumps(nb), encoding='utf-8')

def localise(proc, base):
    "Do for smalldocs what Quarto does with `output-file`: pages without their number, links to our own site relative"
    names = {p.name: page(p.name) for p in proc.rglob('*.ipynb')}
    def links(s):
        return re.sub(r'(\]\((?:[^)\s:]*/)?)([\w-]+\.ipynb)', lambda m: m[1] + names.get(m[2], m[2]),
                      s.replace(f']({base}', '](/'))
    for p in sorted(proc.rglob('*.ipynb')):
        nb = json.loads(p.read_text(encoding='utf-8'))
        nb['metadata'].pop('widgets', None)
        for c in nb['cells']:
            src = ''.join(c['source'])
            if c['cell_type'] == 'markdown': src = links(src)
            elif c['cell_type'] == 'raw': src = re.sub(r'^output-file:.*\n', '', src, flags=re.M)
            c['source'] = src
            for o in c.get('outputs', []):
                if 'text/markdown' in o.get('data', {}):
                    o['data']['text/markdown'] = links(''.join(o['data']['text/markdown']))
        p.unlink()
        p.with_name(names[p.name]).write_text(json.dumps(nb), encoding='utf-8')
    yml = proc/'_quarto.yml'
    yml.write_text(re.sub(r'[\w-]+\.ipynb', lambda m: names.get(m[0], m[0]), yml.read_text(encoding='utf-8')),
                   encoding='utf-8')

EXPORTED = {'export', 'exports', 'exporti'}

def only_imports(source):
    "Does a cell hold imports and nothing else?"
    try: tree = ast.parse(source)
    except SyntaxError: return False
    return bool(tree.body) and all(isinstance(o, (ast.Import, ast.ImportFrom)) for o in tree.body)

def fold_source(cell):
    "What is exported is folded; imports, which a reader needs to run a page, are open"
    if cell.cell_type != 'code' or not cell.directives_.keys() & EXPORTED or only_imports(cell.source): return
    cell.source = f'#| code-fold: true\n#| code-summary: "Source"\n{cell.source}'

class after_docs(nbdev.processors.Processor):
    "An exported cell stands after the entries of what it defines"
    def begin(self):
        cells = self.nb.cells
        for cell in [c for c in cells if c.cell_type == 'code' and c.directives_.keys() & EXPORTED]:
            at = next(i for i, c in enumerate(cells) if c is cell)
            end = at + 1
            while end < len(cells) and getattr(cells[end], 'has_sd', 0): end += 1
            cells[at:end] = [*cells[at + 1:end], cell]

def show_source():
    "Pages with all exported source, folded: nbdev would drop what is exported without an entry, imports too"
    nbdev.processors._hide_dirs = {'hide', 'default_exp'}
    nbdev.processors.add_fold, nbdev.processors.mv_exports = fold_source, after_docs

def classes_as_classes(proc):
    "The entry of a class says `class`, and nothing of arguments that it does not take"
    for p in proc.rglob('*.ipynb'):
        nb = json.loads(p.read_text(encoding='utf-8'))
        known = set(re.findall(r'^class (\w+)',
                               '\n'.join(''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'code'), re.M))
        for c in nb['cells']:
            shown = re.search(r'^show_doc\((\w+)\)', ''.join(c['source']), re.M)
            if not shown or shown[1] not in known: continue
            for o in c.get('outputs', []):
                text = ''.join(o.get('data', {}).get('text/markdown', ''))
                text = re.sub(rf'^def {shown[1]}\(\s*\*args, \*\*kwargs\s*\):', f'class {shown[1]}:', text, flags=re.M)
                if text:
                    o['data']['text/markdown'] = re.sub(rf'^def {shown[1]}\(', f'class {shown[1]}(', text, flags=re.M)
        p.write_text(json.dumps(nb), encoding='utf-8')

KATEX = Path(__file__).parent/'katex'
REMOTE = re.compile(r'https://cdn\.jsdelivr\.net/npm/katex@[\d.]+/dist/(?:contrib/)?')

def offline(site):
    "Pages ask for nothing from outside: KaTeX stands beside them, so that formulas are typeset without a network"
    shutil.copytree(KATEX, site/'site_libs'/'katex', dirs_exist_ok=True)
    for page in site.rglob('*.html'):
        text = page.read_text(encoding='utf-8')
        up = '../'*(len(page.relative_to(site).parts) - 1)
        page.write_text(REMOTE.sub(f'{up}site_libs/katex/', text), encoding='utf-8')
    for style in site.rglob('*.css'): # fonts of the theme come from outside too; the system's do
        text = style.read_text(encoding='utf-8')
        found = re.sub(r'@import url\(["\']?https?:[^)]*\);?', '', text)
        if found != text: style.write_text(found, encoding='utf-8')

def build(quarto=None):
    "Render every notebook; the old site is replaced only when the new one is whole"
    cfg = get_config(); proc = cfg.config_path/'_proc'
    shutil.rmtree(proc, ignore_errors=True)
    refresh_quarto_yml()
    # of docstrings that come from matplotlib
    warnings.filterwarnings('ignore', message='Unknown section')
    show_source()
    proc_nbs(cfg.nbs_path, force=True, n_workers=0)
    plain_code(proc)
    classes_as_classes(proc)
    if quarto: cmd = [quarto, 'render', str(proc), '--no-cache', '-M', 'html-math-method:katex']
    else:
        localise(proc, f"{cfg.doc_host}{cfg.doc_baseurl}".rstrip('/') + '/')
        cmd = [sys.executable, '-m', 'smalldocs.cli', 'render', str(proc), '--strict']
    subprocess.run(cmd, check=True)
    offline(proc/cfg.doc_path.name)
    print(live_site.add(proc/cfg.doc_path.name)) # the pair in the browser
    shutil.rmtree(cfg.doc_path, ignore_errors=True)
    shutil.move(proc/cfg.doc_path.name, cfg.doc_path)
    return cfg.doc_path

if __name__ == '__main__':
    try: site = build(None if '--smalldocs' in sys.argv else shutil.which('quarto'))
    except subprocess.CalledProcessError as e:
        sys.exit(f'the docs were not built: {Path(e.cmd[0]).name} ended with {e.returncode}')
    print(f'{len(list(site.rglob("*.html")))} pages in {site.name}/')
