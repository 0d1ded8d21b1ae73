"""Run experiments again, into results/, and compare what they give with the committed data.

    python tools/experiments.py [NAME ...]        # names of nbs/experiments/*.ipynb; all when none is given

The pages are not changed. An experiment that was stopped goes on where it was: delete results/ to start anew. At the
end stands a table
of agreement. Rows are *same* when all their numbers but times are equal; *within* when acceptance and tokens a round
lie at most 4 standard
errors (or 0.01) apart, numbers of near-ties 4 square roots of their sum, and speedups a factor of 1.5; else *apart*.
Seconds, rates and
prices are not compared. cpu_speed, block_vs_token, controllers and theory_misses read the clock: they want the
machine for themselves."""
import csv, os, re, sys, time
from math import hypot, inf, isclose, sqrt
from pathlib import Path
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[1]
PAGES, RESULTS = ROOT/'nbs/experiments', ROOT/'results'
# what a row is about
POINT = ('pair target draft drafter domain dtype weights bits method prompt group temperature top_k top_p order '
         'gamma rule run runs width rows context').split()
# what a clock said
CLOCK = re.compile(r'second|_us$|_ms$|_share$|^share_|^read_gb_s$|baseline|speculative|hf_|speedup|predicted|^[cv]$')
ERRORS = dict(alpha_hat='alpha_se', counted='counted_se', computed='computed_se')
EXACT, SPEEDUPS, FACTOR = ('bytes', 'bytes_half', 'texts', 'fault'), ('speedup', 'predicted'), 1.5

def run(page):
    "Execute a page with its measuring cells, which write into results/; what these print"
    nb = nbformat.read(page, as_version=4)
    NotebookClient(nb, kernel_name='python3', timeout=None,
                   resources={'metadata': {'path': str(page.parent)}}).execute()
    return ''.join(o.text for c in nb.cells if '#| slow' in c.source for o in c.outputs if o.get('name') == 'stdout')

def number(text):
    try: return float(text)
    except (TypeError, ValueError): return text

def table(path):
    "Point -> the rest of its row"
    rows = [{k: number(v) for k, v in r.items()} for r in csv.DictReader(path.read_text(encoding='utf-8').splitlines())]
    return {tuple(r[k] for k in POINT if k in r): r for r in rows}

def estimates(r):
    "What was estimated in a row: name -> value, standard error"
    if 'kept' in r and 'alpha_hat' not in r and r['tested']:
        r = dict(r, alpha_hat=(a := r['kept']/r['tested']), alpha_se=sqrt(a*(1 - a)/r['tested']))
    out = {k: (r[k], r[se]) for k, se in ERRORS.items() if k in r}
    if 'tie' in r: out['tie'] = r['tie'], sqrt(r['tie'])
    if 'tau' in r and 'alpha_hat' in out:
        a, se = out['alpha_hat']
        rounds = r.get('rounds') or a * a*(1 - a)/se**2 / (r['tau'] - 1) if se else inf
        # the variance of a geometric number: the largest it can be
        out['tau'] = r['tau'], sqrt(r['tau']*(r['tau'] - 1)/rounds)
    return out

def verdict(a, b):
    "Two rows of one point: (same, within or apart, what is apart)"
    equal = all(isclose(a[k], b.get(k, inf), rel_tol=1e-9) if isinstance(a[k], float) and isinstance(b.get(k), float)
                else a[k] == b.get(k) for k in a if not CLOCK.search(k))
    x, y = estimates(a), estimates(b)
    apart = [f'{k} {x[k][0]:.3f} committed, {y[k][0]:.3f} measured' for k in x if k in y
             and abs(x[k][0] - y[k][0]) > max(.01, 4*hypot(x[k][1], y[k][1]))]
    apart += [f'{k} in one of the two only' for k in sorted(x.keys() ^ y.keys())]
    apart += [f'{k} {a[k]:g} committed, {b[k]:g} measured' for k in EXACT if k in a and a[k] != b[k]]
    apart += [f'{k} {a[k]:.2f} committed, {b[k]:.2f} measured' for k in SPEEDUPS if k in a
              and not 1/FACTOR <= b[k]/a[k] <= FACTOR]
    return 'apart' if apart else 'same' if equal else 'within', apart

def compare(name):
    "One line of the table of agreement, and a line for each row that is apart"
    if not (RESULTS/name).exists(): return f'{name:32} not measured here', []
    old, new = table(PAGES/name), table(RESULTS/name)
    got = {p: verdict(r, new[p]) if p in new else ('missing', ['not measured']) for p, r in old.items()}
    if not any(estimates(r) for r in old.values()): return f'{name:32} {len(old):5}   times only, not compared', []
    counts = [sum(v == kind for v, _ in got.values()) for kind in ('same', 'within', 'apart', 'missing')]
    return f'{name:32} {len(old):5}' + ''.join(f'{c:9}'
                                               for c in counts), [f'    {", ".join(map(str, p))}: {"; ".join(why)}'
                                                                  for p, (_, why) in got.items() if why]

def main(names):
    os.environ.update(RESULTS=str(RESULTS), HF_HUB_OFFLINE=os.environ.get('HF_HUB_OFFLINE', '1'))
    RESULTS.mkdir(exist_ok=True)
    pages = [PAGES/f'{re.sub(r".ipynb$", "", n)}.ipynb' for n in names] or sorted(PAGES.glob('*.ipynb'))
    if missing := [p.stem for p in pages if not p.exists()]:
        sys.exit(f'no such experiment: {", ".join(missing)}; there are '
                 f'{", ".join(sorted(p.stem for p in PAGES.glob("*.ipynb")))}')
    failed, start = [], time.time()
    for page in pages:
        begin = time.time()
        try: said, end = run(page), ''
        except CellExecutionError as e:
            said, end = str(e).strip().splitlines()[-1] + '\n', ', FAILED'; failed.append(page.stem)
        print(f'{page.stem}: {time.time() - begin:.0f} s{end}\n{said}', end='', flush=True)
    print(f'\n{"table":32} {"rows":>5}' + ''.join(f'{o:>9}' for o in ('same', 'within', 'apart', 'missing')))
    found = [compare(p.name) for page in pages for p in sorted(PAGES.glob(f'{page.stem}*.csv'))]
    for line, why in found: print(line, *why, sep='\n')
    print(f'{time.time() - start:.0f} s in all' + (f'; failed: {", ".join(failed)}' if failed else ''))
    sys.exit(bool(failed) or any(why for _, why in found))

if __name__ == '__main__': main(sys.argv[1:])
