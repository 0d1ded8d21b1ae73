"The bandwidth of memory and the share of it that the target's passes use, as reports hold and print them."
import pytest, torch
from specdec import roofline
from specdec.bench import read_results, run_bench
from specdec.comparing import compare
from specdec.decoding import generate
from specdec.layout import lean
from specdec.planning import plan
from specdec.models import HFModel
from specdec.terminal import kernel_lines, limit_lines
from specdec.zoo import random_gpt2, toy_pair

@pytest.fixture(autouse=True)
def small(monkeypatch):
    "A matrix that is made quickly: what is tested is what becomes of the number"
    roofline._bandwidth.cache_clear()
    monkeypatch.setattr(roofline, 'bytes_to_read', lambda device: 2**22)
    yield
    roofline._bandwidth.cache_clear()

PAIR, INPUTS = toy_pair(), [torch.arange(12), torch.arange(5, 20)]

def test_compare_holds_the_limit_and_the_shares():
    got = compare(PAIR, INPUTS, 2, 12, runs=1)
    limit = got['environment']['read_gb_s']
    plain, fast = (got['methods'][k] for k in ('baseline', 'speculative'))
    for o in (plain, fast): assert o['share'] == pytest.approx(o['weight_gb_s']/limit)
    # the same weights in v times the seconds
    assert plain['weight_gb_s']/fast['weight_gb_s'] == pytest.approx(got['v'])
    assert all('share' not in o for k, o in got['methods'].items() if k.startswith('hf'))

def test_plan_holds_them_too():
    p = plan(PAIR, INPUTS, (1, 2), 12, runs=1)
    said = p.as_dict()
    assert said['environment']['read_gb_s'] > 0 and {*said['rates']} == {'baseline', 'speculative'}

def test_a_line_for_people():
    rates = dict(baseline=dict(weight_gb_s=12.34, share=.5), hf_baseline=dict(tokens_per_second=1.))
    line, = limit_lines(dict(read_gb_s=24.68), rates)
    assert line == "weights read in the target's passes: baseline 12.3 GB/s (50%) of the 24.7 that memory gives"
    assert limit_lines(dict(read_gb_s=24.68), dict(baseline=dict(tokens_per_second=1.))) == []

def test_where_the_weights_are_not_known():
    freed = lean(random_gpt2(0, n_layer=2, vocab_size=97, n_positions=32, n_embd=16, n_head=2))
    assert roofline.weight_bytes(freed) is None
    assert roofline.weight_rates(freed, dict(baseline=1.)) == {}
    assert len(generate(freed, None, torch.arange(4), 3).tokens) == 3

def test_a_product_takes_no_more_than_the_memory_that_is_free(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(roofline, 'free_memory', lambda: 2**24)
    assert roofline.bytes_to_read('cpu') == 2**22

def test_the_kernels_stand_beside_the_numbers(monkeypatch):
    "Which kernel multiplied by the weights of each shape; none where transformers multiplied"
    monkeypatch.setenv('SPECDEC_KERNELS', 'linear')
    model = random_gpt2(5, n_layer=2, vocab_size=97, n_positions=32, n_embd=16, n_head=2)
    shapes = {'16 x 48', '16 x 16', '16 x 64', '64 x 16', '16 x 97'}
    assert roofline.chosen_kernels(model) == {k: ['linear', 'linear'] for k in shapes}
    assert kernel_lines(dict(kernels=roofline.chosen_kernels(model)))[1:] == [f'  {k:>14}  linear, linear' for k in
                                                                             roofline.chosen_kernels(model)]
    model.transformer.h[0].register_forward_hook(lambda *_: None)
    assert roofline.chosen_kernels(model) == {} and roofline.chosen_kernels(HFModel(model)) == {}
    assert kernel_lines({}) == ['kernels: those of transformers']

def test_a_configuration_holds_them_too(tmp_path):
    "The limit and the kernels in the first line, the share in each line of ours"
    settings = dict(method='speculative', target_model='toy', draft_model='toy', gamma=2, sampling='greedy',
                    prompt='def ', max_new_tokens=12, warmup_steps=0, dtype='float32', output=str(tmp_path/'o.jsonl'))
    run_bench(settings)
    head, rows = read_results(tmp_path/'o.jsonl')
    limit = head['environment']['read_gb_s']
    assert limit > 0 and head['environment']['kernels'] and rows[0]['share'] == pytest.approx(rows[0]['weight_gb_s']/limit)
