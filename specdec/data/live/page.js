// What the reader sees: controls, the text as it comes round by round, every token's numbers, and the clock of this browser.
class Engine {                                         // the worker, as functions that return promises
  constructor() {
    this.calls = new Map()
    this.last = 0
    this.worker = new Worker(new URL('worker.js', import.meta.url), {type: 'module'})
    this.worker.onmessage = ({data}) => this.answer(data)
    this.worker.onerror = e => { for (const o of this.calls.values()) o.fail(new Error(e.message || 'the worker did not start')) }
  }
  answer({id, event, error, result}) {
    const call = this.calls.get(id)
    if (event) return call?.told(event)
    this.calls.delete(id)
    if (error) call?.fail(new Error(error))
    else call?.done(result)
  }
  call(name, given, told = () => {}) {
    const id = ++this.last
    const promise = new Promise((done, fail) => this.calls.set(id, {done, fail, told}))
    this.worker.postMessage({id, call: name, given})
    return Object.assign(promise, {id})
  }
  tell(call, given) { this.worker.postMessage({call, given}) }
}

export function interval(k, m, z = 1.96) {             // Wilson's, as specdec.rounds.interval
  if (!m) return [0, 1]
  const centre = (k + z * z / 2) / (m + z * z), half = z / (m + z * z) * Math.sqrt(k * (m - k) / m + z * z / 4)
  return [Math.max(0, centre - half), Math.min(1, centre + half)]
}

export function speedup(alpha, gamma, c, v) {          // specdec.theory: tau / (gamma c + v)
  const tau = alpha === 1 ? gamma + 1 : (1 - alpha ** (gamma + 1)) / (1 - alpha)
  return tau / (gamma * c + v)
}

export function best(alpha, {c, v}) {                  // draft length; 0: do not speculate
  const gains = v.map((o, gamma) => gamma ? speedup(alpha, gamma, c, o) : 1)
  return gains.indexOf(Math.max(...gains))
}

const EXAMPLES = ['def main(', 'Return a list of', 'class Node:\n    def __init__(self, ', 'The following example shows how to ', 'import os\nimport sys\n\n']
const NAMES = {alpha: 'α̂, kept / tested (95 % interval)', tau: 'τ, tokens a pass of the target', fast: 'tokens a second, speculative', slow: 'tokens a second, target alone',
  gain: 'speedup, measured', c: 'c, a draft pass in passes of the target', v: 'v, the pass that verifies', predicted: 'speedup, predicted', best: 'best γ for this machine'}

class Desk {
  constructor(root, help, engine, on) {
    Object.assign(this, {root, help, engine, on, costs: null, alone: null})
    this.controls()
    this.shown()
    this.root.replaceChildren(...this.rows())
    this.said.addEventListener('keydown', e => this.walk(e))
    for (const when of ['mouseover', 'focusin', 'click']) this.said.addEventListener(when, e => this.point(e.target))
    this.clear()
  }

  controls() {
    const {make, slider} = this.help, own = this.set = {gamma: 4, temperature: .7, tokens: 96}
    const button = (words, act) => make('button', {type: 'button', onclick: act}, words)
    this.prompt = make('textarea', {'aria-label': 'prompt', spellcheck: 'false', rows: 2})
    this.prompt.value = EXAMPLES[0]
    this.example = make('select', {'aria-label': 'examples', onchange: () => { this.prompt.value = EXAMPLES[this.example.selectedIndex] }},
      ...EXAMPLES.map(o => make('option', {}, o.split('\n')[0])))
    this.sliders = [slider('draft length γ', {min: 1, max: 10, step: 1, value: own.gamma, digits: 0}, x => { own.gamma = x; this.table() }),
      slider('temperature', {min: 0, max: 2, step: .1, value: own.temperature, digits: 1}, x => { own.temperature = x }),
      slider('new tokens', {min: 16, max: 256, step: 16, value: own.tokens, digits: 0}, x => { own.tokens = x })]
    this.seed = make('input', {type: 'number', min: 0, step: 1, value: 0})
    this.rule = make('select', {}, make('option', {}, 'token'), make('option', {}, 'block'))
    this.both = make('input', {type: 'checkbox', checked: ''})
    this.go = button('run', () => this.start(false))
    this.step = button('step', () => this.next())
    this.end = button('stop', () => this.stop())
  }

