"Trees of drafts in the loop: the text is the target's own, whatever the tree"
import json
from collections import Counter
import pytest, torch
from command import inside
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from specdec import autoregressive, generate
from specdec import trees
from specdec.branching import DynamicTree, TreeDraft, tree_reader
from specdec.comparing import hf_generate
from specdec.decoding import stream
from specdec.timing import timed
from specdec.written_out import as_cached
from specdec.zoo import random_gpt2

V = 61
SHAPE = dict(vocab_size=V, n_positions=48, n_embd=32, n_head=4, n_layer=2, initializer_range=.3, bos_token_id=None, eos_token_id=None)

def llama(kind='Llama', seed=0, **kw):
    torch.manual_seed(seed)
    config, model = dict(Llama=(LlamaConfig, LlamaForCausalLM), GPTNeoX=(GPTNeoXConfig, GPTNeoXForCausalLM), Mistral=(MistralConfig, MistralForCausalLM))[kind]
    shape = dict(vocab_size=V, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=48, initializer_range=.3, bos_token_id=None, eos_token_id=None)
    return model(config(**{**shape, **kw})).eval()

GPT2 = random_gpt2(1, **SHAPE)
MODELS = dict(gpt2=GPT2, llama=llama(num_key_value_heads=2), neox=llama('GPTNeoX'))
DRAFT = random_gpt2(1, **{**SHAPE, 'n_layer': 1})                      # shares some of what gpt2 thinks; of the others, nothing
DRAFTS = dict(chain=lambda d: TreeDraft(d, (1, 1, 1)), fixed=lambda d: TreeDraft(d, (3, 2, 1)), wide=lambda d: TreeDraft(d, 5),
              dynamic=lambda d: DynamicTree(d, 9, 4, 3), itself=lambda d: TreeDraft(d, (2, 2, 1, 1)))
PROMPT = torch.tensor([3, 14, 15, 9, 26])

@pytest.mark.parametrize('draft', DRAFTS)
@pytest.mark.parametrize('name', MODELS)
@pytest.mark.parametrize('n', [1, 2, 5, 20, 43])
def test_greedy_text_is_that_of_transformers(name, draft, n):
    "Budgets from a single token to the end of the context"
    target = MODELS[name]
    drafter = DRAFTS[draft](target if draft == 'itself' else DRAFT)
    out = generate(target, drafter, PROMPT, n, gamma=5)
    assert out.tokens.tolist() == hf_generate(target, PROMPT, n).tolist()
    assert out.stats.kept <= out.stats.tested <= out.stats.proposed and out.stats.new_tokens == n
    if draft == 'itself' and n > 10: assert out.stats.tau > 3         # it is right about itself
    for r in out.rounds:
        if r.tree: assert len(r.tree[0]) == len(r.tree[1]) and {*r.x.tolist()} <= {*r.tree[0]}

@pytest.mark.parametrize('gamma', [1, 2, 3, 9])
def test_a_chain_that_is_written_as_a_tree(gamma):
    "One branch: the same rounds as those of the draft model itself"
    a, b = (generate(GPT2, d, PROMPT, 30, gamma=gamma) for d in (DRAFT, TreeDraft(DRAFT, (1,)*gamma)))
    assert [(r.x.tolist(), r.n, r.tokens.tolist()) for r in a.rounds] == [(r.x.tolist(), r.n, r.tokens.tolist()) for r in b.rounds]

