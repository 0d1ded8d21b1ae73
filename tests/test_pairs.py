"Models by name: one table for drafts that are made from the target, one opener for words."
import subprocess, sys
import pytest, torch
from specdec import autoregressive, generate
from specdec.drafting import PromptLookup
from specdec.pairs import add_draft, named_draft, open_pair
from specdec.zoo import DRAFTS, load_pair, load_target

TOY = load_pair('toy')

@pytest.mark.parametrize('name', ['lookup', 'early_exit:1', 'early_exit:4', 'int8', 'int4'])
def test_each_name_is_a_draft_that_changes_nothing(name):
    pair = load_pair('toy', name)
    assert pair.name == f'toy/{name}'
    assert torch.equal(generate(pair.target, pair.draft, [1, 2, 3, 1, 2], 12).tokens, autoregressive(TOY.target, [1, 2, 3, 1, 2], 12).tokens)

@pytest.mark.parametrize('name, words', [('early_exit', 'after how many layers'), ('early_exit:', 'after how many layers'), ('early_exit:x', 'after how many layers'), ('early_exit:-1', 'after how many layers'),
    ('early_exit:99', '99'), ('early_exit:0', '0'), ('lookup:3', 'takes nothing after it'), ('int8:4', 'takes nothing'), ('int3', 'there are lookup, early_exit'), ('', 'there are'), (None, 'there are'), (5, 'there are')])
def test_names_that_are_none(name, words):
    with pytest.raises(ValueError) as e: named_draft(name, TOY.target)
    assert words in str(e.value) and len(str(e.value).splitlines()) == 1

@pytest.mark.parametrize('words, name', [(('tiny',), 'tiny'), (('toy', None), 'toy'), (('toy', 'toy'), 'toy'), (('tiny', 'tiny'), 'tiny'), (('toy+lookup',), 'toy/lookup'), (('tiny+early_exit:2',), 'tiny/early_exit:2')])
def test_words_that_open(words, name): assert open_pair(*words, device='cpu').name == name

@pytest.mark.parametrize('words, said', [(('random',), 'no draft of its own'), (('random gpt9',), 'no shape of that name'), (('random gpt2', 'tiny'), 'is a shape too'), (('toy+',), 'names no model'), (('+lookup',), 'names no model'),
    (('toy+tiny',), 'go together only'), (('gpt2-large',), 'no draft of its own'), (('tiny', 'toy'), 'go together only')])
def test_words_that_do_not(words, said):
    with pytest.raises(ValueError) as e: open_pair(*words, device='cpu')
    assert said in str(e.value) and len(str(e.value).splitlines()) == 1

def test_random_shapes_take_what_a_dialled_pair_takes():
    pair = open_pair('random distilgpt2', 'random distilgpt2', alpha=1., seed=3, device='cpu', dtype='bfloat16', revision=None, check=True)
    assert pair.name == 'distilgpt2/distilgpt2' and pair.target.dtype == torch.bfloat16 and torch.equal(pair.target.script, pair.draft.script)

def test_a_target_alone():
    assert load_target('toy').draft is None and load_target(device='cpu').name == 'tiny'

def test_a_new_name_is_known_to_all_and_cannot_be_taken_twice():
    try:
        add_draft('echo', lambda target, rest: PromptLookup(None, int(rest or 3)))
        assert load_pair('toy', 'echo:2').draft.max_ngram == 2 and open_pair('toy+echo').name == 'toy/echo'
        for name in ('echo', 'lookup'):
            with pytest.raises(ValueError, match='already'): add_draft(name, lambda target, rest: None)
    finally: DRAFTS.pop('echo')
    for name in ('a:b', '', 'A', 'a/b', '4x', 'a b'):
        with pytest.raises(ValueError, match='small letters'): add_draft(name, print)

def test_the_root_knows_the_names_from_the_start():
    r = subprocess.run([sys.executable, '-c', "from specdec import load_pair; print(load_pair('toy', 'lookup').name)"], capture_output=True, text=True)
    assert r.stdout.strip() == 'toy/lookup', r.stderr
