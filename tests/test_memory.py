"What the process holds, as the system counts it, from the models to the last token: real GPT-2 shapes, laid out once."
import subprocess, sys
import pytest

RUN = '''
import sys, torch
from specdec import generate
from specdec.models import as_cached, lean
from specdec.zoo import dialled_pair
def megabytes(key): return int(next(l for l in open('/proc/self/status') if l.startswith(key)).split()[1])/1024
before = megabytes('VmRSS')
pair = dialled_pair('gpt2-large', 'distilgpt2', dtype=sys.argv[1], device='cpu')
models = pair.target, pair.draft
held = sum(p.nbytes for m in models for p in m.parameters())
for m in models: lean(m.plain)
generate(*models, torch.arange(64), 32, gamma=4)
for m in models: lm = as_cached(m).lm; held += sum(kv.nbytes for kv in lm.kv) + lm.w.mask.nbytes
print((megabytes('VmHWM') - before)*2**20/held)
'''

@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_lean_models_are_held_once(dtype):
    out = subprocess.run([sys.executable, '-c', RUN, dtype], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    print(out.stdout)
    assert 1 <= float(out.stdout) <= 1.15
