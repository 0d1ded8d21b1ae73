"""Core checks against the versions that people have: an environment for each Python and torch, in it one transformers after another, and a table at the end.

    python tests/versions/run.py                                                          # all of them: about an hour, 6 GB where torch comes with CUDA
    python tests/versions/run.py --python 3.11 --torch newest --transformers 5.0 newest   # what CI runs

Needs the network. pip takes its index from its own configuration; point it at a CPU build of torch where the default brings gigabytes."""
import argparse, os, re, shutil, subprocess, sys, tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHONS, TORCHES, TRANSFORMERS = ('3.10', '3.11', '3.12', '3.13'), ('2.6', 'newest'), ('5.0', '5.4', '5.12', '5.17', 'newest')

def run(*cmd, **kw): return subprocess.run([*map(str, cmd)], capture_output=True, text=True, **kw)

def interpreter(version):
    "The path of Python `version`, or None where there is none"
    for name in (f'python{version}', 'python3', sys.executable):
        path = shutil.which(name)
        if path and run(path, '-c', 'import sys; print("%d.%d" % sys.version_info[:2])').stdout.strip() == version: return path

def build_wheel(out):
    "The package as a user gets it, built from a copy"
    with tempfile.TemporaryDirectory() as src:
        shutil.copytree(ROOT/'specdec', f'{src}/specdec', ignore=shutil.ignore_patterns('__pycache__'))
        for n in 'settings.ini setup.py MANIFEST.in README.md LICENSE CHANGELOG.md constraints.txt'.split(): shutil.copy(ROOT/n, src)
        done = run(sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-deps', '-w', out, src)
    if done.returncode: sys.exit(f'the wheel cannot be built: {done.stderr.strip()[-500:]}')
    return next(Path(out).glob('*.whl'))

def wanted(name, version): return name if version == 'newest' else f'{name}=={version}' + ('' if version.count('.') > 1 else '.*')

def install(python, *what):
    "Install, and say in one line why it did not work (None: it did)"
    done = run(python, '-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--upgrade', *what)
    errors = [l for l in done.stderr.splitlines() if 'ERROR' in l]
    return (errors or ['ERROR: pip failed'])[-1] if done.returncode else None

def check(python, cwd):
    "Run the core checks: versions, and what failed"
    out = run(python, HERE/'core_checks.py', cwd=cwd, env={**os.environ, 'PYTHONPATH': '', 'OMP_NUM_THREADS': '1'})
    print(out.stdout, end='', flush=True)
    head = re.search(r'^Python (\S+)  torch (\S+)  transformers (\S+)$', out.stdout, re.M)
    if not head: return ('?', '?', '?'), 'FAIL: ' + (out.stderr.strip().splitlines() or ['nothing said'])[-1]
    passed, failed = (re.findall(rf'^{word} +(\w+)', out.stdout, re.M) for word in ('ok', 'FAIL'))
    return head.groups(), f'{len(passed)} ok' if passed and not out.returncode else f'FAIL: {", ".join(failed) or "stopped"}'

def main():
    "Build the environments, run the checks, print the table; exit code 1 unless all passed"
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (('python', PYTHONS), ('torch', TORCHES), ('transformers', TRANSFORMERS)): ap.add_argument(f'--{name}', nargs='+', default=default)
    args, rows = ap.parse_args(), []
    with tempfile.TemporaryDirectory() as work:
        wheel = build_wheel(work)
        for version in args.python:
            python = interpreter(version)
            if not python: rows.append(((version, '-', '-'), 'no such Python here')); continue
            for torch in args.torch:
                env = Path(work)/'env'
                subprocess.run([python, '-m', 'venv', '--clear', env], check=True)
                mine = env/('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
                for transformers in args.transformers:
                    error = install(mine, wheel, wanted('torch', torch), wanted('transformers', transformers))
                    rows.append(((version, torch, transformers), error) if error else check(mine, work))
    print('\n| Python | torch | transformers | core checks |\n| --- | --- | --- | --- |')
    for versions, verdict in rows: print('| ' + ' | '.join([*versions, verdict]) + ' |')
    return not all(re.fullmatch(r'\d+ ok', verdict) for _, verdict in rows)

if __name__ == '__main__': sys.exit(main())
