// A recorded generation, round by round. Each round has three steps: draft, verify, close.
const STEPS = ['draft', 'verify', 'close']

start('rounds', (root, {recordings, seconds}) => {
  let film = recordings[0], at = 0, timer = null             // `at` counts steps; a round has three
  const last = () => 3 * film.rounds.length - 1
  const button = (words, label, act) => make('button', {type: 'button', 'aria-label': label, onclick: act}, words)
  const go = step => { at = Math.max(0, Math.min(last(), step)); if (at === last()) stop(); show() }
  const stop = () => { clearInterval(timer); timer = null; play.textContent = 'play'; now.setAttribute('aria-live', 'polite') }
  const run = () => {
    if (timer) return stop()
    if (at === last()) at = 0
    timer = setInterval(() => root.isConnected ? go(at + 1) : stop(), 1000 * seconds)
    play.textContent = 'pause'; now.setAttribute('aria-live', 'off')
    show()
  }
  const play = button('play', undefined, run)
  const pick = make('select', {'aria-label': 'recording', onchange: () => { stop(); film = recordings[pick.selectedIndex]; go(0) }}, ...recordings.map(r => make('option', {}, r.name)))
  const place = make('input', {type: 'range', min: 0, step: 1, 'aria-label': 'step', style: 'flex: 1; min-width: 8em; accent-color: #56728F', oninput: () => { stop(); go(+place.value) }})
  const said = make('div', {class: 'sd-said', tabindex: 0, role: 'group', 'aria-label': 'text so far'}), cards = make('ol', {class: 'sd-cards'})
  const now = make('p', {class: 'sd-answer', 'aria-live': 'polite'}), sums = make('p', {class: 'sd-num', style: 'text-align: left'})
  const legend = make('p', {class: 'sd-legend sd-tokens'}, ...['drafted', 'kept', 'rejected', 'untested', 'correction', 'bonus'].map(k => make('span', {class: `sd-tok sd-${k}`}, k)))
  root.append(...(recordings.length > 1 ? [make('div', {class: 'sd-row'}, pick)] : []), said, now, cards, sums,
              make('div', {class: 'sd-row'}, button('|◀', 'first step', () => { stop(); go(0) }), button('◀', 'back', () => { stop(); go(at - 1) }), play,
                   button('▶|', 'forward', () => { stop(); go(at + 1) }), place), legend)
  root.addEventListener('keydown', e => {
    if (e.target.matches('input, select') || e.altKey || e.ctrlKey || e.metaKey) return
    const act = {ArrowRight: () => { stop(); go(at + 1) }, ArrowLeft: () => { stop(); go(at - 1) }, Home: () => { stop(); go(0) }, End: () => { stop(); go(last()) }}[e.key]
    if (act) { e.preventDefault(); act() }
  })

  const piece = (kind, text) => make('span', {class: `sd-${kind}`}, plain(text))
  const texts = r => r.text || [...r.x.slice(0, r.n), ...(r.closing === 'none' ? [] : [r.y])]      // what each token adds: one may end inside a character
  const emitted = r => texts(r).map((t, i) => piece(i < r.n ? 'kept' : r.closing, t))
  const facts = (r, i, kind) => i >= r.p.length ? [] : kind === 'drafted' ? [`q ${share(r.q[i])}`]
    : [`p ${share(r.p[i])}`, `q ${share(r.q[i])}`, ...(i < r.tested ? [`p/q ${(r.p[i] / r.q[i]).toFixed(2)}`] : [])]
  const card = (r, i, kind) => make('li', {}, make('span', {class: `sd-tok sd-${kind}`}, visible(r.x[i])), facts(r, i, kind).join('\n'))
  const show = () => {
    const k = Math.floor(at / 3), step = STEPS[at % 3], r = film.rounds[k], done = film.rounds.slice(0, step === 'close' ? k + 1 : k)
    said.replaceChildren(plain(film.prompt), ...done.flatMap(emitted))
    said.scrollTop = said.scrollHeight
    cards.replaceChildren(...r.x.map((_, i) => card(r, i, step === 'draft' ? 'drafted' : fate(r, i))))
    if (step === 'close' && r.closing !== 'none') cards.append(make('li', {}, make('span', {class: `sd-tok sd-${r.closing}`}, visible(r.y)), r.closing))
    const say = {draft: `the draft model proposes ${r.x.length}`, verify: `the target reads them in one pass and keeps ${r.n}`,
                 close: r.closing === 'none' ? 'a kept token ends the text' : `${r.closing}: the target adds one token of its own`}[step]
    now.replaceChildren(make('b', {}, `round ${k + 1} of ${film.rounds.length}`), `: ${say}`)
    const tokens = total(done.map(d => d.n + (d.closing !== 'none'))), kept = total(done.map(d => d.n)), tested = total(done.map(d => d.tested))
    const fact = (name, x, digits) => make('span', {'data-name': name, 'data-value': x}, x.toFixed(digits))
    sums.replaceChildren(...(done.length ? [fact('tokens', tokens, 0), ` tokens in ${done.length} passes of the target: τ = `, fact('tau', tokens / done.length, 2), ', α̂ = ', ...(tested ? [fact('alpha', kept / tested, 2)] : ['–'])] : ['no token yet']))
    place.max = last(); place.value = at; place.setAttribute('aria-valuetext', `round ${k + 1}, ${step}`)
  }
  show()
})
