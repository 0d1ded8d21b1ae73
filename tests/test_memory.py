"What the process holds, as the system counts it, from the models to the last token: each layer once, also on the way there."
import json, subprocess, sys
import pytest

RUN = '''
import json, sys, torch
from specdec import generate
from specdec.layout import lean
from specdec.written_out import as_cached
from specdec.dialled import dialled_pair
def megabytes(key): return int(next(l for l in open('/proc/self/status') if l.startswith(key)).split()[1])/1024
layers, dtype, leaned = int(sys.argv[1]), sys.argv[2], sys.argv[3] == 'lean'
small = dict(n_embd=64, n_head=2, vocab_size=512, n_positions=1024, n_layer=1)
before = megabytes('VmRSS')
pair = dialled_pair(small | dict(n_embd=1024, n_head=16, n_layer=layers), small, dtype=dtype, device='cpu')      # as wide as gpt2-medium
weights = sum(p.nbytes for p in pair.target.parameters())
if leaned:
    for m in (pair.target, pair.draft): lean(m.plain)
generate(pair.target, pair.draft, torch.arange(64), 32, gamma=4)
cache = sum(kv.nbytes for kv in as_cached(pair.target).lm.kv)
print(json.dumps(dict(peak=megabytes('VmHWM') - before, weights=weights/2**20, cache=cache/2**20)))
'''
FEW, MANY = 1, 13

def measured(layers, dtype, how):
    "Megabytes: what the process held at most, the target's weights, its keys and values"
    out = subprocess.run([sys.executable, '-c', RUN, str(layers), dtype, how], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)

def grown(dtype, how):
    "What twelve layers more add: to the peak, to the weights, to the cache"
    few, many = (measured(n, dtype, how) for n in (FEW, MANY))
    return [many[k] - few[k] for k in ('peak', 'weights', 'cache')]

@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
@pytest.mark.parametrize('dtype', ['float32', 'bfloat16'])
def test_lean_models_are_held_once(dtype):
    "All that does not grow with the layers (libraries, what is timed, rows) is in both runs; one layer is the slack"
    peak, weights, cache = grown(dtype, 'lean')
    layer = weights/(MANY - FEW)
    assert peak <= weights + cache + layer               # that the peak sees the weights is shown by the next test

@pytest.mark.skipif(sys.platform != 'linux', reason='reads /proc')
def test_a_model_that_is_held_twice_is_noticed():
    "The same without `lean`: the laid-out weights stand beside the model's own"
    peak, weights, cache = grown('bfloat16', 'whole')
    assert peak > weights + cache + weights/(MANY - FEW)
