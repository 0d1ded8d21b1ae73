"tools/device_check.py is for machines with a GPU: here its quick mode, so that it is not found broken there."
import json
import device_check, pytest

def test_quick_on_the_cpu(tmp_path, capsys):
    assert device_check.main(['--device', 'cpu', '--quick', '--runs', '1', '--json', str(tmp_path/'check.json')]) == 0
    found, printed = json.loads((tmp_path/'check.json').read_text()), capsys.readouterr().out
    assert set(found['checks']) == {'greedy_text', 'law', 'graphs', 'waits', 'same_text'} and 'FAIL' not in printed
    assert [r['dtype'] for r in found['table']] == ['float32', 'bfloat16']
    for row in found['table']: assert len(row['tokens_per_second']) == 6 and min(row['tokens_per_second'].values()) > 0

def test_a_failed_check_is_the_exit_code(monkeypatch, capsys):
    monkeypatch.setattr(device_check, 'KINDS', {})
    monkeypatch.setattr(device_check, 'PAIRS', {True: []})
    for name in ('greedy_text', 'graphs', 'waits'): monkeypatch.setattr(device_check, name, lambda *_: (True, {}))
    monkeypatch.setattr(device_check, 'law', lambda *_: (False, dict(sigmas=9.)))
    assert device_check.main(['--device', 'cpu', '--quick']) == 1
    assert 'FAIL law: sigmas 9' in capsys.readouterr().out

def test_the_law_rejects_a_greedy_decoder(monkeypatch):
    greedy = device_check.generate
    monkeypatch.setattr(device_check, 'generate', lambda *a, temperature, **kw: greedy(*a, temperature=0., **kw))
    assert not device_check.law(device_check.pick_device('cpu'), 50)[0]

def test_unknown_device_is_one_line(capsys):
    with pytest.raises(SystemExit) as e: device_check.main(['--device', 'abacus'])
    assert e.value.code == 2 and "device='abacus'" in capsys.readouterr().err
