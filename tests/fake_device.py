"A stand-in for a device that has no float64, as MPS has none: tensors say that they are on it, and one in float64 is an error."
from contextlib import contextmanager
import pytest, torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

MPS, CPU = torch.device('mps'), torch.device('cpu')

class NoFloat64(TorchFunctionMode):
    "Runs on the CPU what is asked of MPS"
    def __init__(self): super().__init__(); self.calls = set()
    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, '__name__', str(func))
        if func == torch.Tensor.device.__get__: return MPS
        self.calls.add(name)
        def here(o): return CPU if isinstance(o, (str, torch.device)) and str(o).split(':')[0] == 'mps' else o
        out = func(*map(here, args), **{k: here(v) for k, v in (kwargs or {}).items()})
        if any(isinstance(o, torch.Tensor) and o.dtype == torch.float64 for o in tree_flatten(out)[0]): raise TypeError(f'{name}: the MPS framework does not support float64')
        return out

@contextmanager
def no_float64():
    "Everything inside is on the device; yields the names of what was called"
    real = torch.Generator
    with pytest.MonkeyPatch.context() as m, NoFloat64() as mode:
        m.setattr(torch, 'Generator', lambda device=CPU: real(CPU))
        yield mode.calls
