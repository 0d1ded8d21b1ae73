"`model.generate(ids, custom_generate=FOLDER, trust_remote_code=True, assistant_model=draft)`"
try: # transformers looks through the imports of this file, and would tell people to install what PyPI calls specdec, which is another package
    from specdec.huggingface import generate_with as generate
except ModuleNotFoundError as e:
    if not (e.name or '').startswith('specdec'): raise
    raise ImportError('this folder needs the package of `pip install specdec-lab`, or its source on PYTHONPATH (what PyPI calls specdec is another package)') from e

__all__ = ['generate'] # transformers looks it up here
