"Every argument of transformers' `generate` and every field of its `GenerationConfig`, given beside the plug-in: as without it, or refused in one line. Streamers are ended in any case."
import inspect, os, subprocess, sys, threading, warnings
import pytest, torch
from specdec import speculative
from specdec.huggingface import folder
from specdec.zoo import byte_tokenizer, random_gpt2
from transformers import GenerationConfig, StoppingCriteria, TextIteratorStreamer
from transformers.generation import GenerationMixin

IDS, TOKENIZER = torch.tensor([[40, 41, 42, 43]]), byte_tokenizer()
TARGET, DRAFT = (random_gpt2(seed, vocab_size=256, n_positions=64, n_embd=32, n_head=2, n_layer=1, initializer_range=.5, bos_token_id=None, eos_token_id=None) for seed in (1, 2))

class Recorder:
    "Writes down what a streamer is told"
    def __init__(self): self.told = []
    def put(self, value): self.told.append(value.tolist())
    def end(self): self.told.append('end')

def call(form=None, **kw):
    "`generate`: transformers' own, or with the plug-in as a callable or as a folder"
    own = dict(attention_mask=torch.ones_like(IDS), max_new_tokens=16, pad_token_id=0)
    if 'generation_config' not in kw and 'do_sample' not in kw: own |= dict(do_sample=False)
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        if form == 'callable': own |= dict(custom_generate=speculative(DRAFT))
        if form == 'folder': own |= dict(custom_generate=folder(), trust_remote_code=True, assistant_model=DRAFT)
        return TARGET.generate(IDS, **own | kw)

PLAIN = call()[0, 4:].tolist()
A, B, C = PLAIN[3], PLAIN[6], PLAIN[9]

class AtLength(StoppingCriteria):
    def __init__(self, n): self.n = n
    def __call__(self, ids, scores, **kw): return torch.tensor([ids.shape[1] >= self.n])

def even(batch, ids): return list(range(0, 256, 2))
def halved(ids, scores): return scores.roll(1, -1)

# As without the plug-in; those marked `same` change nothing in a greedy text of transformers either
WORKS = dict(
    logits_processor=[halved], stopping_criteria=[AtLength(9)], prefix_allowed_tokens_fn=even, return_dict_in_generate=True, max_new_tokens=7, min_new_tokens=5, max_time=1e9, eos_token_id=[B, C],
    forced_eos_token_id=7, forced_bos_token_id=9, suppress_tokens=[A], begin_suppress_tokens=[PLAIN[0]], bad_words_ids=[[A], [B, C]], sequence_bias={(A,): -9.}, repetition_penalty=1.5, no_repeat_ngram_size=2,
    encoder_repetition_penalty=1.5, encoder_no_repeat_ngram_size=1, exponential_decay_length_penalty=(4, 1.5), remove_invalid_values=True, renormalize_logits=True, watermarking_config=dict(bias=4., seeding_scheme='selfhash'),
    use_cache=False, cache_implementation='static', disable_compile=True, prefill_chunk_size=2, max_length=12, min_length=9, pad_token_id=3, bos_token_id=1, num_beams=1, num_return_sequences=1, do_sample=False, synced_gpus=False,
    negative_prompt_ids=IDS, negative_prompt_attention_mask=torch.ones_like(IDS), low_memory=False, token_healing=False, output_scores=False, output_logits=False, output_attentions=False, output_hidden_states=False,
    temperature=.5, top_k=3, top_p=.5, min_p=.1, typical_p=.5, epsilon_cutoff=.1, eta_cutoff=.1, top_h=.5, length_penalty=2., early_stopping=True, tokenizer=TOKENIZER, decoder_start_token_id=2, is_assistant=True)
