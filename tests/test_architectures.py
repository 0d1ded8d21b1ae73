"Every causal language model that transformers knows, as small as it can be made: rewound at random it is right, or it is refused. None may be silently wrong."
import random, signal, warnings
from contextlib import contextmanager
import pytest, torch, transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as NAMES
from specdec.models import HFModel

pytestmark = pytest.mark.slow
V = 97
SIZES = {32: 'hidden_size d_model n_embd dim embedding_size word_embed_proj_dim lru_width', 48: 'intermediate_size ffn_dim ffn_hidden_size', 16: 'moe_intermediate_size shared_expert_intermediate_size mamba_d_head',
         4: 'num_hidden_layers n_layer num_layers n_layers num_attention_heads n_head num_heads n_heads num_experts num_local_experts n_routed_experts state_size mamba_d_state mamba_n_heads linear_num_value_heads '
            'rotary_dim qk_nope_head_dim index_topk attention_heads decoder_attention_heads', 64: 'max_position_embeddings n_positions n_ctx max_seq_len seq_length',
         2: 'num_key_value_heads num_experts_per_tok linear_num_key_heads index_n_heads mamba_expand expand conv_kernel decoder_layers encoder_layers', 6: 'sliding_window window_size attention_chunk_size attention_window_size',
         8: 'head_dim q_lora_rank kv_lora_rank qk_rope_head_dim v_head_dim index_head_dim linear_key_head_dim linear_value_head_dim hidden_size_per_layer_input', 1: 'n_group topk_group first_k_dense_replace pad_token_id',      # a padding token: some count positions from it
         V: 'vocab_size vocab_size_per_layer_input', None: 'bos_token_id eos_token_id'}

@contextmanager
def within(seconds):
    "Give up after `seconds`"
    def late(*_): raise TimeoutError
    signal.signal(signal.SIGALRM, late); signal.alarm(seconds)
    try: yield
    finally: signal.alarm(0)

def tiny(kind, cls):
    "A random model with four small layers of every kind that its configuration names"
    config = CONFIG_MAPPING[kind]
    default = config()
    kw = {k: size for size, names in SIZES.items() for k in names.split() if hasattr(default, k) and not isinstance(getattr(type(default), k, None), property)}
    if isinstance(kinds := getattr(default, 'layer_types', None), list) and not isinstance(getattr(type(default), 'layer_types', None), property): kw['layer_types'] = (list(dict.fromkeys(kinds)) * 4)[:4]
    config = config(**kw)
    with torch.device('meta'): size = sum(p.numel() for p in cls(config).parameters())
    if size > 3e6: raise ValueError('cannot be made small')
    model, g = cls(config).eval(), torch.Generator().manual_seed(0)
    for p in model.parameters():
        if p.ndim > 1: p.data.normal_(std=.15, generator=g)
    with torch.no_grad(): model(torch.tensor([[5, 6, 7]]), use_cache=False)
    return model

def worst_error(model):
    "Read and rewind at random: the largest error beside a pass without a cache, as a share of the largest logit"
    lm, rng, read, worst = HFModel(model), random.Random(0), [], 0.
    for _ in range(25):
        if len(read) > 55 or rng.random() < .4:
            read = read[:rng.randint(0, len(read))]; lm.rollback(len(read))
        else:
            new = [rng.randrange(3, V) for _ in range(rng.randint(1, 9))]; read += new
            with torch.no_grad(): want = model(torch.tensor([read]), use_cache=False).logits[0, -len(new):]
            worst = max(worst, float((lm.forward(torch.tensor(new)) - want).abs().max() / want.abs().max()))
    return worst

def outcome(kind, cls):
    "'right', 'refused', 'WRONG', 'raises: ..', or 'not built: ..'"
    try:
        with within(60): model = tiny(kind, cls)
    except Exception as e: return f'not built: {type(e).__name__}'
    try:
        with within(60): return 'right' if worst_error(model) < 1e-4 else 'WRONG'
    except ValueError as e: return 'refused' if any(s in str(e) for s in ('rolled back', 'looks to the right', 'counts positions')) else f'raises: {str(e)[:80]}'
    except Exception as e: return f'raises: {type(e).__name__} {str(e)[:80]}'

def test_none_is_silently_wrong():
    transformers.logging.set_verbosity_error(); warnings.simplefilter('ignore')
    found = {}
    for kind, name in NAMES.items(): found.setdefault(outcome(kind, getattr(transformers, name if isinstance(name, str) else name[0])), []).append(kind)
    for what, kinds in sorted(found.items()): print(f'{len(kinds):4} {what}: {" ".join(kinds)}')
    assert 'WRONG' not in found, found['WRONG']
    assert len(found['right']) > 80 and len(found['refused']) > 10
