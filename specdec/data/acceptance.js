// The arithmetic of specdec.distributions and specdec.acceptance, on plain numbers
const softmax = (z, T) => {
  const top = Math.max(...z), w = z.map(x => Math.exp((x - top) / T)), s = total(w)
  return w.map(x => x / s)
}
const shared = (p, q) => p.map((x, i) => Math.min(x, q[i]))
const tv = (p, q) => total(p.map((x, i) => Math.abs(x - q[i]))) / 2
const brief = (x, digits) => x.toFixed(digits).replace(/^0/, '')
const residual = (p, q) => {
  const r = p.map((x, i) => Math.max(x - q[i], 0)), s = total(r)
  return s > 0 ? r.map(x => x / s) : p
}
// Logits in which token i has probability h at temperature T, and the others their old proportions
const moved = (z, i, h, T) => {
  const others = z.filter((_, j) => j !== i), top = Math.max(...others)
  return z.map((x, j) => j === i ? top + T * Math.log(h / (1 - h) * total(others.map(y => Math.exp((y - top) / T)))) : x)
}

start('acceptance', (root, given) => {
  const z = {p: [...given.p], q: [...given.q]}, EDGE = 4       // pixels of half a handle
  let T = given.temperature
  const who = {p: 'target', q: 'draft'}, beyond = {p: COLOUR.correction, q: COLOUR.rejected}, bars = {p: [], q: []}

  const bar = (law, i) => {
    const fill = make('i'), value = make('b', {'aria-hidden': 'true'})
    const input = make('input', {type: 'range', min: .01, max: .99, step: .01, 'aria-label': `${who[law]} ${law}, token ${given.tokens[i]}`,
                                 oninput: () => { z[law] = moved(z[law], i, +input.value, T); show() }})
    bars[law].push({fill, value, input})
    return make('div', {class: 'sd-bar'}, fill, value, input)
  }
  const groups = make('div', {class: 'sd-bars'}, ...given.tokens.map((token, i) =>
    make('div', {class: 'sd-group'}, make('div', {class: 'sd-pair'}, bar('p', i), bar('q', i)),
         make('div', {class: 'sd-pq', 'aria-hidden': 'true'}, make('span', {}, 'p'), make('span', {}, 'q')), make('span', {}, token))))

  const heat = slider('temperature', {min: .1, max: 5, step: .1, value: T, digits: 1}, t => { T = t; show() })
  const again = make('button', {type: 'button', onclick: () => { z.p = [...given.p]; z.q = [...given.q]; T = given.temperature; heat.set(T); show() }}, 'reset')
  const answer = make('p', {class: 'sd-answer', role: 'status'}), body = make('tbody')
  const head = make('tr', {}, make('th', {scope: 'col'}, 'token'), ...given.tokens.map(t => make('th', {scope: 'col'}, t)), make('th', {scope: 'col'}, 'sum'))
  root.append(key({'kept: min(p, q)': COLOUR.kept, 'p beyond q: the residual, for a correction': COLOUR.correction, 'q beyond p: rejected': COLOUR.rejected}),
              groups, make('p', {class: 'sd-key'}, 'p is the target, q the draft model. Drag a bar, or focus it and press the arrow keys.'),
              heat, answer, make('table', {}, make('thead', {}, head), body), again)

  const show = () => {
    const law = {p: softmax(z.p, T), q: softmax(z.q, T)}, both = shared(law.p, law.q), d = tv(law.p, law.q)
    for (const k of 'pq') law[k].forEach((x, i) => {
      const {fill, value, input} = bars[k][i], height = `calc(${EDGE}px + ${x} * (100% - ${2 * EDGE}px))`
      fill.style.height = height
      fill.style.background = `linear-gradient(to top, ${COLOUR.kept} ${100 * both[i] / x}%, ${beyond[k]} 0)`
      value.style.bottom = `calc(${EDGE + 2}px + ${x} * (100% - ${2 * EDGE}px))`
      value.textContent = brief(x, 2)
      input.value = x
      input.setAttribute('aria-valuetext', x.toFixed(3))
    })
    answer.replaceChildren('α = ', make('b', {'data-name': 'alpha', 'data-value': total(both)}, total(both).toFixed(3)), ' = 1 − TV, with TV = ', make('span', {'data-name': 'tv', 'data-value': d}, d.toFixed(3)))
    body.replaceChildren(...Object.entries({p: law.p, q: law.q, 'min(p, q)': both, residual: residual(law.p, law.q)}).map(([name, row]) =>
      make('tr', {'data-row': name}, make('th', {scope: 'row'}, name), ...[...row, total(row)].map(x => make('td', {'data-value': x}, brief(x, 3))))))
  }
  show()
})