def test_end_tokens_and_processors():
    text = autoregressive(GPT2, PROMPT, 30).tokens.tolist()
    end = text[len(text)//2]
    for make in DRAFTS.values():
        out = generate(GPT2, make(GPT2), PROMPT, 30, eos_token_id=end)
        assert out.tokens.tolist() == text[:text.index(end) + 1] and out.finish_reason == 'eos'
        def penalty(ids, scores): return scores.scatter(1, ids[:, -3:], -1e9)   # looks at the last tokens of each path
        a, b = (generate(GPT2, d, PROMPT, 20, logits_processor=penalty) for d in (make(DRAFT), None))
        assert a.tokens.tolist() == b.tokens.tolist()

def first_two(draft, N, **kw):
    "Counts of the first two tokens of sampled texts"
    seen = Counter()
    for seed in range(N): seen[tuple(generate(TINY, draft, [1, 2, 3], 2, gamma=2, temperature=3., seed=seed, **kw).tokens.tolist())] += 1
    return seen

TINY, TINY_DRAFT = (random_gpt2(s, **{**SHAPE, 'vocab_size': 5, 'n_layer': 1, 'initializer_range': r}) for s, r in ((3, .6), (4, .6)))

def wanted():
    "The target's probability of every two tokens"
    lm, p = as_cached(TINY), {}
    first = lm.forward(torch.tensor([1, 2, 3]), last=1)[0].div(3).softmax(-1)
    for a in range(5):
        lm.rollback(0)
        second = lm.forward(torch.tensor([1, 2, 3, a]), last=1)[0].div(3).softmax(-1)
        for b in range(5): p[a, b] = float(first[a]*second[b])
    return p

def worst_z(seen, N):
    p = wanted()
    return max(abs(seen[t]/N - c)/(c*(1 - c)/N)**.5 for t, c in p.items() if c > 5/N)

WAYS = dict(without=lambda: TreeDraft(TINY_DRAFT, (2, 2), 'without'), iid=lambda: TreeDraft(TINY_DRAFT, (2, 2), 'iid'), top=lambda: TreeDraft(TINY_DRAFT, (2, 2)),
            dynamic=lambda: DynamicTree(TINY_DRAFT, 5, 2, 2), many=lambda: TreeDraft(TINY_DRAFT, (9, 1), 'without'))

@pytest.mark.parametrize('way', WAYS)
def test_sampled_texts_have_the_targets_distribution(way):
    N = 1200
    assert worst_z(first_two(WAYS[way](), N), N) < 4

def test_a_wrong_verifier_is_seen(monkeypatch):
    "It closes as if no child had been tried"
    real, N = trees.tried, 2000
    def forgets(p, x, q=None, replace=False): return real(p, x, q, replace)[0], p
    monkeypatch.setattr(trees, 'tried', forgets)
    assert worst_z(first_two(TreeDraft(TINY_DRAFT, (2, 2), 'without'), N), N) > 10

def test_who_reads_no_trees_is_refused_in_a_line():
    mistral = llama('Mistral', num_key_value_heads=2, sliding_window=8)
    mistral.model.layers[0].register_forward_hook(lambda *_: None)     # transformers' own forward
    with pytest.raises(ValueError, match='through a window, and MistralForCausalLM cannot read a tree'):
        generate(mistral, TreeDraft(DRAFT, (2, 2)), PROMPT, 8)
    with pytest.raises(ValueError, match='leave rule="token"'):
        generate(GPT2, TreeDraft(DRAFT, (2, 2)), PROMPT, 8, temperature=1., rule='block')

def test_a_window_that_is_written_out():
    "Mistral: each row of a tree sees as far back as its position allows"
    mistral = llama('Mistral', num_key_value_heads=2, sliding_window=8)
    for make in DRAFTS.values():
        assert generate(mistral, make(mistral), PROMPT, 40).tokens.tolist() == hf_generate(mistral, PROMPT, 40).tolist()

def test_hooked_models_read_trees_through_transformers():
    other = random_gpt2(1, **SHAPE)
    other.transformer.h[0].register_forward_hook(lambda *_: None)
    assert type(tree_reader(as_cached(other))).__name__ == '_HFReader'
    assert generate(other, DRAFTS['fixed'](DRAFT), PROMPT, 30).tokens.tolist() == hf_generate(GPT2, PROMPT, 30).tolist()

def test_timed_and_streamed_alike():
    draft = TreeDraft(DRAFT, (3, 2, 1))
    out, seconds, split = timed(GPT2, draft, PROMPT, 20, 3)
    assert out.tokens.tolist() == generate(GPT2, draft, PROMPT, 20, 3).tokens.tolist()
    assert len(split['verify']) == len(out.rounds) and all(s > 0 for s in split['verify'])
    assert sum(len(r.tokens) for r in stream(GPT2, draft, PROMPT, 20, 3)) == 20

def test_two_texts_in_turn_share_a_draft_model():
    "A draft that has grown for one text begins the next from nothing"
    draft = DynamicTree(DRAFT, 7, 3)
    for prompt in (PROMPT, PROMPT.flip(0), PROMPT):
        assert generate(GPT2, draft, prompt, 20).tokens.tolist() == hf_generate(GPT2, prompt, 20).tolist()

@pytest.mark.parametrize('shape', [dict(nodes=0), dict(depth=0), dict(width=0), dict(nodes='x')])
def test_odd_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=next(iter(shape))): DynamicTree(DRAFT, **shape)

@pytest.mark.parametrize('args', [('bench', '--tree', '3,2,1', '--max-new-tokens', 12), ('plan', '--nodes', 9, '--gamma-max', 3, '--max-new-tokens', 12), ('demo', '--tree', '2,2', '--tokens', 8, '--temperature', 0)])
def test_on_the_command_line(capsys, tmp_path, args):
    code, out, err = inside(capsys, *args, '--runs', 1, '--json', tmp_path/'got.json')
    got = json.loads((tmp_path/'got.json').read_text())
    assert code == 0, err
    if args[0] == 'plan': assert got['engines'] == {} and max(map(int, got['predicted'])) <= 3
    else: assert got['verdict'] == 'exact' and got['gamma'] == len(args[2].split(',')) and 'hf_assisted' not in got['methods']

@pytest.mark.parametrize('args, said', [(('--tree', '3,x'), '--tree 3,x: give values'), (('--tree', '2', '--nodes', 3), 'give one of them'), (('--tree', '0'), 'branching=0'), (('--draft', 'lookup', '--backend', 'hf', '--target', 'toy', '--tree', '2'), 'grown by a draft model')])
def test_odd_trees_on_the_command_line(capsys, args, said):
    code, out, err = inside(capsys, 'bench', *args)
    assert code == 2 and said in err and err.count('\n') == 1, err
