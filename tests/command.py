"The command `specdec`: in a process of its own, as a user meets it, or in this one, which saves the seconds of importing torch."
import os, subprocess, sys
from pathlib import Path
import pytest
from specdec import cli

EXE = Path(sys.executable).with_name('specdec')

def process(*args, cwd=None, **env):
    "In a process of its own"
    cmd = [EXE, *map(str, args)]
    return subprocess.run(cmd, cwd=cwd, capture_output=True, text=True, timeout=300,
                          env={**os.environ, 'COLUMNS': '100', **env})

def inside(capsys, *args):
    "In this process: the exit code, what stdout and stderr got"
    with pytest.raises(SystemExit) as e: cli.main([*map(str, args)])
    return e.value.code, *capsys.readouterr()