  shown() {
    const {make} = this.help
    this.said = make('div', {class: 'sd-said', tabindex: 0, role: 'group', 'aria-label': 'text so far'})
    this.other = make('div', {class: 'sd-said', tabindex: 0, role: 'group', 'aria-label': 'text of the target alone'})
    this.fact = make('p', {class: 'sd-fact'})
    this.now = make('p', {class: 'sd-answer', role: 'status'})
    this.cards = make('ol', {class: 'sd-cards', 'aria-label': 'this round'})
    this.cells = Object.fromEntries(Object.keys(NAMES).map(k => [k, make('td', {'data-name': k}, '–')]))
    this.numbers = make('table', {}, make('tbody', {}, ...Object.entries(NAMES).map(([k, name]) => make('tr', {}, make('th', {scope: 'row'}, name), this.cells[k]))))
    this.legend = make('p', {class: 'sd-legend sd-tokens'}, ...['drafted', 'kept', 'rejected', 'untested', 'correction', 'bonus'].map(k => make('span', {class: `sd-tok sd-${k}`}, k)))
    this.below = make('div', {hidden: ''}, make('p', {class: 'sd-key'}, 'the target alone, one token a pass'), this.other)
  }

  rows() {
    const {make} = this.help, row = (...inside) => make('div', {class: 'sd-row'}, ...inside)
    const field = (name, control) => make('label', {class: 'sd-field'}, name, control)
    return [this.prompt, row(field('examples', this.example)), ...this.sliders, row(field('seed', this.seed), field('rule', this.rule), field('show the target alone', this.both)),
      row(this.go, this.step, this.end), this.now, this.said, this.fact, this.cards, this.legend, this.below, this.numbers,
      make('p', {class: 'sd-key'}, `Computed in this tab with ${this.on.on}, one thread, from ${(this.on.bytes / 1e6).toFixed(0)} MB; the weights are those of the package, in the half precision they were saved in. Nothing is sent anywhere.`)]
  }

  clear() {
    this.rounds = []
    this.seconds = null
    this.places = new Map()
    this.alone = null
    this.said.replaceChildren(this.help.plain(this.prompt.value))
    this.other.replaceChildren()
    this.below.hidden = true
    this.cards.replaceChildren()
    this.fact.textContent = 'Point at a token, or move to it with the arrow keys, to see its numbers.'
    this.busy(null)
    this.table()
  }

  busy(job) {
    this.job = job
    this.end.disabled = !job
    this.root.toggleAttribute('data-busy', !!job)
  }

  options() {
    const {gamma, temperature, tokens} = this.set
    return {prompt: this.prompt.value, maxNewTokens: tokens, gamma, temperature, seed: Math.abs(Math.trunc(+this.seed.value || 0)), rule: this.rule.value}
  }

  // A job that is not the present one any more is not listened to
  async ask(name, given, told) {
    const call = this.engine.call(name, given, event => { if (this.job?.call === call) told(event) })
    this.busy({call, stepped: given.stepped})
    const answer = await call
    if (this.job?.call !== call) throw null
    return answer
  }

  async start(stepped) {
    this.stop()
    this.clear()
    this.asked = this.options()
    this.now.textContent = stepped ? 'one draft, one verdict at a time: press step' : 'decoding'
    try {
      const {seconds} = await this.ask('run', {...this.asked, stepped}, event => this.tell(event))
      this.seconds = stepped ? null : seconds
      this.table()
      if (!stepped) await this.compare()
      this.now.textContent = this.ended()
      this.busy(null)
    } catch (e) {
      if (!e) return                                   // stopped
      this.now.textContent = e.message
      this.busy(null)
    }
  }

  async compare() {
    if (this.both.checked) {
      this.below.hidden = false
      this.other.replaceChildren(this.help.plain(this.prompt.value))
      const {seconds} = await this.ask('run', {...this.asked, alone: true}, event => this.other.append(this.span('bonus', event.texts[0])))
      this.alone = seconds
      this.table()
    }
    if (!this.costs) {
      this.now.textContent = 'measuring what a pass costs here'
      this.costs = await this.ask('measure', `${EXAMPLES[3]}${EXAMPLES[2]}${EXAMPLES[1]}`.repeat(3), () => {})
      this.table()
    }
  }

  ended() {
    const tokens = this.rounds.flatMap(r => r.tokens).length, words = `${tokens} tokens in ${this.rounds.length} passes of the target`
    if (!this.alone || this.asked.temperature) return words
    const text = o => o.textContent
    return `${words}; the target alone writes ${text(this.said) === text(this.other) ? 'the same text' : 'ANOTHER TEXT'}`
  }

  stop() {
    if (!this.job) return
    this.engine.tell('stop', this.job.call.id)
    this.busy(null)
    this.now.textContent = 'stopped'
  }

  next() {
    if (this.job?.stepped) this.engine.tell('next', this.job.call.id)
    else this.start(true)
  }

  span(kind, text, facts) {
    return this.help.make('span', {class: `sd-${kind}`, ...facts}, this.help.plain(text))
  }

  tell(step) {
    if (step.kind === 'round') return this.round(step)
    if (step.kind === 'draft') {
      if (!step.i) this.cards.replaceChildren()
      this.cards.append(this.card(step.word, 'drafted', [`q ${this.help.share(step.q)}`]))
      this.now.textContent = `the draft model writes token ${step.i + 1}`
    } else {
      const kind = step.i < step.n ? 'kept' : 'rejected'
      this.cards.children[step.i].replaceWith(this.card(step.word, kind, this.numbersOf(step, step.i)))
      this.now.textContent = `verdict on token ${step.i + 1}: ${kind}`
    }
  }

