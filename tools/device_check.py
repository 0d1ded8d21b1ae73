"""Does the package do on this device what its notebooks prove on a CPU, and how fast? Checks first, then a table of
times.

    python tools/device_check.py --device cuda --json check.json    # under 5 minutes; real sizes, random weights
    python tools/device_check.py --device cpu --quick               # small shapes, seconds: as the tests run it

Checks: the same greedy text from every loop in float32; the law of sampled text against the exact one, and against a
wrong one that it must
reject; steps on fixed memory (CUDA graphs) against plain steps; one wait for the device a round. Then tokens per
second of plain
and speculative decoding, with plain steps and with recorded ones, beside transformers. The exit code is 1 when a
check fails."""
import argparse, json, sys, warnings
from itertools import product
from random import Random
from statistics import median
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from specdec import autoregressive, generate, load_pair, stream
from specdec.comparing import hf_generate, new_tokens
from specdec.machine import environment
from specdec.timing import Clock, interleave
from specdec.decoding import lossless_report
from specdec.distributions import probs
from specdec.written_out import GraphedGPT2, StaticGPT2, as_cached
from specdec.dialled import Favouring, dialled_pair
from specdec.zoo import pick_device, pick_dtype, random_gpt2

FEW = dict(vocab_size=300, n_positions=256, n_embd=32, n_head=2)
PAIRS = {False: [('gpt2-large', 'distilgpt2'), ('gpt2-xl', 'gpt2')],
         True: [({**FEW, 'n_layer': 4}, {**FEW, 'n_layer': 1})]}
KINDS = dict(steps=StaticGPT2, graphs=GraphedGPT2)

def views(pair, kind)->list: # target and draft as our loop sees them
    return [Favouring(kind(m.plain), m.script) if hasattr(m, 'plain') else kind(m) for m in (pair.target, pair.draft)]

def greedy_text(device, new):
    "The trained pair: every loop writes what the target alone writes, up to rounding at near-ties (which is reported)"
    pair = load_pair(device=device, dtype='float32')
    ids = torch.tensor(pair.tokenizer('def read(path):\n    ').input_ids, device=device)
    reference = hf_generate(pair.target, ids, new)
    texts = dict(transformers_assisted=hf_generate(pair.target, ids, new, pair.draft, 4))
    for name, kind in KINDS.items():
        target, draft = views(pair, kind)
        texts |= {f'plain_{name}': autoregressive(target, ids, new).tokens,
                  f'speculative_{name}': generate(target, draft, ids, new).tokens}
    verdicts = {k: lossless_report(pair.target, ids, t, reference).verdict for k, t in texts.items()}
    return all(v != 'FAULT' for v in verdicts.values()) and (device.type != 'cpu'
                                                             or {*verdicts.values()} == {'exact'}), verdicts

def law(device, runs, V=4, new=3):
    "Chi-square of sampled texts against the target's exact distribution, in sigmas, and against a wrong one"
    shape = dict(vocab_size=V, n_positions=16, n_embd=32, n_head=2, bos_token_id=None, eos_token_id=None,
                 tie_word_embeddings=False, initializer_range=.15)
    target, draft = (random_gpt2(seed, n_layer=n, **shape).to(device) for seed, n in ((1, 2), (2, 1)))
    texts = torch.tensor(list(product(range(V), repeat=new)), device=device)
    before = torch.cat([torch.zeros_like(texts[:, :1]), texts[:, :-1]], 1)
    def exact(model):
        "Probability of each text under `model` alone"
        rows = probs(model(before).logits.float())
        return rows.gather(-1, texts[..., None]).prod(1)[:, 0].cpu().double()
    with torch.inference_mode(): laws = [exact(m) for m in (target, draft)]
    lms, counts = [as_cached(m) for m in (target, draft)], torch.zeros(len(texts), dtype=torch.double)
    for seed in range(runs):
        tokens = generate(*lms, [0], new, gamma=2, temperature=1., seed=seed).tokens
        counts[tokens @ torch.tensor([V**i for i in reversed(range(new))])] += 1
    right, wrong = (float((((counts - runs*p)**2/(runs*p)).sum() - len(p) + 1) / (2*len(p) - 2)**.5) for p in laws)
    return abs(right) < 5 < wrong, dict(runs=runs, sigmas=right, sigmas_wrong_law=wrong)

def graphs(device, steps):
    "A random walk: steps on fixed memory give the logits of plain steps, to rounding"
    m = random_gpt2(0, **FEW, n_layer=3, bos_token_id=None, eos_token_id=None).to(device)
    a, b, rng, worst = StaticGPT2(m), GraphedGPT2(m), Random(0), 0.
    for _ in range(steps):
        if a.length > 240 or rng.random() < .3: n = rng.randint(0, a.length); a.rollback(n); b.rollback(n)
        else:
            ids = torch.tensor([rng.randrange(300) for _ in range(rng.randint(1, 9))], device=device)
            worst = max(worst, float((a.forward(ids) - b.forward(ids)).abs().max()))
    return worst < 1e-4, dict(largest_difference=worst, recorded=sum(s[2] is not None for s in b.steps.values()),
                              sizes=len(b.steps))

