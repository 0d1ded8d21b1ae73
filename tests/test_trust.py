"Nothing that came from elsewhere is unpickled or run: the package's source is read for every way to do it."
import ast
import pytest

UNPICKLERS = {'pickle', 'cPickle', 'dill', 'cloudpickle', 'joblib', 'shelve', 'marshal', 'torch.hub'}
CALLS = {'torch.load', 'torch.jit.load', 'torch.hub.load', 'np.load', 'numpy.load', 'pickle.load', 'pickle.loads',
         'yaml.load', 'yaml.unsafe_load', 'yaml.full_load', 'eval', 'exec'}
MUST_BE = dict(trust_remote_code=False, use_safetensors=True, weights_only=True, allow_pickle=False)

def dangers(source):
    "What a module does that could run what a stranger wrote, one line each"
    tree = ast.parse(source)
    safe = {c.name for c in ast.walk(tree) if isinstance(c, ast.ClassDef)
            and 'yaml.SafeLoader' in map(ast.unparse, c.bases)} | {'yaml.SafeLoader'}
    # what it says is looked at below
    said = any(isinstance(k, ast.keyword) and k.arg == 'trust_remote_code' for k in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import): yield from import_dangers({a.name for a in node.names})
        if isinstance(node, ast.ImportFrom): yield from import_dangers({f'{node.module}.{a.name}' for a in node.names})
        if isinstance(node, ast.Call): yield from call_dangers(node, safe, said)
        if isinstance(node, ast.Dict):
            names = [k.value if isinstance(k, ast.Constant) else None for k in node.keys]
            yield from (f'{k} in a dict' for k, v in zip(names, node.values) if wrong(k, v))

def import_dangers(names):
    for n in names:
        if n in CALLS or {n, n.split('.')[0], n.rpartition('.')[0]} & UNPICKLERS: yield f'imports {n}'

def call_dangers(node, safe, said):
    "`safe`: loaders of YAML that only read; `said`: the module hands on `**options` in which trust_remote_code stands"
    name, given = ast.unparse(node.func), {k.arg: k.value for k in node.keywords}
    loader = name == 'yaml.load' and any(ast.unparse(a) in safe for a in (*node.args[1:], *given.values()))
    if name in CALLS and not loader: yield f'calls {name}'
    yield from (f'{name}({k}=...)' for k, v in given.items() if wrong(k, v))
    from_memory = node.args and isinstance(node.args[0], ast.Constant) and node.args[0].value is None
    handed_on = None in given and said
    if name.endswith('.from_pretrained') and not from_memory and not handed_on and 'trust_remote_code' not in given:
        yield f'{name} does not say trust_remote_code=False'

def wrong(name, value):
    "Is an argument of this name anything but the one safe constant?"
    return name in MUST_BE and not (isinstance(value, ast.Constant) and value.value is MUST_BE[name])

def sources(root): return {p.name: p.read_text(encoding='utf-8') for p in (root/'specdec').rglob('*.py')}

def test_the_package_trusts_nobody(root):
    found = {name: [*dangers(text)] for name, text in sources(root).items()}
    assert len(found) > 15 and not {k: v for k, v in found.items() if v}

def test_models_are_asked_for_as_safetensors(root):
    "Some call says so; take the word away there, and this is a failure"
    nodes = [node for text in sources(root).values() for node in ast.walk(ast.parse(text))]
    said = [n for n in nodes if isinstance(n, ast.keyword) and n.arg == 'use_safetensors']
    assert said and all(k.value.value is True for k in said)

@pytest.mark.parametrize('line', [
    'import pickle', 'from pickle import loads', 'from torch import load', 'import torch.hub', 'import joblib as j',
    'torch.load(f)', 'torch.load(f, weights_only=False)', 'np.load(f, allow_pickle=True)', 'yaml.load(f)', 'eval(text)',
    'kind.from_pretrained(name)', 'kind.from_pretrained(name, trust_remote_code=True)',
    'kind.from_pretrained(name, trust_remote_code=trust)', 'generate(**{"trust_remote_code": True})',
    'yaml.load(f, yaml.Loader)', 'o = dict(trust_remote_code=True)\nkind.from_pretrained(name, **o)',
    'dict(use_safetensors=False)', 'options = dict(use_safetensors=safe)'])
def test_each_way_is_found(root, line):
    "Also in the modules that handle files of weights: the line is put in front of them"
    texts = [t for t in sources(root).values() if 'safetensors' in t]
    assert texts and all([*dangers(line + '\n' + t)] for t in texts)

@pytest.mark.parametrize('line', [
    'kind.from_pretrained(name, trust_remote_code=False)', 'kind.from_pretrained(None, state_dict=w)', 'model.eval()',
    'yaml.safe_load(f)', 'class L(yaml.SafeLoader): ...\nyaml.load(f, L)', 'yaml.load(f, yaml.SafeLoader)',
    'o = dict(trust_remote_code=False)\nkind.from_pretrained(name, **o)', 'x = "trust_remote_code=True"',
    'dict(use_safetensors=True)', 'PICKLED = "*.bin"'])
def test_what_is_safe_is_let_through(line): assert not [*dangers(line)]
