"Each page says where it stands in the book, in words that a program can follow."
import pages, pytest

def test_every_page_says_where_it_stands(root, notebooks):
    "What it assumes, and which pages come next, pages that are there; the first page assumes nothing and shows the way to all"
    found = {p.relative_to(root/'nbs').as_posix(): [*pages.faults(pages.prose(p), p.parent)] for p in notebooks if p != root/'nbs/index.ipynb'}
    assert len(found) == len(notebooks) - 1 and not {k: v for k, v in found.items() if v}

NEXT = 'Next: [c](c.ipynb)'
GOOD = f'# A\n\nAssumes [b](b.ipynb). {NEXT}, and more.\n\nThe next token is drawn.'

@pytest.mark.parametrize('text, fault', [
    (GOOD, None),
    (GOOD.replace(NEXT, 'And [c](c.ipynb)'), 'says nowhere'),
    (GOOD.replace(NEXT, 'The next chapter links to [c](c.ipynb)'), 'says nowhere'),
    (GOOD.replace(NEXT, 'Next: c'), 'says nowhere'),
    (GOOD.replace('c.ipynb', 'd.ipynb'), 'd.ipynb, which is not there'),
    (GOOD.replace('Assumes', 'See'), 'what it assumes')])
def test_a_page_that_does_not_is_found(tmp_path, text, fault):
    "A line that is gone, the word `next` in another sense, a Next without a link, and one that leads nowhere"
    for name in 'abc': (tmp_path/f'{name}.ipynb').touch()
    found = [*pages.faults(text, tmp_path)]
    assert len(found) == (fault is not None) and all(fault in line for line in found)

def test_next_leads_to_every_link_of_its_paragraph():
    more = '\n\n## Next\n\nOne: [d](../d.ipynb), [e](e.ipynb#part).\n\n[f](f.ipynb)'
    assert pages.targets(GOOD + more) == ['c.ipynb', '../d.ipynb', 'e.ipynb']

def test_next_is_what_the_pager_shows(root):
    "The foot of a page shows the one that follows in the sidebar, and the text sends the reader there first"
    order = pages.order(root)[1:]                             # the first page shows the way to all
    texts = {p: pages.prose(root/'nbs'/p) for p in order}
    assert len(order) > 40 and not [*pages.strays(order, texts)]

@pytest.mark.parametrize('said, strays', [
    ('b.ipynb', []), ('c.ipynb', [('a/a.ipynb', ['a/c.ipynb'], 'a/b.ipynb')]), ('', [('a/a.ipynb', [], 'a/b.ipynb')])])
def test_a_next_that_strays_is_found(said, strays):
    texts = {'a/a.ipynb': f'Next: [x]({said})', 'a/b.ipynb': 'Next: [c](c.ipynb)', 'a/c.ipynb': ''}
    assert [*pages.strays([*texts], texts)] == strays
