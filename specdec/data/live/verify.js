// The rules of specdec.verification, line by line. A row is a distribution: an array of V numbers that sum to 1.
// p: gamma + 1 rows of the target, q: gamma rows of the draft model, x: drafted tokens, u: coins in [0, 1).
function sum(row) {
  let all = 0
  for (let y = 0; y < row.length; y++) all += row[y]
  return all
}

function rowOf(V, entry) {                             // entry(0) .. entry(V - 1)
  const row = new Float64Array(V)
  for (let y = 0; y < V; y++) row[y] = entry(y)
  return row
}

function scaled(row) {
  const all = sum(row)
  for (let y = 0; y < row.length; y++) row[y] /= all
  return row
}

export function probs(logits, temperature) {           // the next-token distribution; temperature 0: all on the argmax
  let best = 0
  for (let y = 1; y < logits.length; y++) if (logits[y] > logits[best]) best = y
  if (temperature === 0) return new Float64Array(logits.length).fill(1, best, best + 1)
  const row = new Float64Array(logits.length), top = logits[best]
  for (let y = 0; y < row.length; y++) row[y] = Math.exp((logits[y] - top) / temperature)
  return scaled(row)
}

export function residual(p, q, w = 1) {                // what w p has and q lacks; p where nothing is left
  const left = rowOf(p.length, y => Math.max(w * p[y] - (q ? q[y] : 0), 0))
  return sum(left) > 0 ? scaled(left) : p
}

export const token = {                                 // keep until u q(x) < p(x) first fails
  ratio: (p, q, x) => x.map((t, i) => [p[i][t], q[i][t]]),
  count: coins => coins.includes(false) ? coins.indexOf(false) : coins.length,
  closing: (p, q, x, n) => residual(p[n], q[n]),
}

const weights = (p, q, x) => x.reduce((w, t, i) => [...w, Math.min(1, w[i] * p[i][t] / q[i][t])], [1])

export const block = {                                 // judge the draft as a whole: keep up to the last success
  ratio(p, q, x) {
    const w = weights(p, q, x)
    return x.map((_, j) => {
      const i = j + 1
      if (w[i] >= 1) return [1, 1]
      if (i === x.length) return [w[i], 1]
      const s = sum(rowOf(p[i].length, y => Math.max(w[i] * p[i][y] - q[i][y], 0)))
      return [s, s + 1 - w[i]]
    })
  },
  count: coins => coins.lastIndexOf(true) + 1,
  closing: (p, q, x, n) => residual(p[n], q[n], weights(p, q, x)[n]),
}

export const RULES = {token, block}
export const judge = (rule, p, q, x, u) => rule.count(rule.ratio(p, q, x).map(([a, b], i) => u[i] * b < a))

export function draw(row, random) {                    // a token; never one without a chance
  let left = random() * sum(row), last = 0
  for (let y = 0; y < row.length; y++) {
    if (row[y] > 0) last = y
    left -= row[y]
    if (left < 0 && row[y] > 0) return y
  }
  return last
}

export function coins(seed) {                          // mulberry32: the same numbers in [0, 1) for the same seed
  let a = seed >>> 0
  return () => {
    a = (a + 0x6D2B79F5) | 0
    let t = Math.imul(a ^ (a >>> 15), a | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
