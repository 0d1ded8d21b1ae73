"What somebody tries who has just installed it: help, a version, a name that is nearly right, a narrow terminal, a closed pipe."
import io, re, subprocess
import command, pytest, specdec
from specdec import terminal
from specdec.terminal import show_table, sweep_table

COMMANDS = 'demo', 'download', 'bench', 'plan', 'sweep'

def inside(capsys, *args): return command.inside(capsys, *args)

@pytest.mark.parametrize('ask', ['-h', '--help'])
def test_both_ways_to_ask_for_help(capsys, ask):
    for args in ([], *([c] for c in COMMANDS)):
        code, out, err = inside(capsys, *args, ask)
        assert code == 0 and out.startswith('Usage: specdec') and not err

def test_each_command_says_what_it_is_for(capsys):
    "In a whole sentence"
    _, out, _ = inside(capsys, '--help')
    said = dict(re.findall(r'^  (\w+) +(\S.*)$', out.partition('Commands:')[2], re.M))
    assert {*said} == {*COMMANDS} and all(s.endswith(('.', '?')) and '...' not in s for s in said.values())

def test_the_version(capsys): assert inside(capsys, '--version') == (0, f'specdec {specdec.__version__}\n', '')

@pytest.mark.parametrize('args, words', [
    (('bench', '--config', '.'), r'\.: it is a folder; give a YAML file'),
    (('bench', '--data', '/dev/null'), r'/dev/null: give a \.txt'),
    (('download', '--model', '../x'), 'is no name on the hub'),
    (('download', '--dataset', 'a/b/c'), 'is no name on the hub'),
    (('plan', '--target', 'tiny', '--draft', 'early_exit'), 'draft early_exit: say after how many layers'),
    (('plan', '--target', 'tiny', '--draft', 'early_exit:x'), 'draft early_exit:x: say after how many layers')])
def test_bad_usage_is_a_line_and_2(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = inside(capsys, *args)
    assert (code, out, err.count('\n')) == (2, '', 1) and re.search(words, err), err
    assert not [*tmp_path.iterdir()]

def test_a_closed_output_is_no_fault_of_ours(tmp_path):
    "As after `>&-`, where Python has no stdout at all"
    for closed in ('>&-', '2>&-', '<&- >&- 2>&-'):
        r = subprocess.run(f'"{command.EXE}" --version {closed}', shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert r.returncode == 0 and 'Traceback' not in r.stderr

class Screen(io.StringIO):
    def isatty(self): return True

ROW = dict(pair='a/rather/long/path+another/of/the/kind', temperature=.8, rule='token', gamma='aimd', tokens_per_second=101.4, speedup=1.2, speedup_min=1.1,
           speedup_max=1.3, alpha_hat=.7, tau=2.4)

@pytest.mark.parametrize('columns', [10, 40, 60, 80, 200])
def test_no_number_is_cut_on_a_narrow_screen(columns):
    out = Screen()
    console = terminal.terminal(file=out, width=columns, color_system=None)
    show_table(console, sweep_table([ROW]))
    lines = out.getvalue().splitlines()
    assert lines[0].split() == 'pair temperature rule gamma tok/s speedup range alpha_hat tau'.split()
    assert [*filter(None, (re.search(r'0\.8  token   aimd  101\.4     1\.20  1\.10-1\.30      0\.700  2\.40', l) for l in lines))]
    assert ''.join(l[:12].rstrip() if columns < 100 else l[:40].rstrip() for l in lines[1:]) .startswith('a/rather/lon')
    assert console.width == columns                                              # as it was

def test_the_readme_announces_nothing_that_it_does_not_show(root):
    assert 'Here is a recorded run' not in (root/'README.md').read_text(encoding='utf-8')

def test_what_is_typed_at_a_prompt_is_shown_in_a_line():
    "A pair and a text, without the modules and the tensors in them"
    pair = specdec.load_pair('toy')
    out = specdec.generate(pair.target, pair.draft, 'abc', 8, tokenizer=pair.tokenizer)
    assert repr(pair) == "Pair(name='toy')"
    assert 'tensor' not in repr(out) and f'finish_reason={out.finish_reason!r}' in repr(out) and repr(out.text) in repr(out)
