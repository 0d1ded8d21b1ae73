"""Run notebooks in place and save outputs that change only when the code does; the result is already nbdev_clean.

    python tools/execute.py nbs/01_acceptance.ipynb ...            # named notebooks; all of them when none is named
    python tools/execute.py --flags train nbs/tutorials/train_tiny_pair.ipynb

Cells with a flag of `tst_flags` (settings.ini) or `#| eval: false` are not run and keep the outputs they have, unless
--flags
names the flag. A failing notebook is left as it was. Warnings and progress bars (stderr) are shown here, not saved."""
import argparse, os, re, sys, time
from pathlib import Path
import nbformat
from execnb.nbio import read_nb, write_nb
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbdev.clean import clean_nb
from nbdev.config import get_config
from nbdev.doclinks import nbglob

VIEW = 'application/vnd.jupyter.widget-view+json'
SETUP = '''import matplotlib as m, matplotlib_inline.backend_inline
m.rcParams['svg.hashsalt'] = 'specdec'
m.rcParams['figure.dpi'] = 100'''

class Client(NotebookClient):
    "Skip the cells that match `skip`; keep widget state out of the notebook"
    def __init__(self, nb, skip, **kw): super().__init__(nb, **kw); self.skip = skip
    def set_widgets_metadata(self): pass
    async def async_execute_cell(self, cell, *args, **kw):
        if cell.cell_type == 'code' and self.skip.search(cell.source): return cell
        return await super().async_execute_cell(cell, *args, **kw)
    async def async_start_new_kernel_client(self):
        kc = await super().async_start_new_kernel_client()
        kc.execute(SETUP, silent=True, store_history=False)
        return kc

def settle(outputs, root):
    "Drop what is no result (stderr, live widget models, a widget's bare repr) and the path of this checkout"
    keep = []
    for o in outputs:
        if o.get('name') == 'stderr': sys.stderr.write(o.text); continue
        data = o.get('data', {})
        if data.pop(VIEW, None) and not set(data) - {'text/plain'}: continue
        if 'text' in o: o.text = o.text.replace(root, '')
        data.update({k: v.replace(root, '') for k,v in data.items() if k.startswith('text/') and isinstance(v, str)})
        keep.append(o)
    return keep

def execute(path, flags=()):
    "Run one notebook as its reader would, from its own folder, and write it back"
    cfg, start = get_config(), time.time()
    words = '|'.join(set(cfg.tst_flags.split()) - set(flags))
    skip = re.compile(rf'^\s*#\s*\|\s*(eval:\s*false|({words})\s*$)', re.M)
    nb = nbformat.read(path, as_version=4)
    Client(nb, skip, kernel_name='python3', timeout=None if flags else 600, coalesce_streams=True,
           resources={'metadata': {'path': str(path.parent)}}).execute()
    for c in nb.cells:
        if c.cell_type == 'code': c.outputs = settle(c.outputs, f'{cfg.config_path}/')
    nbformat.write(nb, path)
    nb = read_nb(path); clean_nb(nb); write_nb(nb, path)
    print(f'{path.name}: {time.time()-start:.1f} s, {path.stat().st_size//1000} kB', flush=True)

def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('paths', nargs='*', type=Path)
    p.add_argument('--flags', default='', help='space-separated flags whose cells run too')
    args = p.parse_args()
    if 'net' not in args.flags.split(): os.environ.setdefault('HF_HUB_OFFLINE', '1')
    os.environ.pop('MPLBACKEND', None)                        # the kernel's own: with any other no figure is saved
    failed = []
    for path in args.paths or sorted(nbglob(as_path=True)):
        try: execute(path, args.flags.split())
        except CellExecutionError as e:
            failed.append(path.name); print(f'{path}: FAILED, not saved\n{e}', file=sys.stderr)
    if failed: sys.exit(f'{len(failed)} failed: ' + ', '.join(failed))

if __name__ == '__main__': main()
