"What a widget calls a time is the time of decoding: while a clock runs nothing is drawn and the page is told nothing."
import time
from statistics import median
from types import SimpleNamespace
import ipywidgets, matplotlib.figure, pytest, torch, traitlets
from specdec import comparing, laps, load_pair, race, timing
from specdec.laps import PROMPT, Lap, SpeedupExplorer, lanes, middle, timed_laps
from specdec.written_out import as_cached
from specdec.parts import MACHINE, Job, fault, table
from specdec.race import Race, html_race
from specdec.widgets import AcceptanceExplorer, RoundPlayer, acceptance_view, film, html_step, said_so_far
from specdec.zoo import Pair

HOSTILE = ['<b>', '&', '"', "'", 'a\nb', '\x00\x1b[31m\x7f', '\ud800', '\u202eabc', '$x$', '_x']

@pytest.fixture(scope='module')
def pair(): return load_pair(device='cpu')

@pytest.fixture(scope='module')
def prompt(pair): return pair.tokenizer(PROMPT, return_tensors='pt').input_ids[0]

class Witness:
    "What happened while a text was decoded, and while none was"
    def __init__(self, patch):
        self.running, self.texts, self.during, self.between = 0, 0, [], []
        self.decoding = False
        for owner, name in ((ipywidgets.Widget, '_send'), (traitlets.HasTraits, 'notify_change'), (matplotlib.figure.Figure, 'savefig')):
            patch.setattr(owner, name, self.told(name, getattr(owner, name)))
        patch.setattr(laps, 'stream', self.rounds(laps.stream))
        patch.setattr(laps, 'hf_generate', self.whole(laps.hf_generate))
        patch.setattr(laps, 'pass_costs', self.whole(laps.pass_costs))

    def told(self, name, old):
        def f(*args, **kw):
            (self.during if self.running else self.between).append(name)
            return old(*args, **kw)
        return f

    def rounds(self, old):
        def f(*args, **kw):
            self.running, self.texts = self.running + 1, self.texts + 1
            try: yield from old(*args, **kw)
            finally: self.running -= 1
        return f

    def whole(self, old):
        def f(*args, **kw):
            self.running, self.texts = self.running + 1, self.texts + 1
            try: return old(*args, **kw)
            finally: self.running -= 1
        return f

@pytest.fixture
def witness(monkeypatch):
    monkeypatch.setattr(race, 'pace', lambda laps: .01)                          # nobody watches
    monkeypatch.setattr(MACHINE, 'pause', .01)
    return Witness(monkeypatch)

def run(widget):
    widget.job.go.click()
    assert widget.job.wait()
    assert 'alert' not in widget.job.said.value, widget.job.said.value
    return widget.job.said.value

def a_race(**settings):
    w = Race()
    for k, v in (dict(target='tiny', device='cpu', length=16) | settings).items(): getattr(w, k).value = v
    return w

@pytest.mark.parametrize('settings', [dict(), dict(temperature=.8), dict(control='cost_model'), dict(control='entropy'), dict(draft='lookup')])
def test_race_tells_nothing_while_a_clock_runs(witness, settings):
    assert 'identical: yes' in run(a_race(runs=3, **settings))
    assert witness.texts >= 8 and witness.between and not witness.during

def test_measurement_tells_nothing_while_a_clock_runs(witness, pair):
    run(SpeedupExplorer(pair=pair, gammas=(1, 4), max_new_tokens=16, runs=1))
    assert witness.texts == 2*(3*2 + 1) and witness.between and not witness.during

def test_witness_sees_a_page_that_is_told_in_between(witness, pair, prompt):
    "The test of the test: a bar that moves at each round is seen"
    job = Job('Run', lambda job: timed_laps(pair, prompt, lanes(pair, prompt, 4), 16, 1, check=lambda: job.step(witness.texts/9)) and '')
    job.go.click()
    assert job.wait() and {'notify_change', '_send'} <= {*witness.during}

