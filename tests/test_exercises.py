"Exercises: each check lets the worked answer pass and rejects the empty stub, and every wrong answer that is kept beside it."
import json, re, subprocess, sys
import pytest
from conftest import ROOT

PAGES = sorted((ROOT/'nbs/tutorials/exercises').glob('*.ipynb'))
PARTS = ['question', 'stub', 'check', 'answer']
RUN = '''
import json, sys
from execnb.shell import CaptureShell
cells = json.loads(open(sys.argv[1], encoding='utf-8').read())['cells']
shell, names = CaptureShell(sys.argv[1]), None
def run(source):
    shell.run(source)
    return type(shell.exc).__name__ if shell.exc else None
def verdict(k, name): return run(f'check_{k}({name})')
found = {}
for c in cells:
    if c['cell_type'] != 'code': continue
    k, _, part = c['id'].removeprefix('e').partition('-')
    broken = run(''.join(c['source']))
    assert not broken, (c['id'], broken)
    if part == 'check': found[k] = dict(stub=verdict(k, f'answer_{k}'))
    if part == 'answer': found[k]['answer'] = verdict(k, f'answer_{k}')
    if part == 'wrong': found[k]['wrong'] = [verdict(k, f'wrong_{k}[{i}]') for i in range(len(shell.user_ns[f'wrong_{k}']))]
print('FOUND', json.dumps(found))
'''
BROKEN = {'NameError', 'SyntaxError', 'ImportError', 'ModuleNotFoundError'}          # the check itself does not work

def judged(page):
    "Exercise -> what its check said of the stub, the answer and the wrong answers: None, or the name of an error"
    r = subprocess.run([sys.executable, '-c', RUN, page.name], cwd=page.parent, capture_output=True, text=True, timeout=600)
    said = re.search('^FOUND (.*)$', r.stdout, re.M)
    assert said, r.stdout[-500:] + r.stderr[-1500:]
    return json.loads(said[1])

def faults(ids, found):
    "What is wrong with a page, one line each"
    asked = [k for i in ids if (k := re.fullmatch(r'e(\d+)-question', i))]
    if not asked: yield 'it asks nothing'
    for k in (m[1] for m in asked):
        missing = [p for p in PARTS if f'e{k}-{p}' not in ids]
        said = found.get(k, {})
        if missing: yield f'{k}: no {", ".join(missing)}'; continue
        if said['answer']: yield f'{k}: the worked answer is rejected ({said["answer"]})'
        for what in [said['stub'], *said.get('wrong', [])]:
            if what is None: yield f'{k}: a wrong answer passes'
            elif what in BROKEN: yield f'{k}: the check is broken ({what})'

def page_of(path): return [c['id'] for c in json.loads(path.read_text(encoding='utf-8'))['cells']]

@pytest.mark.parametrize('page', PAGES, ids=lambda p: p.stem)
def test_checks_tell_right_from_wrong(page): assert not [*faults(page_of(page), judged(page))]

def test_every_chapter_links_to_its_exercises(root):
    "And every page belongs to a chapter"
    for page in PAGES:
        book = next((root/'nbs').glob(f'*_{page.stem}.ipynb'), root/f'nbs/tutorials/{page.stem}.ipynb')
        assert f'exercises/{page.name}' in book.read_text(encoding='utf-8'), f'{book.name} has no link to {page.name}'

CHECK = 'def check_1(answer):\n    assert answer(1) == 2, "one more"'
def small(check=CHECK, answer='def answer_1(x): return x + 1', wrong='wrong_1 = [lambda x: x + 2]'):
    "A page with one exercise"
    sources = dict(stub='def answer_1(x): ...', check=check, wrong=wrong, answer=answer)
    return [dict(cell_type='markdown', id='e1-question', source='?')] + [dict(cell_type='code', id=f'e1-{k}', source=s) for k, s in sources.items()]

@pytest.mark.parametrize('changed, fault', [
    ({}, None),
    (dict(check='def check_1(answer): pass'), 'a wrong answer passes'),
    (dict(check='def check_1(answer):\n    assert callable(answer) and answer(1)'), 'a wrong answer passes'),
    (dict(check='def check_1(answer):\n    assert nothing(answer)'), 'rejected'),
    (dict(answer='def answer_1(x): return x'), 'rejected')], ids=['right', 'no check', 'a lax check', 'a broken check', 'a wrong answer'])
def test_a_page_that_does_not_is_found(tmp_path, changed, fault):
    page = tmp_path/'a.ipynb'
    page.write_text(json.dumps(dict(cells=small(**changed))))
    found = [*faults(page_of(page), judged(page))]
    assert bool(found) == (fault is not None) and (fault is None or fault in found[0]), found
