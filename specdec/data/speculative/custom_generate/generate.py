"`model.generate(ids, custom_generate=FOLDER, trust_remote_code=True, assistant_model=draft)`"
from specdec.huggingface import generate_with as generate

__all__ = ['generate'] # transformers looks it up here
