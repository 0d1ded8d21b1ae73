"""The live page's files beside a built site: both models, the tokenizer, and two packages of npm of fixed versions.

    python tools/live_site.py SITE        # SITE/live, and the buttons of the pages that have one

What was fetched and exported is kept in build/live for the next time. Without npm or onnx the pages show a recorded
run instead, and say so."""
import hashlib, importlib.util, json, re, shutil, subprocess, sys, tarfile, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT/'specdec'/'data'
PACKAGES = { # npm's names and versions -> files to copy
    'onnxruntime-web@1.30.0': ['dist/ort.wasm.bundle.min.mjs', 'dist/ort-wasm-simd-threaded.mjs',
                               'dist/ort-wasm-simd-threaded.wasm'],
    '@huggingface/tokenizers@0.2.0': ['dist/tokenizers.min.mjs']}
LOADED = ['ort-wasm-simd-threaded.wasm', 'target.onnx', 'draft.onnx', 'tokenizer.json', 'tokenizer_config.json']

class Missing(Exception):
    "Something that the live page needs is not to be had here"

def packed(package:str, folder:Path)->None:
    "The files of `package` that are needed, in `folder`"
    npm = shutil.which('npm')
    if not npm: raise Missing('npm is not installed')
    with tempfile.TemporaryDirectory() as d:
        done = subprocess.run([npm, 'pack', '--silent', package], cwd=d, capture_output=True, text=True)
        found = [*Path(d).glob('*.tgz')]
        if done.returncode or not found: raise Missing(f'npm gave no {package}')
        with tarfile.open(found[0]) as tar:
            for name in PACKAGES[package]:
                (folder/Path(name).name).write_bytes(tar.extractfile(f'package/{name}').read())

def recipe()->str:
    "Changes when the weights, the export or a version does"
    parts = [*sorted(DATA.glob('tiny/*/*')), ROOT/'tools'/'live_export.py']
    return hashlib.sha256(b''.join(p.read_bytes() for p in parts) + repr(PACKAGES).encode()).hexdigest()[:16]

def made(folder:Path)->None:
    "Fetch the packages and export the models"
    if absent := [o for o in ('onnx', 'onnxscript') if not importlib.util.find_spec(o)]:
        raise Missing(f'{" and ".join(absent)} not installed')
    for package in PACKAGES: packed(package, folder)
    done = subprocess.run([sys.executable, ROOT/'tools'/'live_export.py', folder], capture_output=True, text=True)
    if done.returncode: raise SystemExit(done.stderr)
    for name in ('tokenizer.json', 'tokenizer_config.json'): shutil.copy(DATA/'tiny'/'target'/name, folder)

def shape(name:str)->dict:
    "The shape of a model's past"
    c = json.loads((DATA/'tiny'/name/'config.json').read_text())
    return dict(layers=c['n_layer'], heads=c['n_head'], size=c['n_embd']//c['n_head'], context=c['n_positions'])

def kept()->Path:
    "Where the files lie, made when they are not there"
    folder = ROOT/'build'/'live'/recipe()
    if folder.is_dir(): return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as d:
        (Path(d)/'live').mkdir()
        made(Path(d)/'live')
        try: shutil.copytree(Path(d)/'live', folder)
        except FileExistsError: pass # another build was faster
    return folder

def files(site:Path)->int: # bytes that a reader loads
    "SITE/live with all that the page needs"
    live = site/'live'
    shutil.copytree(kept(), live, dirs_exist_ok=True)
    for script in (DATA/'live').glob('*.js'): shutil.copy(script, live)
    total = sum((live/o).stat().st_size for o in LOADED)
    given = dict(bytes=total, target=shape('target'), draft=shape('draft'))
    (live/'files.json').write_text(json.dumps(given), encoding='utf-8')
    return total

def buttons(site:Path, total:int)->int: # pages
    "Say to the pages with a live run how much there is to load"
    n = 0
    for page in site.rglob('*.html'):
        text = page.read_text(encoding='utf-8')
        told = re.sub(r'data-mb="\d*"', f'data-mb="{round(total/1e6)}"', text)
        if told == text: continue
        page.write_text(told, encoding='utf-8')
        n += 1
    return n

def add(site:Path)->str:
    "All of it; says in a line what was done"
    try: total = files(site)
    except Missing as e: return f'live: {e}; the pages show a recorded run instead'
    return f'live: {total/1e6:.0f} MB beside the site, for {buttons(site, total)} pages'

if __name__ == '__main__': print(add(Path(sys.argv[1])))
