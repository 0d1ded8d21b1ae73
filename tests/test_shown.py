"Text of users and models is shown as it is, on any terminal and into any pipe."
import io, re, shlex, subprocess, sys
import pytest, torch
from rich.console import Console
from specdec import cli, planning, terminal
from specdec.rounds import Round

class Spell:
    "A tokenizer of given pieces"
    def __init__(self, *parts): self.parts = parts
    def decode(self, ids): return ''.join(self.parts[int(i)] for i in ids)

def streamed(*parts, **kw):
    "What `show_rounds` writes"
    out, n = io.StringIO(), len(parts)
    terminal.show_rounds(terminal.terminal(file=out, **kw), [Round(torch.arange(n - 1), n - 1, n - 1, torch.arange(n))], Spell(*parts))
    return out.getvalue()

def printed(*categories, width=None):
    "The table of a benchmark with these categories"
    out = io.StringIO()
    rows = [dict(category=c, prompt=i, run=0, new_tokens=4, seconds=1.) for i, c in enumerate(categories)]
    terminal.terminal(file=out).print(cli.config_table(rows))
    return out.getvalue()

TEXTS = ['a[:x:2]', ':smile:', '[red]x[/red]', '[/INST]', '\\[b]', 'tab\tbed', 'two\nlines\n', '  spaces  ', 'long ' * 60, 'π 你 \U0001f600', 'na\u0308ive', '$x$', '%s {}', '\u200d']

@pytest.mark.parametrize('text', TEXTS, ids=ascii)
def test_streamed_text_is_byte_for_byte(text):
    assert streamed('<', text, '>') == f'<{text}>\n'
    colours = streamed('<', text, '>', force_terminal=True, color_system='truecolor')
    assert re.sub('\x1b\\[[0-9;]*m', '', colours) == f'<{text}>\n' and '\x1b[32m' in colours

@pytest.mark.parametrize('bad', ['\x1b[31m', '\x1b]0;title\x07', '\r', '\b', '\x00', '\x7f', '\x9b31m', '\x0b', '\x0c', '\u202e', '\u2066'], ids=ascii)
def test_control_characters_are_numbers(bad):
    for force in (False, True):
        shown = re.sub('\x1b\\[[0-9;]*m', '', streamed('a', bad, 'b', force_terminal=force, color_system='truecolor'))
        assert bad[0] not in shown and f'{ord(bad[0]):02x}' in shown and shown.startswith('a\\') and shown.endswith('b\n')
    assert bad[0] not in printed(bad) and f'{ord(bad[0]):02x}' in printed(bad)

@pytest.mark.parametrize('text', [t for t in TEXTS if '\n' not in t and '\t' not in t], ids=ascii)
def test_a_table_holds_any_text_on_a_line(text):
    rows = printed(text, 'other').splitlines()
    assert len(rows) == 4 and text.rstrip() in rows[1]
    assert '\u2026' not in ''.join(rows)

def test_line_ends_in_a_cell(): assert 'a\\x0ab\\x09c' in printed('a\nb\tc')

def test_all_columns_of_a_sweep_in_a_pipe():
    row = dict(pair='a/rather/long/path/to/a/model+another/rather/long/path/to/a/draft', temperature=.8, rule='token', gamma='cost_model', tokens_per_second=1., speedup=1., speedup_min=1., speedup_max=1., alpha_hat=.5, tau=2.)
    out = io.StringIO()
    terminal.terminal(file=out).print(terminal.sweep_table([row]))
    head, line = out.getvalue().splitlines()
    assert head.split() == 'pair temperature rule gamma tok/s speedup range alpha_hat tau'.split() and line.split()[0] == row['pair']

def test_a_narrow_terminal_loses_nothing():
    out = io.StringIO()
    console = Console(file=out, width=30, force_terminal=False)
    console.print(terminal.table(('name', 'n'), [('x' * 50, 1)]))
    assert out.getvalue().count('x') == 50

@pytest.mark.parametrize('encoding', ['ascii', 'cp1252', 'latin-1', 'utf-16', 'cp437'])
@pytest.mark.parametrize('which', ['stdout', 'stderr'])
def test_no_encoding_ends_a_command(monkeypatch, encoding, which):
    pipe, error = io.TextIOWrapper(io.BytesIO(), encoding=encoding), RuntimeError if which == 'stderr' else None
    def told(out, *args, **kw):
        terminal.write(out, 'π 你 \udc80')
        if error: raise error('π 你 \udc80')
        return dict(identical=True, environment=dict(dtype='float32'), eos_token_ids=[])
    monkeypatch.setattr(cli, 'run_demo', told)
    monkeypatch.setattr(sys, 'stdout', io.StringIO()); monkeypatch.setattr(sys, 'stderr', io.StringIO())
    monkeypatch.setattr(sys, which, pipe)
    with pytest.raises(SystemExit) as e: cli.main(['demo', '--prompt', 'x', '--tokens', '4', '--gamma', '1'])
    assert e.value.code == (1 if error else 0) and pipe.errors == 'strict'
    said = pipe.buffer.getvalue().decode(encoding)
    assert '\\udc80' in said and ('π' in said or '\\u03c0' in said)

def test_messages_are_a_line_and_keep_their_end(monkeypatch, capsys):
    def fails(*args, **kw): raise RuntimeError('No tokenizer from any of:\n(1) a file,\n\x1b[31m(2) a slow one.\n\nYou need sentencepiece.\n')
    monkeypatch.setattr(cli, 'run_demo', fails)
    with pytest.raises(SystemExit) as e: cli.main(['demo', '--prompt', 'x', '--tokens', '4', '--gamma', '1'])
    said = capsys.readouterr().err
    assert e.value.code == 1 and said == 'specdec: No tokenizer from any of:; (1) a file,; \\x1b[31m(2) a slow one.; You need sentencepiece.\n'

@pytest.mark.parametrize('path', ["/my models/big", "it's/small", '$HOME', '`id`', 'a"b', '; rm x', '*', 'a\nb', '~x', '-x', 'plain'])
def test_a_printed_command_survives_the_shell(path):
    for gamma in (0, 3):
        for engine, line in planning.engine_settings(gamma, path, path + '2').items():
            words = subprocess.run(['sh', '-c', f'printf "%s\\0" {line}'], capture_output=True, text=True).stdout.split('\0')[:-1]
            assert words == shlex.split(line) and any(w.startswith(path) or path in w for w in words), (engine, line)
            assert (f'{path}2' in ' '.join(words).replace('\\"', '"').replace('\\n', '\n')) == (gamma > 0)

def test_help_is_plain(capsys):
    for command in ([], ['demo'], ['bench'], ['plan'], ['sweep'], ['download']):
        with pytest.raises(SystemExit) as e: cli.main([*command, '--help'])
        out = capsys.readouterr().out
        assert e.value.code == 0 and '\x1b' not in out and '--help' in out and ('given_' not in out)