def test_others_draw_between_texts(witness):
    "A slider that is moved during a race: its picture comes when the clock stands, and is not lost"
    other, w = AcceptanceExplorer(), a_race(runs=1, length=64)
    w.job.go.click()
    while not witness.running and w.job.thread.is_alive(): time.sleep(.001)
    before = other.view.value
    other.temperature.value = 2.5
    assert w.job.wait() and other.view.wait()
    assert other.view.value == acceptance_view([2., 1.2, .5, 0., -1.], [1.2, 1.6, .2, .6, -.5], 2.5) != before
    assert witness.during.count('savefig') == 0 < witness.between.count('savefig')

def test_two_measurements_take_turns(witness, pair):
    "Two widgets that are started at once: never two texts at a time"
    both, most = [a_race(runs=1, length=16), SpeedupExplorer(pair=pair, gammas=(2,), max_new_tokens=8, runs=1)], []
    for w in both:
        check = w.job.check
        w.job.check = lambda check=check: (most.append(witness.running), check())
        w.job.go.click()
    assert all(w.job.wait() for w in both) and max(most) == 1

class Ticking:
    "A model whose passes take a counted time"
    def __init__(self, model, passes, cost): self.lm, self.passes, self.cost = as_cached(model), passes, cost
    def __getattr__(self, name): return getattr(self.lm, name)
    def forward(self, *args, **kw):
        self.passes.append(self.cost)
        return self.lm.forward(*args, **kw)

@pytest.mark.parametrize('temperature', [0., .8])
def test_the_race_is_what_the_benchmark_says(pair, prompt, temperature):
    "With a clock that counts passes both give the same numbers, to the last digit"
    passes = []
    def clock(): return sum(passes)
    slow = Pair(Ticking(pair.target, passes, 1.), Ticking(pair.draft, passes, .125), pair.tokenizer, 'ticking')
    timed = timed_laps(slow, prompt, lanes(slow, prompt, 4, temperature, seed=3), 40, 3, clock)
    methods = {k: comparing.loops(slow, 4, 40, temperature, seed=3)[k] for k in ('baseline', 'speculative')}
    seconds, texts = timing.interleave(methods, [prompt], 3, clock=clock)
    for ours, theirs in zip(('target alone', 'speculative'), methods):
        assert timed[ours][0].tokens == texts[theirs][0].tokens.tolist()
        assert middle(timed[ours]).rate == median(timing.run_rates(seconds[theirs], 40))
    alone, fast = (middle(o).rate for o in timed.values())
    assert alone == 1 < fast

def test_a_controller_begins_anew_in_each_lap(pair, prompt):
    "What a lap has learnt is not carried into the next"
    from specdec.control import AIMD
    timed = timed_laps(pair, prompt, lanes(pair, prompt, AIMD(4)), 32, 3)['speculative']
    assert len({tuple(r.gamma for r in lap.rounds) for lap in timed}) == 1

def test_cost_model_may_choose_not_to_speculate(monkeypatch):
    seen = []
    old = race.make_controller
    monkeypatch.setattr(race, 'make_controller', lambda settings, *a, **kw: (seen.append(settings['gamma_min']), old(settings, *a, **kw))[1])
    monkeypatch.setattr(race, 'pace', lambda laps: .01)
    for name in ('cost_model', 'aimd'): run(a_race(runs=1, length=8, control=name))
    assert seen == [0, 1]

def test_two_widgets_over_one_view(pair):
    "Two texts, and a single row, over the same `CachedLM`s at once: each as if it were alone"
    view = Pair(as_cached(pair.target), as_cached(pair.draft), pair.tokenizer, 'one view')
    a, b = RoundPlayer(view, 'Return the number of', seed=1), RoundPlayer(view, 'def main(', seed=2)
    c = AcceptanceExplorer(pair=view, text='import ')
    c.source.value = 'a real text'
    assert a.job.wait() and b.job.wait() and c.view.wait()
    for w, text, seed in ((a, 'Return the number of', 1), (b, 'def main(', 2)):
        assert w.rounds == list(film(pair, text, seed, gamma=4, temperature=.7, max_new_tokens=48))
    alone = AcceptanceExplorer(pair=pair, text='import ')
    alone.source.value = 'a real text'
    assert alone.view.wait() and alone.view.value == c.view.value

