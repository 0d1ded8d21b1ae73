// The models in a thread of their own. Calls come one after the other; a run can be stopped, and stepped through.
import * as ort from './ort.wasm.bundle.min.mjs'
import { Tokenizer } from './tokenizers.min.mjs'
import { Model, costs, decoding } from './decode.js'

let models, tokenizer, context
const waiting = {}                                     // number of a run -> what lets it go on
const stopped = new Set()

async function fetched(name, tell) {                   // the bytes of a file beside this one
  const answer = await fetch(new URL(name, import.meta.url))
  if (!answer.ok) throw new Error(`${name}: ${answer.status} ${answer.statusText}`)
  const parts = []
  for (const reader = answer.body.getReader(); ;) {
    const {done, value} = await reader.read()
    if (done) break
    parts.push(value)
    tell(value.length)
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer())
}

const parsed = bytes => JSON.parse(new TextDecoder().decode(bytes))

async function load(_, tell) {
  const files = await (await fetch(new URL('files.json', import.meta.url))).json()
  let came = 0
  const count = n => tell({kind: 'loading', came: came += n, all: files.bytes})
  const bytes = name => fetched(name, count)
  const [wasm, target, draft, tokens, config] =
    await Promise.all(['ort-wasm-simd-threaded.wasm', 'target.onnx', 'draft.onnx', 'tokenizer.json', 'tokenizer_config.json'].map(bytes))
  tell({kind: 'loading', came: files.bytes, all: files.bytes})
  tokenizer = new Tokenizer(parsed(tokens), parsed(config))
  Object.assign(ort.env.wasm, {numThreads: 1, wasmBinary: wasm.buffer, wasmPaths: new URL('.', import.meta.url).href})
  const open = async (weights, shape) => new Model(await ort.InferenceSession.create(weights), shape, ort.Tensor)
  models = {target: await open(target, files.target), draft: await open(draft, files.draft)}
  context = files.target.context
  return {on: 'WebAssembly', bytes: files.bytes}
}

const encode = text => Array.from(tokenizer.encode(text).ids, Number)
const decode = ids => ids.length ? tokenizer.decode(ids, {skip_special_tokens: false, clean_up_tokenization_spaces: false}) : ''

function checked({prompt, maxNewTokens = 64, gamma = 4, temperature = 0, seed = 0, rule = 'token'}) {
  const ids = encode(prompt)
  if (!ids.length) throw new Error('the prompt is empty: write something')
  if (ids.length >= context) throw new Error(`the prompt has ${ids.length} tokens: at most ${context - 1} have room`)
  if (!(Number.isInteger(maxNewTokens) && maxNewTokens >= 0)) throw new Error(`maxNewTokens=${maxNewTokens}: it must be a whole number >= 0`)
  if (!(Number.isInteger(gamma) && gamma >= 1)) throw new Error(`gamma=${gamma}: it must be a whole number >= 1`)
  if (!(temperature >= 0 && temperature < Infinity)) throw new Error(`temperature=${temperature}: it must be a number >= 0`)
  if (!['token', 'block'].includes(rule)) throw new Error(`rule=${rule}: it must be token or block`)
  return {ids, limit: Math.min(ids.length + maxNewTokens, context), gamma, temperature, seed, rule}
}

const channel = new MessageChannel()
const breath = () => new Promise(go => { channel.port1.onmessage = go; channel.port2.postMessage(0) })   // lets messages in

// What each token adds to the text: nothing while a character is unfinished (specdec.rounds.pieces)
function writer() {
  let before = [], held = []
  return token => {
    held.push(token)
    if (decode(held).endsWith('\ufffd')) return ''
    const text = before.length ? decode([...before, ...held]).slice(decode(before).length) : decode(held)
    before = held
    held = []
    return text
  }
}

async function run({alone = false, stepped = false, ...options}, tell, id) {
  const settings = checked(options), rounds = [], write = writer(), began = performance.now()
  const word = t => decode([t])
  for await (const step of decoding({...settings, target: models.target, draft: alone ? null : models.draft})) {
    if (stopped.delete(id)) return {rounds, stopped: true}
    if (step.kind === 'round') {
      rounds.push(step)
      tell({...step, texts: step.tokens.map(write), words: step.x.map(word), last: word(step.tokens.at(-1))})
    } else if (stepped) tell({...step, word: word(step.kind === 'draft' ? step.x : step.x[step.i])})
    if (stepped) await new Promise(go => { waiting[id] = go })
    else if (step.kind === 'round') await breath()
    if (stopped.delete(id)) return {rounds, stopped: true}
  }
  return {rounds, seconds: (performance.now() - began) / 1000}
}

async function generate(options, tell, id) {
  const {rounds, seconds} = await run(options, () => {}, id)
  const tokens = rounds.flatMap(r => r.tokens)
  return {tokens, text: decode(tokens), rounds: rounds.map(({x, n, tokens}) => ({x, n, tokens})), seconds}
}

async function plain(options, tell, id) {
  const {tokens, seconds} = await generate({...options, alone: true}, tell, id)
  return {tokens, seconds}
}

const measure = text => costs({...models, ids: encode(text).slice(0, 48)})

const CALLS = {load, encode, decode, generate, plain, run, measure}
let queue = Promise.resolve()

onmessage = ({data: {id, call, given}}) => {
  if (call === 'stop') { stopped.add(given); waiting[given]?.(); return }
  if (call === 'next') { waiting[given]?.(); return }
  const tell = event => postMessage({id, event})
  queue = queue.then(async () => {
    try {
      postMessage({id, result: await CALLS[call](given, tell, id)})
    } catch (e) {
      postMessage({id, error: e.message || String(e)})
    }
    stopped.delete(id)
    delete waiting[id]
  })
}
