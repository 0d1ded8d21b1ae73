// The loop of specdec.decoding: draft, verify, close, rewind.
import { coins, draw, judge, probs, RULES } from './verify.js'

export class Model {                                   // a session with its keys and values; it can be rewound
  constructor(session, {layers, heads, size, context}, Tensor) {
    this.dims = [layers, 2, heads, size]
    this.size = 2 * layers * heads * size              // numbers a token
    this.past = new Float32Array(context * this.size)  // token by token, so that rewinding is only counting
    Object.assign(this, {session, Tensor, length: 0})
  }

  rollback(n) { this.length = Math.min(this.length, n) }

  async forward(ids) {                                 // logits after each of the new ids, [m, V]
    const m = ids.length, used = this.length * this.size
    const past = new this.Tensor('float32', this.past.subarray(0, used), [this.length, ...this.dims])
    const out = await this.session.run({ids: new this.Tensor('int64', BigInt64Array.from(ids, BigInt), [m]), past})
    this.past.set(out.new.data, used)
    this.length += m
    const V = out.logits.dims[1]
    return Array.from({length: m}, (_, i) => out.logits.data.subarray(i * V, (i + 1) * V))
  }
}

const clock = () => performance.now() / 1000

// A draft of at most `g` tokens, each as soon as it is drawn
async function* drafted(draft, ids, g, temperature, random) {
  const text = [...ids]
  for (let i = 0; i < g; i++) {
    const rows = await draft.forward(text.slice(draft.length))
    const q = probs(rows.at(-1), temperature), x = draw(q, random)
    text.push(x)
    yield {x, q}
  }
}

// Steps of the text after `ids` until it has `limit` tokens: {kind: 'draft' | 'verdict' | 'round', ...}
export async function* decoding({target, draft, ids, limit, gamma = 4, temperature = 0, seed = 0, rule = 'token'}) {
  const random = coins(seed), judged = RULES[rule]
  ids = [...ids]
  target.rollback(0)
  draft?.rollback(0)
  while (ids.length < limit) {
    const x = [], q = [], begun = clock()
    const g = draft ? Math.min(gamma, limit - ids.length - 1) : 0
    for await (const step of g ? drafted(draft, ids, g, temperature, random) : []) {
      x.push(step.x)
      q.push(step.q)
      yield {kind: 'draft', i: x.length - 1, x: step.x, q: step.q[step.x]}
    }
    const rows = await target.forward([...ids, ...x].slice(target.length))
    const p = rows.slice(-x.length - 1).map(row => probs(row, temperature))
    const u = x.map(random), n = judge(judged, p, q, x, u), h = judged.ratio(p, q, x)
    const seen = {x, u, n, p: x.map((t, i) => p[i][t]), q: x.map((t, i) => q[i][t]), need: h.map(([a, b]) => a / b)}
    for (let i = 0; i < Math.min(n + 1, x.length); i++) yield {kind: 'verdict', i, ...seen}
    const tokens = [...x.slice(0, n), draw(judged.closing(p, q, x, n), random)]
    ids.push(...tokens)
    target.rollback(ids.length - 1)
    draft?.rollback(ids.length - 1)
    yield {kind: 'round', ...seen, tokens, closing: n < x.length ? 'correction' : 'bonus', seconds: clock() - begun}
  }
}

const median = xs => [...xs].sort((a, b) => a - b)[Math.floor(xs.length / 2)]

// What passes cost here: c, and v for each draft length up to `longest`, in passes of the target over one token
export async function costs({target, draft, ids, longest = 10, laps = 5}) {
  const timed = async (model, m) => {
    model.rollback(ids.length)
    const begun = clock(), rows = await model.forward(ids.slice(0, m))
    rows.forEach(row => probs(row, 1))
    return clock() - begun
  }
  const seconds = {draft: [], target: Array.from({length: longest + 1}, () => [])}
  for (const model of [target, draft]) { model.rollback(0); await model.forward(ids) }
  for (let lap = 0; lap <= laps; lap++) {              // the first is not counted
    const kept = lap ? seconds : {draft: [], target: seconds.target.map(() => [])}
    for (let m = 1; m <= longest + 1; m++) {
      kept.draft.push(await timed(draft, 1))
      kept.target[m - 1].push(await timed(target, m))
    }
  }
  const one = median(seconds.target[0])
  return {c: median(seconds.draft) / one, v: seconds.target.map(o => median(o) / one), seconds: one}
}
