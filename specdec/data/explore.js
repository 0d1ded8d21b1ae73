// Shared by the explorables: arithmetic-free helpers. Each explorable is `start(kind, build)`: build(root, given) fills one element.
// The palette of specdec.figures
const COLOUR = {target: '#2F76EE', draft: '#CE832A', kept: '#187B61', rejected: '#C34211', correction: '#9952AE', grey: '#8F8F8F', series: '#56728F'}
const total = xs => xs.reduce((a, b) => a + b, 0)

const dress = (node, attrs, inside) => {
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith('on')) node.addEventListener(k.slice(2), v)
    else if (v !== undefined) node.setAttribute(k, v)
  }
  node.append(...inside)
  return node
}
const make = (tag, attrs = {}, ...inside) => dress(document.createElement(tag), attrs, inside)
const draw = (tag, attrs = {}, ...inside) => dress(document.createElementNS('http://www.w3.org/2000/svg', tag), attrs, inside)

// A labelled native slider; `act` is told each new value
const slider = (name, {min, max, step, value, digits = 2}, act) => {
  const said = make('span', {class: 'sd-num', 'aria-hidden': 'true'}, value.toFixed(digits))
  const input = make('input', {type: 'range', min, max, step, 'aria-label': name, oninput: () => { said.textContent = (+input.value).toFixed(digits); act(+input.value) }})
  input.value = value
  const box = make('label', {class: 'sd-slider'}, make('span', {}, name), input, said)
  box.set = v => { input.value = v; said.textContent = v.toFixed(digits) }
  return box
}

const key = names => make('p', {class: 'sd-key'}, ...Object.entries(names).flatMap(([name, colour]) => [make('i', {style: `background: ${colour}`}), name]))

// A token as a box shows it, running text, and what became of a drafted token
const MARK = {' ': '·', '\n': '⏎', '\t': '⇥'}
const coded = c => /[\p{C}\p{Z}]/u.test(c) ? `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}` : c
const visible = s => [...s].map(c => MARK[c] || coded(c)).join('')
const plain = s => [...s].map(c => MARK[c] ? c : coded(c)).join('')     // running text: white space as it is
const fate = (r, i) => i < r.n ? 'kept' : i < r.tested ? 'rejected' : 'untested'
const share = x => x < .001 && x > 0 ? x.toExponential(0) : x.toFixed(3)

const start = (kind, build) => document.querySelectorAll(`.sd-${kind}:not([data-ready])`).forEach(root => {
  root.dataset.ready = ''
  root.replaceChildren()
  build(root, JSON.parse(root.dataset.given))
})
