"The table of agreement that ends `make experiments`: what is the same, what a standard error may explain, and what is neither."
import experiments
import pytest

ROW = dict(domain='docs', gamma=4, tested=1000, kept=700, rounds=400., tau=2.75, seconds=3.1, speedup=1.4)

@pytest.mark.parametrize('change, kind', [({}, 'same'), (dict(seconds=9.9), 'same'), (dict(kept=720, tau=2.8), 'within'), (dict(kept=780), 'apart'), (dict(tau=3.5), 'apart'),
                                          (dict(speedup=1.9), 'same'), (dict(speedup=2.2), 'apart')])
def test_two_rows(change, kind):
    got, why = experiments.verdict(ROW, ROW | change)
    assert got == kind and bool(why) == (kind == 'apart')

def test_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments, 'PAGES', tmp_path/'old'); monkeypatch.setattr(experiments, 'RESULTS', tmp_path/'new')
    def write(folder, *rows):
        (tmp_path/folder).mkdir(exist_ok=True)
        (tmp_path/folder/'x.csv').write_text('\n'.join([','.join(ROW), *(','.join(map(str, r.values())) for r in rows)]) + '\n')
    write('old', ROW, ROW | dict(gamma=8), ROW | dict(gamma=2))
    assert experiments.compare('x.csv') == (f'{"x.csv":32} not measured here', [])
    write('new', ROW, ROW | dict(gamma=8, kept=500))
    line, why = experiments.compare('x.csv')
    assert line.split() == 'x.csv 3 1 0 1 1'.split()
    assert len(why) == 2 and 'alpha_hat 0.700 committed, 0.500 measured' in why[0] and 'not measured' in why[1]