  round(r) {
    const {visible, fate} = this.help, g = r.x.length
    this.rounds.push(r)
    const judged = {n: r.n, tested: Math.min(r.n + 1, g)}
    this.cards.replaceChildren(...r.x.map((_, i) => this.card(r.words[i], fate(judged, i), fate(judged, i) === 'untested' ? [] : this.numbersOf(r, i))),
      this.card(r.last, r.closing, [r.closing]))
    r.texts.forEach((text, i) => {
      const kind = i < r.n ? 'kept' : r.closing, word = this.help.visible(i < g && i < r.n ? r.words[i] : r.last)
      const node = this.span(kind, text, {role: 'button', tabindex: this.places.size ? -1 : 0, 'aria-label': `${word}: ${this.verdict(r, i)}`})
      this.places.set(node, `${visible(word)}  ${this.verdict(r, i)}`)
      this.said.append(node)
    })
    this.said.scrollTop = this.said.scrollHeight
    if (this.job?.stepped) this.now.textContent = `round ${this.rounds.length}: ${r.n} of ${g} kept, closed with a ${r.closing}`
    this.table()
  }

  numbersOf(r, i) {
    const {share} = this.help
    return [`p ${share(r.p[i])}`, `q ${share(r.q[i])}`, `u ${share(r.u[i])}`]
  }

  card(word, kind, lines) {
    const {make, visible} = this.help
    return make('li', {}, make('span', {class: `sd-tok sd-${kind}`}, visible(word)), lines.join('\n'))
  }

  verdict(r, i) {
    const g = r.x.length, {temperature, rule} = this.asked, {share, visible} = this.help
    const said = j => `${this.numbersOf(r, j).join(', ')}${rule === 'block' ? `, h ${share(Math.min(1, r.need[j]))}` : ''}`
    if (i < r.n) return temperature ? `kept: ${said(i)}` : 'kept: it is the most likely token of the target too'
    if (r.closing === 'bonus') return g ? 'bonus: all drafted tokens were kept, and the target adds one' : 'the target adds one token'
    const refused = `correction: ${visible(r.words[i])} was rejected`
    return temperature ? `${refused} (${said(i)}); drawn from what p has and q lacks` : `${refused}; the target has another most likely token`
  }

  point(node) { if (this.places.has(node)) this.fact.textContent = this.places.get(node) }

  walk(e) {                                            // arrow keys go from token to token
    const nodes = [...this.places.keys()], at = nodes.indexOf(document.activeElement)
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: nodes.length - 1}[e.key]
    if (to === undefined || !nodes[to] || e.altKey || e.ctrlKey || e.metaKey) return
    e.preventDefault()
    if (nodes[at]) nodes[at].tabIndex = -1
    nodes[to].tabIndex = 0
    nodes[to].focus()
  }

  table() {
    const put = (name, x, words) => { this.cells[name].textContent = words ?? (x === undefined ? '–' : x.toFixed(2)); if (x !== undefined) this.cells[name].dataset.value = x }
    const count = f => this.rounds.reduce((a, r) => a + f(r), 0)
    const tokens = count(r => r.tokens.length), kept = count(r => r.n), tested = count(r => Math.min(r.n + 1, r.x.length)), alpha = kept / tested
    for (const k of Object.keys(NAMES)) put(k)
    if (tested) put('alpha', alpha, `${alpha.toFixed(2)} (${interval(kept, tested).map(o => o.toFixed(2)).join('–')})`)
    if (tokens) put('tau', tokens / this.rounds.length)
    const fast = this.seconds && tokens / this.seconds, slow = this.alone && tokens / this.alone
    if (tokens && fast && !this.job?.stepped) put('fast', fast, fast.toFixed(0))
    if (tokens && slow) put('slow', slow, slow.toFixed(0))
    if (tokens && fast && slow) put('gain', fast / slow)
    if (!this.costs) return
    const {gamma} = this.set, {c, v} = this.costs
    put('c', c)
    put('v', v[gamma], `${v[gamma].toFixed(2)} at γ = ${gamma}`)
    if (!tested) return
    put('predicted', speedup(alpha, gamma, c, v[gamma]))
    const chosen = best(alpha, this.costs)
    put('best', chosen, chosen ? `${chosen} (speedup ${speedup(alpha, chosen, c, v[chosen]).toFixed(2)})` : '0: do not speculate')
  }
}

// Load the models and put the desk in the place of the button
export async function open(root, help, told) {
  const engine = new Engine(), on = await engine.call('load', null, told)
  const desk = new Desk(root, help, engine, on)
  return {engine, desk, first: () => { desk.prompt.focus({preventScroll: true}); return desk.start(false) }}
}