REFUSED = dict(                                # and words of the refusal
    num_beams=(2, 'num_beams'), num_return_sequences=(2, 'a streamer takes one'), prompt_lookup_num_tokens=(3, 'assisted'), assistant_early_exit=(1, 'assisted'), use_mtp=(True, 'assisted'),
    output_scores=(True, 'output_scores'), output_logits=(True, 'output_logits'), output_attentions=(True, 'output_attentions'), output_hidden_states=(True, 'output_hidden_states'),
    guidance_scale=(2., 'ClassifierFreeGuidance'), assistant_model=(TARGET, 'assistant_model'), synced_gpus=(True, 'synced_gpus'), num_assistant_tokens=(7, 'num_assistant_tokens'),
    num_assistant_tokens_schedule=('constant', 'num_assistant_tokens_schedule'), assistant_confidence_threshold=(.3, 'assistant_confidence_threshold'), assistant_lookbehind=(3, 'assistant_lookbehind'),
    target_lookbehind=(3, 'target_lookbehind'), assistant_ensemble_weight=(.5, 'assistant_ensemble_weight'), max_matching_ngram_size=(2, 'max_matching_ngram_size'), speculation_type=('x', 'speculation_type'), penalty_alpha=(.6, ''),
    num_beam_groups=(2, ''), diversity_penalty=(.5, ''), constraints=([1], ''), force_words_ids=([[1]], ''), dola_layers=('low', ''), token_type_ids=(IDS, 'token_type_ids'), inputs_embeds=(torch.zeros(1, 4, 32), 'inputs_embeds'),
    stop_strings=(['a'], 'tokenizer'), token_healing=(True, 'tokenizer'), no_such_argument=(1, 'no_such_argument'))
ELSEWHERE = {'self', 'inputs', 'kwargs', 'custom_generate', 'streamer', 'generation_config', '_from_model_config', 'transformers_version', 'cache_config', 'compile_config', 'max_cache_len', 'continuous_batching_config'}

def test_each_one_is_known():
    "What a new transformers adds shows up here"
    known = {*WORKS, *REFUSED, *ELSEWHERE}
    assert {*GenerationConfig().to_dict()} | {*inspect.signature(GenerationMixin.generate).parameters} <= known

def ids_of(out): return (out.sequences if hasattr(out, 'sequences') else out)[0].tolist()

@pytest.mark.parametrize('form', ['callable', 'folder'])
@pytest.mark.parametrize('name', WORKS)
def test_works(name, form):
    kw = {name: WORKS[name]}
    if name == 'max_length' or name == 'min_length': kw['max_new_tokens'] = None; kw.setdefault('max_length', 20)
    try: want = call(**kw)
    except Exception as e: return pytest.skip(f'transformers itself: {e}')
    got, s = call(form, **kw), Recorder()
    assert ids_of(got) == ids_of(want) and hasattr(got, 'sequences') == hasattr(want, 'sequences')
    call(form, streamer=s, **kw)
    assert s.told[-1] == 'end' and s.told[0] == IDS.tolist() and [t for o in s.told[1:-1] for t in o] == ids_of(want)[4:]

@pytest.mark.parametrize('form', ['callable', 'folder'])
@pytest.mark.parametrize('name', REFUSED)
def test_refused_in_one_line(name, form):
    value, words = REFUSED[name]
    if form == 'folder' and name == 'assistant_model': return                        # there it arrives
    s, kw = Recorder(), {name: value}
    if name.startswith('output_'): kw['return_dict_in_generate'] = True
    if name == 'num_return_sequences': kw['do_sample'] = True
    if name in ('penalty_alpha',): kw['top_k'] = 4
    if name in ('num_beam_groups', 'diversity_penalty', 'constraints', 'force_words_ids'): kw['num_beams'] = 4
    with pytest.raises((ValueError, NotImplementedError)) as e: call(form, streamer=s, **kw)
    assert words in str(e.value), e.value
    assert 'tokenizer' in words or 'no_such' in words or not s.told or s.told[-1] == 'end', s.told      # the first two never get as far as the loop

# Streamers
def read(form, **kw):
    "What a reader in another thread gets"
    s = TextIteratorStreamer(TOKENIZER, skip_prompt=True, timeout=20)
    failed = []
    def run():
        try: call(form, streamer=s, **kw)
        except ValueError as e: failed.append(e)
    thread = threading.Thread(target=run); thread.start()
    text = ''.join(s); thread.join()
    return text, failed

