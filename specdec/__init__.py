__version__ = "0.1.0"

_home = dict(load_pair='pairs', generate='decoding', autoregressive='decoding', stream='decoding',
             generate_batch='batch', verify='verification', speculative='huggingface')
__all__ = [*_home]

def __getattr__(name):
    "Import what is asked for when it is asked for, so that `specdec --help` need not wait for torch"
    if name not in _home: raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from importlib import import_module
    return getattr(import_module(f'{__name__}.{_home[name]}'), name)

def __dir__(): return sorted([*globals(), *__all__])
