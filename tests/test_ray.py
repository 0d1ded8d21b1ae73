"A sweep on a cluster of two nodes, both on this machine; without Ray the loop is tested in nbs/37_tables.ipynb."
import os, socket, subprocess, sys, threading
from contextlib import contextmanager
import command, pytest, torch
from specdec.sweeping import points, sweep
from specdec.tables import read_rows

SMALL = dict(num_cpus=1, object_store_memory=80_000_000, include_dashboard=False)

@pytest.fixture
def cluster(root, monkeypatch):
    "Two nodes with a CPU each"
    ray = pytest.importorskip('ray', reason='Ray is not installed')
    utils = pytest.importorskip('ray.cluster_utils', reason='this build of Ray has no cluster on one machine')
    monkeypatch.setenv('RAY_USAGE_STATS_ENABLED', '0')
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(root), os.environ.get('PYTHONPATH', '')]))
    found = utils.Cluster(initialize_head=True, head_node_args=SMALL)
    try:
        found.second = found.add_node(**SMALL)
        yield found
    finally:
        ray.shutdown()
        found.shutdown()

@contextmanager
def threads(n):
    "As many as a worker has"
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    yield
    torch.set_num_threads(before)

def test_a_node_killed_half_way_loses_nothing(cluster, tmp_path, capsys):
    path, killed = tmp_path/'s.csv', []
    def kill():
        "Once two rows are there, the second node goes, in the midst of a point, which takes a second"
        while not path.exists() or path.read_bytes().count(b'\n') < 3: stop.wait(.01)
        killed.append(path.read_bytes().count(b'\n') - 1)
        cluster.remove_node(cluster.second, allow_graceful=False)
    stop = threading.Event()
    helper = threading.Thread(target=kill, daemon=True)
    helper.start()
    args = '--gamma', '1,2,3,4,5,6', '--pair', 'toy', '--max-new-tokens', 64, '--runs', 8, '--prompt', 'def '
    code, out, err = command.inside(capsys, 'sweep', *args, '--output', path, '--ray', cluster.address, '--cpus', 1)
    helper.join()
    assert 'its worker was lost, and its point runs again' in err
    assert code == 0 and '6 points, 0 of them from before' in out and 'raylet' not in out
    assert 2 <= killed[0] < 6
    rows = read_rows(path)
    assert sorted(r['gamma'] for r in rows) == [1, 2, 3, 4, 5, 6]                # no row twice, none missing
    # the machine that measured it, and so the same table without the cluster
    assert {r['threads'] for r in rows} == {1} and all(r['processor'] and r['system'] for r in rows)
    news = []
    with threads(1):
        again = sweep(points((1, 2, 3, 4, 5, 6), pair=['toy']), path, ['def '], 64, 8,
                      done=lambda row, new: news.append(new))
    assert news == [False]*6 and len(read_rows(path)) == 6
    assert [r['gamma'] for r in again] == [1, 2, 3, 4, 5, 6]

def test_without_ray_it_says_what_to_install(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, 'ray', None)
    code, out, err = command.inside(capsys, 'sweep', '--ray', 'local', '--gamma', 1, '--output', tmp_path/'s.csv')
    assert (code, out) == (2, '') and 'pip install "specdec-lab[ray]"' in err
    assert not [*tmp_path.iterdir()]

def test_a_cluster_that_is_not_there(tmp_path, capsys):
    pytest.importorskip('ray', reason='Ray is not installed')
    for address in ('127.0.0.1:1', 'nowhere', 'ray://127.0.0.1:1'):
        code, out, err = command.inside(capsys, 'sweep', '--ray', address, '--gamma', 1, '--output', tmp_path/'s.csv')
        assert (code, out) == (2, '') and f'--ray {address}: no cluster answers there' in err
    assert not [*tmp_path.iterdir()]

def test_ray_is_imported_by_nothing_but_a_sweep_that_asks_for_it():
    code = 'import sys, specdec.cli, specdec.sweeping; sys.exit("ray" in sys.modules)'
    assert not subprocess.run([sys.executable, '-c', code], timeout=120).returncode

def test_a_cluster_that_lets_nobody_in(tmp_path, capsys, monkeypatch):
    "As one does that asks for another token; Ray itself would try for 20 seconds"
    ray = pytest.importorskip('ray', reason='Ray is not installed')
    def refuses(*args, **kw): raise ConnectionError('no connection')
    monkeypatch.setattr(ray, 'init', refuses)
    with socket.create_server(('127.0.0.1', 0)) as s:
        address = f'127.0.0.1:{s.getsockname()[1]}'
        code, out, err = command.inside(capsys, 'sweep', '--ray', address, '--gamma', 1, '--output', tmp_path/'s.csv')
    assert (code, out) == (2, '') and 'RAY_AUTH_MODE=token' in err and not [*tmp_path.iterdir()]
