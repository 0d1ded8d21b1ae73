// The arithmetic of specdec.theory; at gamma = 0 the target decodes alone, one row a pass
const expected = (alpha, gamma) => {
  let tokens = 1
  for (let i = 0, all = 1; i < gamma; i++) tokens += all *= alpha
  return tokens
}
const speedup = (alpha, gamma, c, v) => gamma ? expected(alpha, gamma) / (gamma * c + v) : 1
const best = (alpha, c, v, longest) => {
  let found = 0
  for (let g = 1; g <= longest; g++) if (speedup(alpha, g, c, v) > speedup(alpha, found, c, v)) found = g
  return found
}

start('speedup', (root, given) => {
  const now = {...given}, LONGEST = given.gamma_max, measured = Object.entries(given.measured).map(([g, s]) => [+g, s])
  const set = (name, label, range) => slider(label, {...range, value: given[name]}, x => { now[name] = x; show() })
  const chart = draw('svg', {role: 'img', style: 'background: none; padding: 0; border-radius: 0'})  // whatever a site does to its pictures
  const answer = make('p', {class: 'sd-answer', role: 'status'}), advice = make('p', {role: 'status'})
  root.append(set('alpha', 'acceptance α', {min: 0, max: 1, step: .01}), set('gamma', 'draft length γ', {min: 0, max: LONGEST, step: 1, digits: 0}),
              set('c', 'draft pass c', {min: 0, max: Math.max(1, given.c), step: .01}), set('v', 'verify pass v', {min: Math.min(.5, given.v), max: Math.max(3, given.v), step: .05}),
              answer, advice, chart, key({'speedup; filled: chosen γ, ringed: best γ': COLOUR.series, ...(measured.length ? {'measured: crosses': COLOUR.grey} : {})}))

  const plot = (gains, top) => {
    const W = Math.max(280, root.clientWidth - 30 || 360), H = 230, L = 34, B = 36, T = 14
    const x = g => L + g / LONGEST * (W - L - 12), y = s => H - B - Math.min(s, top) / top * (H - B - T)
    const line = (x1, y1, x2, y2, more) => draw('line', {x1, y1, x2, y2, stroke: 'currentColor', ...more})
    const text = (px, py, words, anchor = 'middle') => draw('text', {x: px, y: py, 'text-anchor': anchor}, words)
    const apart = Math.ceil(top / 5), ticks = Array.from({length: Math.floor(top / apart) + 1}, (_, i) => i * apart), every = LONGEST > 12 ? 4 : 2
    const dot = (g, s, r, fill, more = {}) => draw('circle', {cx: x(g), cy: y(s), r, fill, ...more})
    chart.setAttribute('viewBox', `0 0 ${W} ${H}`)
    chart.replaceChildren(
      ...ticks.flatMap(t => [line(L, y(t), W - 12, y(t), {'stroke-opacity': .15}), text(L - 6, y(t) + 4, `${t}×`, 'end')]),
      ...gains.flatMap((_, g) => g % every ? [] : [text(x(g), H - B + 16, g)]), text((L + W) / 2, H - 4, 'draft length γ'),
      line(L, y(1), W - 12, y(1), {'stroke-dasharray': '6 4', 'data-name': 'even'}), text(W - 12, y(1) - 5, 'break-even', 'end'),
      draw('polyline', {points: gains.map((s, g) => `${x(g)},${y(s)}`).join(' '), fill: 'none', stroke: COLOUR.series, 'stroke-width': 2}),
      ...gains.map((s, g) => dot(g, s, 3, COLOUR.series)), dot(now.best, gains[now.best], 8, 'none', {stroke: 'currentColor', 'stroke-width': 2}),
      dot(now.gamma, gains[now.gamma], 5, COLOUR.series, {stroke: 'currentColor'}),
      ...measured.map(([g, s]) => draw('path', {d: `M${x(g) - 5} ${y(s) - 5}l10 10m0 -10l-10 10`, stroke: COLOUR.grey, 'stroke-width': 2.5, 'data-name': 'measured'})))
  }
  const show = () => {
    const gains = Array.from({length: LONGEST + 1}, (_, g) => speedup(now.alpha, g, now.c, now.v))
    now.best = best(now.alpha, now.c, now.v, LONGEST)
    const said = (name, x, digits) => make('b', {'data-name': name, 'data-value': x}, x.toFixed(digits))
    answer.replaceChildren('τ = ', said('tau', expected(now.alpha, now.gamma), 2), ' tokens a round, speedup ', said('speedup', gains[now.gamma], 2), '×')
    advice.replaceChildren(now.best ? 'best γ = ' : 'no γ gains: ', said('best', now.best, 0), now.best ? `, ${gains[now.best].toFixed(2)}×` : ', decode with the target alone')
    chart.setAttribute('aria-label', `Speedup against draft length. At γ = ${now.gamma}: ${gains[now.gamma].toFixed(2)}. Best γ: ${now.best}.`)
    plot(gains, Math.max(2, Math.ceil(Math.max(...gains, ...measured.map(m => m[1])))))
  }
  new ResizeObserver(show).observe(root)
  show()
})