class Waits(TorchDispatchMode):
    "Counts the operations inside for which the host waits"
    def __init__(self): super().__init__(); self.count = 0
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        name, to = str(op), (kwargs or {}).get('device')
        waited = name.startswith(('aten._local_scalar_dense', 'aten.equal', 'aten.is_nonzero', 'aten.nonzero'))
        self.count += waited or name.startswith('aten._to_copy') and to == torch.device('cpu')
        return op(*args, **(kwargs or {}))

def waits(device, new):
    "Waits a round, seen by torch's dispatcher and, on CUDA, by its own alarm; the second run, which records nothing"
    pair, found = dialled_pair(*PAIRS[True][0], device=device, dtype='float32'), {}
    for (name, kind), temperature in product(KINDS.items(), (0., 1.)):
        lms = views(pair, kind)
        for _ in range(2):
            rounds = stream(*lms, list(range(8)), new, temperature=temperature, seed=0)
            # before the first token of a text the weights are looked at, and waited for
            next(rounds)
            with Waits() as spy, warnings.catch_warnings(record=True) as alarms:
                warnings.simplefilter('always')
                if device.type == 'cuda': torch.cuda.set_sync_debug_mode('warn')
                try: done = len(list(rounds))
                finally:
                    if device.type == 'cuda': torch.cuda.set_sync_debug_mode('default')
        heard = sum('synchronizing' in str(w.message) for w in alarms)
        found[f'{name}, temperature {temperature:g}'] = max(spy.count, heard) / done
    return all(v == 1 for v in found.values()), found

def times(device, quick, dtype, names, runs, new):
    "Median seconds for `new` tokens behind a prompt of 64 (8 when `quick`), all methods in turn"
    pair, ways = dialled_pair(*names, dtype=dtype, device=device), {}
    ids = torch.arange(8 if quick else 64, device=device)
    for name, kind in KINDS.items():
        target, draft = views(pair, kind)
        ways[f'plain_{name}'] = lambda x, target=target: autoregressive(target, x, new)
        ways[f'speculative_{name}'] = lambda x, target=target, draft=draft: generate(target, draft, x, new)
    ways |= dict(transformers=lambda x: hf_generate(pair.target, x, new),
                 transformers_assisted=lambda x: hf_generate(pair.target, x, new, pair.draft, 4))
    seconds, results = interleave(ways, [ids], runs, clock=Clock(device))
    texts = [torch.as_tensor(new_tokens(y[0])).tolist() for y in results.values()]
    stats = results['speculative_steps'][0].stats
    return dict(pair=pair.name, dtype=dtype, same_text=all(t == texts[0] for t in texts), alpha_hat=stats.alpha_hat,
                tau=stats.tau,
                tokens_per_second={k: new/median(s for s, in v) for k, v in seconds.items()})

def main(argv=None)->int: # exit code
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--device', default='auto', help='auto, cpu, cuda or mps')
    parser.add_argument('--quick', action='store_true', help='small shapes, a few tokens')
    parser.add_argument('--runs', type=int, default=3, help='timed runs of each method')
    parser.add_argument('--json', metavar='FILE', help='write everything there')
    args = parser.parse_args(argv)
    try: device = pick_device(args.device)
    except ValueError as e: parser.error(str(e))
    quick, new = args.quick, 24 if args.quick else 96
    checks, table = {}, []
    for name, check in dict(greedy_text=lambda: greedy_text(device, new),
                            law=lambda: law(device, 400 if quick else 2000),
                            graphs=lambda: graphs(device, 60 if quick else 300),
                            waits=lambda: waits(device, new)).items():
        passed, what = check()
        checks[name] = dict(passed=passed, **what)
        print(f'{"ok  " if passed else "FAIL"} {name}: '
              + ', '.join(f'{k} {v:.3g}' if isinstance(v, float) else f'{k} {v}' for k, v in what.items()), flush=True)
    print(f'\n{"tokens per second":50}' + ''.join(f'{o:>12}' for o in ('plain', 'speculative', 'ratio')))
    half = pick_dtype('auto', device if device.type != 'cpu' else 'cuda')
    for names, dtype in product(PAIRS[quick], ('float32', str(half).removeprefix('torch.'))):
        row = times(device, quick, dtype, names, args.runs, new); table.append(row)
        rate = row['tokens_per_second']
        for what, a, b in (('steps', 'plain_steps', 'speculative_steps'),
                           ('graphs', 'plain_graphs', 'speculative_graphs'),
                           ('transformers', 'transformers', 'transformers_assisted')):
            print(f'{row["pair"]:25} {dtype:10}{what:14}{rate[a]:12.1f}{rate[b]:12.1f}{rate[b]/rate[a]:12.2f}',
                  flush=True)
    checks['same_text'] = dict(passed=all(r['same_text'] for r in table))
    if args.json:
        with open(args.json, 'w') as f:
            json.dump(dict(checks=checks, table=table, quick=quick,
                           environment=environment(device, 'float32 and ' + str(half))), f, indent=1)
    return 0 if all(c['passed'] for c in checks.values()) else 1

if __name__ == '__main__': sys.exit(main())
