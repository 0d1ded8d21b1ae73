"The index of traps (nbs/notes/traps): for each row a fault of its kind is put into the package, and a check that the row names must fail."
import ast, json
import mutants, pytest

pytestmark = pytest.mark.slow

#  a trap's first words; what is read; what is read instead; who must notice
MUTANTS = [
    ('The argmax is drafted',
     'x.append(new := sampler.draw(q[-1]))', 'x.append(new := q[-1].argmax(-1))',
     'test_drafts::test_sampled_text_has_the_targets_law'),
    ('Temperature, top-k or top-p',
     'p = sampler.rows(logits, text[:L + len(x)])', 'p = logits.float().softmax(-1)',
     'decoding#law-z'),
    ('The residual through a softmax',
     'return r / r.sum(-1, keepdim=True)', 'return r.softmax(-1)',
     'acceptance#wrong-exact-test'),
    ('p equals q',
     'r = torch.where(r.sum(-1, keepdim=True) > 0, r, p)', 'pass',
     'acceptance#zero-residual-test'),
    ('A confidence stop',
     'if keep_going and not keep_going(logits[0].float().softmax(-1)): break',
     'if keep_going and not keep_going(logits[0].float().softmax(-1)): q.pop(); x.pop(); break',
     'drafting#stop-test'),
    ('Text or statistics go on',
     'if stop else (x, n, x[:n] + [y])', 'if None else (x, n, x[:n] + [y])',
     'test_properties::test_greedy_text_counts_and_caches'),
    ('The budget is missed',
     'min(gamma, limit - L - 1)', 'min(gamma, limit - L)',
     'test_controllers::test_greedy_text_and_exact_budget'),
    ('A block reaches beyond',
     'if lm.length + len(ids) > lm.max_length:', 'if False:',
     'models#bounds-test'),
    ('After a round in which all was kept',
     'new = ids[lm.length:]', 'new = ids[-1:]',
     'drafting#rounds-test'),
    ('A rejected draft stays',
     'target.rollback(L - 1); draft.rollback(L - 1)', 'target.rollback(target.length); draft.rollback(L - 1)',
     'test_properties::test_greedy_text_counts_and_caches'),
    ('Rows on top of a cache',
     'hidden = columns > at[:, None]',
     'hidden = columns > at[:, None] + 1',
     'written_out#causal-test'),
    ('A near-tie in half precision',
     "'tie' if margin <= tolerance else 'FAULT'", "'tie'",
     'decoding#tie-test'),
    ('Vocabularies of different width',
     'F.pad(logits, (0, extra), value=-torch.inf)', 'F.pad(logits, (0, extra))',
     'drafting#fit-test'),
    ('A penalty sees',
     'processors(ids[None, :before + i], rows[i:i + 1])', 'processors(ids[None], rows[i:i + 1])',
     'distributions#processed-test'),
    ('Two prompts',
     'if ids.ndim > 2 or ids.ndim == 2 and len(ids) != 1:', 'if False:',
     'test_requests::test_prompts_and_models_that_are_refused'),
    ('The draft has a shorter context',
     'for _ in range(min(gamma, lm.max_length - len(ids) + 1)):', 'for _ in range(gamma):',
     'test_drafts::test_contexts_and_vocabularies_of_other_sizes'),
    ('Drafting pauses',
     'max(self.gamma_min, min(self.gamma_max, int(length)))', 'min(self.gamma_max, int(length))',
     'test_controllers::test_recovers_from_fifty_bad_rounds'),
    ('Marks after the first failure',
     'return coins.cumprod(0).sum(0, keepdim=True)', 'return coins.sum(0, keepdim=True)',
     'verification#token-rule-test'),
    ('Seed 0 is no seed',
     'if seed is None: g.seed()', 'if not seed: g.seed()',
     'distributions#generator-test'),
    ('A clock is read while',
     'self.wait()\n        return self.now()', 'return self.now()',
     'timing#clock-test'),
    ('The baseline has no cache',
     'return median(rates) / median(plain), min(ratios)', 'return max(1., median(rates) / median(plain)), min(ratios)',
     'comparing#loss-test'),
    ('A device has no float64',
     "torch.float32 if p.device.type == 'mps' else torch.float64", 'torch.float64',
     'test_no_float64::test_draws_in_float32_have_the_law_and_no_zeros'),
    ('A test that needs the network',
     'local_files_only=folder or not spoke', 'local_files_only=folder',
     'fetching#test-fetch'),
    ('Ten moves of a slider',
     'if self.timer: self.timer.cancel()', 'pass',
     'parts#live-test'),
]

@pytest.fixture(scope='module')
def traps(root):
    "Row -> the checks that it names"
    cells = json.loads((root/'nbs/notes/traps.ipynb').read_text(encoding='utf-8'))['cells']
    source = ''.join(next(c['source'] for c in cells if c['id'] == 'rows'))
    return {trap: where.split() for trap, where in ast.literal_eval(source[source.index('{'):source.rindex('}')
                                                                           + 1]).items()}

def test_every_row_has_a_fault(traps):
    tried = [trap for trap, *_ in MUTANTS]
    assert len(tried) == len({*tried}) and not [row for row in traps if not row.startswith(tuple(tried))]

@pytest.mark.parametrize('trap, old, new, check', MUTANTS, ids=[m[0] for m in MUTANTS])
def test_the_fault_is_noticed(traps, tmp_path, trap, old, new, check):
    row = next((row for row in traps if row.startswith(trap)), None)
    assert row and check in traps[row], f'{trap}: the page does not name {check}'
    place = mutants.copy(tmp_path)
    mutants.mutate(place, old, new)
    noticed, said = mutants.notices(place, check)
    assert noticed, said