@pytest.mark.parametrize('form', ['callable', 'folder'])
def test_a_reader_in_another_thread_never_waits_for_ever(form):
    assert read(form) == (TOKENIZER.decode(PLAIN), [])
    text, failed = read(form, output_logits=True, return_dict_in_generate=True)
    assert text == '' and 'output_logits' in str(failed[0])
    def bad(ids, scores):
        if ids.shape[1] > 8: raise ValueError('a bad processor')
        return scores
    text, failed = read(form, logits_processor=[bad])
    assert failed

def test_streamers_of_the_call_and_of_the_constructor():
    one, two = Recorder(), Recorder()
    want = [IDS.tolist(), *[[t] for t in PLAIN], 'end']
    for mine, theirs in ((None, one), (one, None), (one, one), (one, two)):
        for s in (one, two): s.told = []
        call(custom_generate=speculative(DRAFT, streamer=mine), streamer=theirs)
        for s in {mine, theirs} - {None}: assert s.told == want
    for s in (one, two): s.told = []
    loop = speculative(DRAFT)
    call(custom_generate=lambda *a, **kw: loop(*a, **kw), streamer=one)                 # a function around it
    assert one.told == want
    call(custom_generate=loop)                                                         # and nothing is left over for the next call
    assert one.told == want

def test_a_call_inside_a_call_has_its_own_streamer():
    outer, inner = Recorder(), Recorder()
    def criterion(ids, scores, **kw):
        if not inner.told: DRAFT.generate(IDS, custom_generate=speculative(TARGET, streamer=inner), max_new_tokens=2, do_sample=False, pad_token_id=0)
        return torch.tensor([False])
    call('callable', streamer=outer, stopping_criteria=[criterion])
    assert [o[0] for o in outer.told[1:-1]] == PLAIN and len(inner.told) == 4 and outer.told[-1] == inner.told[-1] == 'end'

def test_the_draft_may_be_named_twice():
    assert ids_of(call('callable', assistant_model=DRAFT))[4:] == PLAIN

# The folder
@pytest.mark.parametrize('how', ['argument', 'configuration'])
def test_strings_that_end_a_text_in_the_folder_form(how):
    word = TOKENIZER.decode(PLAIN[5:7])
    kw = dict(tokenizer=TOKENIZER, do_sample=False) | (dict(stop_strings=[word]) if how == 'argument' else dict(generation_config=GenerationConfig(stop_strings=[word], do_sample=False, pad_token_id=0)))
    want = ids_of(call(**kw))
    assert ids_of(call('folder', **kw)) == want and len(want) <= 4 + 7
    with pytest.raises(ValueError, match='pass tokenizer='): call('folder', **kw | dict(tokenizer=None))
    with pytest.raises(ValueError, match='assistant_tokenizer'): call('folder', assistant_tokenizer=TOKENIZER)

ALONE = '''
import importlib.metadata, sys, types, torch
from transformers import GPT2Config, GPT2LMHeadModel
def version(name):
    if name.startswith('specdec'): raise importlib.metadata.PackageNotFoundError(name)
    return old(name)
old, importlib.metadata.version = importlib.metadata.version, version
for name in sys.argv[2:]: sys.modules[name] = types.ModuleType(name)            # somebody else's package
m = GPT2LMHeadModel(GPT2Config(vocab_size=97, n_layer=1, n_head=2, n_embd=32, n_positions=32, bos_token_id=None, eos_token_id=None)).eval()
try: print(m.generate(torch.tensor([[1, 2]]), custom_generate=sys.argv[1], trust_remote_code=True, assistant_model=m, max_new_tokens=4, do_sample=False, pad_token_id=0).shape)
except ImportError as e: print(e)
'''

def test_the_folder_form_needs_the_package_and_no_installation(root, tmp_path):
    "Importable, not installed: it works. Not there: the line names the right distribution, for on PyPI the name of the module is somebody else's"
    def run(*others):
        env = {**os.environ, 'PYTHONPATH': str(root), 'HF_MODULES_CACHE': str(tmp_path/'modules')}
        return subprocess.run([sys.executable, '-c', ALONE, folder(), *others], cwd=tmp_path, capture_output=True, text=True, env=env).stdout.strip()
    assert run() == 'torch.Size([1, 6])'
    line = run('specdec')
    assert 'pip install specdec-lab' in line and len(line.splitlines()) == 1, line
