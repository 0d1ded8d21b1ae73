"""Run experiments again, into results/, and compare what they give with the committed data.

    python tools/experiments.py [NAME ...]        # names of nbs/experiments/*.ipynb; all when none is given

The pages are not changed. An experiment that was stopped goes on where it was: delete results/ to start anew. Counts are compared
within 4 standard errors (or 0.03), tokens a round within 10 %, speedups within 20 %: seconds depend on the machine and on what else it does."""
import csv, math, os, re, sys, time
from pathlib import Path
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[1]
PAGES, RESULTS = ROOT/'nbs/experiments', ROOT/'results'
RELATIVE = dict(tau=.1, speedup=.2, predicted=.2)
COUNTS = dict(alpha_hat='alpha_se', counted='counted_se', computed='computed_se', kept_frac=None)

def run(page):
    "Execute a page with its measuring cells, which write into results/"
    nb = nbformat.read(page, as_version=4)
    NotebookClient(nb, kernel_name='python3', timeout=None, resources={'metadata': {'path': str(page.parent)}}).execute()

def number(text):
    try: return float(text)
    except (TypeError, ValueError): return math.nan

def faults(old, new):
    "Where two tables of the same experiment differ by more than their spread"
    rows = [list(csv.DictReader(p.read_text(encoding='utf-8').splitlines())) for p in (old, new)]
    if len(rows[0]) != len(rows[1]): yield f'{len(rows[0])} rows are committed and {len(rows[1])} were measured'
    for i, (a, b) in enumerate(zip(*rows), 1):
        for k in a.keys() & b.keys():
            x, y = number(a[k]), number(b[k])
            if math.isnan(x + y): continue
            if k in RELATIVE and abs(x - y) > RELATIVE[k]*max(abs(x), abs(y)): yield f'row {i}, {k}: {x:.3f} committed, {y:.3f} measured'
            if k in COUNTS:
                spread = math.hypot(*(number(o.get(COUNTS[k])) for o in (a, b))) if COUNTS[k] else 0.
                if abs(x - y) > max(.03, 4*(0. if math.isnan(spread) else spread)): yield f'row {i}, {k}: {x:.3f} committed, {y:.3f} measured'

def main(names):
    os.environ.update(RESULTS=str(RESULTS), HF_HUB_OFFLINE=os.environ.get('HF_HUB_OFFLINE', '1'))
    RESULTS.mkdir(exist_ok=True)
    pages = [PAGES/f'{re.sub(r".ipynb$", "", n)}.ipynb' for n in names] or sorted(PAGES.glob('*.ipynb'))
    if missing := [p.stem for p in pages if not p.exists()]: sys.exit(f'no such experiment: {", ".join(missing)}; there are {", ".join(sorted(p.stem for p in PAGES.glob("*.ipynb")))}')
    bad = 0
    for page in pages:
        start = time.time(); run(page)
        tables = [p for p in sorted(PAGES.glob(f'{page.stem}*.csv')) if (RESULTS/p.name).exists()]
        found = [f for p in tables for f in faults(p, RESULTS/p.name)]
        print(f'{page.stem}: {time.time() - start:.0f} s, {len(tables)} table{"s"*(len(tables) != 1)}, ' + ('agrees' if not found else f'{len(found)} differences:'), flush=True)
        for f in found[:10]: print('   ', f)
        bad += bool(found)
    sys.exit(bad > 0)

if __name__ == '__main__': main(sys.argv[1:])