@pytest.mark.parametrize('text', HOSTILE)
def test_text_stays_text(text):
    "In a token, a prompt, a label, a name, a heading, an error: neither markup nor something that cannot be sent"
    lap = Lap(lambda ids: text*len(ids))
    lap.came = [(1., [1, 2], 1, 'bonus')]
    r = dict(x=[text], n=1, tested=1, closing='bonus', y=text, text=[text, text], p=[.5], q=[.5], u=[.1])
    for page in (said_so_far([('kept', text)], text), html_race({text: lap}, 2), html_step([r], 4, text), table({text: [1.]}),
                 fault(ValueError(text)), acceptance_view([1., 2.], [2., 1.], name=lambda i: text)):
        body = page.split('</style>')[-1]
        page.encode()                                                                # half a surrogate pair cannot be sent
        assert '<b>' not in body.replace('<b>round', '') and '\x1b' not in body and '\x00' not in body
    assert fault(ValueError(text)).count('\n') == 0

def test_bad_input_gives_one_line():
    w = AcceptanceExplorer()
    for p, q in (('', ''), ('1', '1 2'), ('1 two', '1 2'), ('nan 1', '1 2'), ('1e999 1', '1 2'), ('<b>', '1'), ('\ud800', '1')):
        w.p.value, w.q.value = p, q
        assert w.view.wait() and w.view.value.startswith('<span role="alert"') and '\n' not in w.view.value and '<b>' not in w.view.value
        w.view.value.encode()
    w = RoundPlayer()
    assert w.job.wait()
    for prompt, seed in (('', 1), ('\ud800', 1), ('x', 10**30), ('word '*4000, 1)):
        w.prompt.value, w.seed.value = prompt, seed
        w.job.go.click()
        assert w.job.wait() and 'role="alert"' in w.job.said.value and '\n' not in w.job.said.value and w.rounds == []
    w.prompt.value, w.seed.value = 'x', 1
    w.job.go.click()
    assert w.job.wait() and 'tokens in' in w.job.said.value                          # and works again

def test_half_a_character_at_the_end_is_shown(pair):
    "On every way that shows text"
    from specdec.explorables import record
    tokenizer = SimpleNamespace(decode=lambda ids: bytes(int(i) for i in ids).decode(errors='replace'))
    lap = Lap(tokenizer.decode)
    lap.start()
    for i in 'naïve'.encode()[:3]: lap.add([i])
    assert ''.join(t for _, t in lap.pieces) == 'na\ufffd'
    text = 'aé€'.encode()[:5]                                                         # the last character lacks a byte
    ids = torch.tensor([*text])
    class Says:
        "The bytes of `text`, one after another"
        vocab_size, max_length, device, length = 256, 64, torch.device('cpu'), 0
        def forward(self, ids, last=None):
            self.length += len(ids)
            rows = torch.zeros(len(ids), 256)
            for j in range(len(ids)): rows[j, text[min(self.length - len(ids) + j, len(text) - 1)]] = 1.
            return rows[-(last or len(ids)):]
        def rollback(self, length): self.length = length
    says = Pair(Says(), Says(), tokenizer, 'says')
    whole = tokenizer.decode(ids)
    for made in (record(says, torch.tensor([1]), max_new_tokens=5, gamma=2)['rounds'], list(film(says, torch.tensor([1]), max_new_tokens=5, gamma=2))):
        assert ''.join(t for r in made for t in r['text']) == whole == 'aé\ufffd'
    assert 'aé\ufffd' == ''.join(t for _, t in timed_laps(says, torch.tensor([1]), lanes(says, torch.tensor([1]), 2), 5, 1)['speculative'][0].pieces)
