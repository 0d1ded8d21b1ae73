"""The names by which other engines take a draft length, read from their packages without running or installing them:

    pip download --no-deps -d WHEELS vllm sglang
    python tools/engine_fields.py WHEELS > tests/engine_fields.json

llama.cpp's are those of the installed xllamacpp, which holds a build of it."""
import ast, json, re, sys
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

def wheel(folder, name):
    "The wheel of a package, and its version"
    found = next(folder.glob(f'{name}-*.whl'))
    return ZipFile(found), found.name.split('-')[1]

def body(zipped, file, name):
    "What stands in a class of a file"
    tree = ast.parse(zipped.read(file))
    return next(n.body for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name == name)

def names(nodes): return [n.target.id for n in nodes if isinstance(n, ast.AnnAssign) and n.target.id[0] != '_']

def words(zipped, file):
    "The choices that a file gives a name, as in `Method = Literal['a', 'b']`; a name among them stands for its own"
    found = {}
    for n in ast.parse(zipped.read(file)).body:
        if not (isinstance(n, ast.Assign) and isinstance(n.value, ast.Subscript)): continue
        if getattr(n.value.value, 'id', '') != 'Literal': continue
        parts = getattr(n.value.slice, 'elts', [n.value.slice])
        found[n.targets[0].id] = [v for p in parts for v in ([p.value] if isinstance(p, ast.Constant) else found[p.id])]
    return found

def vllm(folder):
    z, version = wheel(folder, 'vllm')
    config, args = 'vllm/config/speculative.py', 'vllm/engine/arg_utils.py'
    choices = words(z, config)
    kinds = dict(method='SpeculativeMethod', draft_sample_method='DraftSampleMethod',
                 rejection_sample_method='RejectionSampleMethod')
    return dict(version=version, source=f'{config}, class SpeculativeConfig; {args}',
                options=sorted({*re.findall(r'"(--spec[a-z-]+)"', z.read(args).decode())}),
                fields=names(body(z, config, 'SpeculativeConfig')), values={k: choices[v] for k, v in kinds.items()})

def sglang(folder):
    z, version = wheel(folder, 'sglang')
    spec, model = (f'sglang/srt/arg_groups/fields/{k}.py' for k in ('spec', 'model'))
    fields = ['model_path', *(k for k in names(body(z, spec, 'Spec')) if k.startswith('speculative'))]
    assert 'model_path' in names(body(z, model, 'Model')) and 'sglang/launch_server.py' in z.namelist()
    algorithms = re.search('Builtins: ([A-Z0-9, ]+)', z.read(spec).decode())[1]
    return dict(version=version, source=f'{spec}, class Spec; {model}',
                options=['--' + k.replace('_', '-') for k in fields],
                values={'--speculative-algorithm': algorithms.split(', ')})

def llama_cpp():
    import xllamacpp
    given, kinds = xllamacpp.CommonParams().speculative, xllamacpp.common_speculative_type
    program = next(Path(xllamacpp.__file__).parent.glob('*.so')).read_bytes()
    options = {o.decode() for o in re.findall(rb'\0(-m|-md|--spec-[a-z0-9-]+)(?=\0)', program)}
    start = 'COMMON_SPECULATIVE_TYPE_'
    return dict(version=f"xllamacpp {metadata.version('xllamacpp')}",
                source='classes CommonParamsSpeculative and CommonParamsSpeculativeDraft; options of the program in it',
                options=sorted(options), fields=[k for k in dir(given.draft) if k[0] != '_'],
                values={'--spec-type': [k.removeprefix(start).lower().replace('_', '-') for k in dir(kinds)
                                        if k.startswith(start) and not k.endswith('COUNT')],
                        '--spec-draft-sampling': ['greedy', 'probabilistic']})

if __name__ == '__main__':
    folder = Path(sys.argv[1])
    json.dump(dict(vllm=vllm(folder), sglang=sglang(folder), llama_cpp=llama_cpp()), sys.stdout, indent=1)
    print()
