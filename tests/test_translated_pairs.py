"A target and a draft with different tokenizers, from the command line: two folders, and every command that opens a pair"
import json
import pytest
from command import inside
from specdec.zoo import byte_tokenizer, load_pair, random_gpt2
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SHAPE = dict(n_embd=16, n_head=2, n_layer=1, n_positions=128, bos_token_id=None, eos_token_id=None)
TEXT = 'def add(a, b):\n    return a + b\n'

def words():
    "A tokenizer with a token for each word of a short text, and none for a byte: it shares single letters with bytes"
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator([TEXT]*5, trainers.BpeTrainer(vocab_size=300, special_tokens=['<end>'], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return PreTrainedTokenizerFast(tokenizer_object=t, eos_token='<end>')

@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    "Two models, each with its tokenizer"
    root = tmp_path_factory.mktemp('pair')
    for name, tok in dict(big=words(), small=byte_tokenizer()).items():
        random_gpt2(len(name), vocab_size=len(tok), **SHAPE).save_pretrained(root/name)
        tok.save_pretrained(root/name)
    return [str(root/name) for name in ('big', 'small')]

@pytest.mark.parametrize('command', [('bench', '--max-new-tokens', 12), ('plan', '--max-new-tokens', 12, '--gamma-max', 2), ('demo', '--tokens', 12, '--gamma', 2, '--temperature', 0)],
                         ids=lambda c: c[0])
@pytest.mark.parametrize('swapped', [False, True])
def test_commands(capsys, tmp_path, folders, command, swapped):
    (target, draft), file = folders[::-1 if swapped else 1], tmp_path/'got.json'
    code, out, err = inside(capsys, *command, '--target', target, '--draft', draft, '--prompt', TEXT, '--runs', 1, '--dtype', 'float32', '--json', file)
    assert code == 0, err
    assert 'have different tokenizers: drafting by "shared"' in ' '.join(err.split())
    got = json.loads(file.read_text())
    assert got['lossless'] is True and got['alpha_hat'] is not None
    if command[0] != 'plan': assert {*got['verdicts'].values()} == {'exact'} and {*got['verdicts']} == {'baseline', 'speculative', 'hf_baseline'}

@pytest.mark.parametrize('method', ['speculative', 'hf_assisted'])
def test_a_configuration(capsys, tmp_path, folders, method):
    target, draft = folders
    lines = dict(method=method, target_model=target, draft_model=draft, prompt='def add', gamma=2, sampling='greedy', max_new_tokens=12,
                 dtype='float32', warmup_steps=0, output=str(tmp_path/'out.jsonl'))
    (tmp_path/'c.yaml').write_text('\n'.join(f'{k}: {json.dumps(v)}' for k, v in lines.items()))
    code, out, err = inside(capsys, 'bench', '--config', tmp_path/'c.yaml')
    if method == 'hf_assisted':                                                   # transformers would want both tokenizers: refused, not failed
        assert code == 2 and 'transformers takes as an assistant only a model with as many tokens' in err
    else: assert code == 0 and 'exact' in out

def test_translation_can_be_refused(folders):
    with pytest.raises(ValueError, match='tokenizer'): load_pair(*folders, device='cpu', translate='no')
