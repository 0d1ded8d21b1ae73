"""Core checks against the versions that people have: an environment for each Python and torch, in it one transformers after another, and a table at the end.

    python tests/versions/run.py                                                    # all of them: an hour and more, and up to 6 GB at a time where torch comes with CUDA
    python tests/versions/run.py --python 3.11 --torch 2.6 --transformers 5.0 newest
    python tests/versions/run.py --record tests/versions/results.csv                # and keep the outcomes, which the page inside transformers shows
    python tests/versions/run.py --python 3.11 --torch 2.6 --transformers 5.0 --lowest       # every other requirement as old as settings.ini allows

Needs the network: exit code 3 if that alone was missing, 1 if anything failed. pip takes its index from its own configuration; point it at a CPU
build of torch where the default brings gigabytes."""
import argparse, csv, os, re, shutil, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHONS, TORCHES, TRANSFORMERS = ('3.10', '3.11', '3.12', '3.13'), ('2.6', 'newest'), ('5.0', '5.4', '5.12', '5.17', 'newest')
COLUMNS = 'python', 'torch', 'transformers', 'outcome'
CUT_OFF = 'NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|Network is unreachable'
NO_NETWORK = 'not tried: the package index gave no answer'

def run(*cmd, **kw): return subprocess.run([*map(str, cmd)], capture_output=True, text=True, **kw)

def interpreter(version):
    "The path of Python `version`, or None where there is none; those that pyenv keeps are found as well"
    kept = Path(os.environ.get('PYENV_ROOT') or Path.home()/'.pyenv')/'versions'
    for name in (f'python{version}', 'python3', sys.executable, *kept.glob(f'{version}.*/bin/python')):
        path = shutil.which(name)
        if path and run(path, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])').stdout.strip() == version: return path

def pip(python, *args):
    "Run pip, and say in one line why it did not work (None: it did)"
    done = run(python, '-m', 'pip', '--disable-pip-version-check', '--retries', 2, *args)
    if not done.returncode: return None
    errors = [l for l in done.stderr.splitlines() if l.startswith('ERROR')] or ['ERROR: pip failed']
    gave_up = re.search(r'from versions: none|Max retries|No matching distribution', '\n'.join(errors))
    return NO_NETWORK if gave_up and re.search(CUT_OFF, done.stdout + done.stderr) else errors[-1]

def build_wheel(out):
    "The package as a user gets it, built from a copy; an error in one line, or None"
    with tempfile.TemporaryDirectory() as src:
        shutil.copytree(ROOT/'specdec', f'{src}/specdec', ignore=shutil.ignore_patterns('__pycache__'))
        for n in 'settings.ini setup.py MANIFEST.in README.md LICENSE CHANGELOG.md constraints.txt'.split(): shutil.copy(ROOT/n, src)
        return pip(sys.executable, 'wheel', '--no-deps', '-w', out, src)

def wanted(name, version): return name if version == 'newest' else f'{name}=={version}' + ('' if version.count('.') > 1 else '.*')

def oldest(requirements):
    "Pins of the lowest version that each requirement allows, but for torch and transformers, which are given"
    return [re.sub(r'>=([\d.]+)$', r'==\1.*', r) for r in requirements.split() if not re.match('(torch|transformers)\\b', r)]

def settings(): return re.search(r'^requirements\s*=(.*)', (ROOT/'settings.ini').read_text(encoding='utf-8'), re.M)[1]

def check(python, cwd):
    "Run the core checks: the versions that were at work, and what failed"
    out = run(python, HERE/'core_checks.py', cwd=cwd, env={**os.environ, 'PYTHONPATH': '', 'OMP_NUM_THREADS': '1'})
    print(out.stdout, end='', flush=True)
    head = re.search(r'^Python (\S+)  torch (\S+)  transformers (\S+)$', out.stdout, re.M)
    if not head: return ('?', '?', '?'), 'FAIL: ' + (out.stderr.strip().splitlines() or ['nothing said'])[-1]
    passed, failed = (re.findall(rf'^{word} +(\w+)', out.stdout, re.M) for word in ('ok', 'FAIL'))
    return head.groups(), f'{len(passed)} ok' if passed and not out.returncode else f'FAIL: {", ".join(failed) or "stopped"}'

def outcomes(pythons, torches, transformers, pins=()):
    "One row after another: versions, and 'N ok' or what was in the way"
    with tempfile.TemporaryDirectory() as work:
        error = build_wheel(work)
        for version in pythons:
            python = interpreter(version)
            for torch in torches:
                mine = Path(work)/'env'/('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
                if python and not error: subprocess.run([python, '-m', 'venv', '--clear', Path(work)/'env'], check=True)
                for t in transformers:
                    wrong = error or (pip(mine, 'install', '--no-compile', '--upgrade', next(Path(work).glob('*.whl')), wanted('torch', torch), wanted('transformers', t), *pins) if python else 'no such Python here')
                    yield ((version, torch, t), wrong) if wrong else check(mine, work)

def passed(verdict): return bool(re.fullmatch(r'\d+ ok', verdict))

def record(path, rows):
    "Write `rows` that ran into the CSV file, in place of earlier ones of the same versions"
    old = {tuple(r[k] for k in COLUMNS[:3]): r['outcome'] for r in csv.DictReader(path.open(encoding='utf-8'))} if path.exists() else {}
    new = old | {v: verdict for v, verdict in rows if passed(verdict) or verdict.startswith('FAIL')}
    def by_number(v): return [tuple(map(int, re.findall(r'\d+', o))) for o in v]
    with path.open('w', encoding='utf-8', newline='') as f:
        csv.writer(f, lineterminator='\n').writerows([COLUMNS, *((*v, new[v]) for v in sorted(new, key=by_number))])

def main():
    "Build the environments, run the checks, print the table"
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (('python', PYTHONS), ('torch', TORCHES), ('transformers', TRANSFORMERS)): ap.add_argument(f'--{name}', nargs='+', default=default)
    ap.add_argument('--record', type=Path, metavar='FILE')
    ap.add_argument('--lowest', action='store_true')
    args, rows = ap.parse_args(), []
    for row in outcomes(args.python, args.torch, args.transformers, oldest(settings()) if args.lowest else ()):
        rows.append(row)
        if args.record: record(args.record, rows)
    print('\n| Python | torch | transformers | core checks |\n| --- | --- | --- | --- |')
    for versions, verdict in rows: print('| ' + ' | '.join([*versions, verdict]) + ' |')
    bad = {verdict for _, verdict in rows if not passed(verdict)}
    return 3 if bad == {NO_NETWORK} else bool(bad)

if __name__ == '__main__': sys.exit(main())
