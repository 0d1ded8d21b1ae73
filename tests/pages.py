"What a page says about its place in the book: what it assumes, and where it sends the reader."
import json, posixpath, re
from pathlib import Path
import yaml

ASSUMES = re.compile(r'(?:^|(?<=[.!] ))(?:It |This page )?(?:\*\*)?[Aa]ssumes(?:\*\*)?\s\S', re.M)
HERE = r'\b(?:Next|go next|try next):|\*\*Next\*\* is|^## (?:Where to go next|Next)$'        # what begins a Next ...
# ... which ends with its paragraph
NEXT = re.compile(rf'(?:{HERE})(.+?)(?=\n\n\S|\Z)', re.M | re.S)
LINK = re.compile(r'\]\(([^)\s#]*\.ipynb)')

def prose(nb):
    "The Markdown of a notebook"
    cells = json.loads(Path(nb).read_text(encoding='utf-8'))['cells']
    return '\n\n'.join(''.join(c['source']) for c in cells if c['cell_type'] == 'markdown')

def targets(text):
    "The notebooks that the text's Next leads to, in order"
    return [link for found in NEXT.finditer(text) for link in LINK.findall(found[1])]

def faults(text, folder):
    "What is missing in the text of a page that lies in `folder`"
    if not ASSUMES.search(text): yield 'it does not say what it assumes'
    if not targets(text): yield 'it says nowhere, with a link, what comes next'
    for link in targets(text):
        if not (Path(folder)/link).is_file(): yield f'Next leads to {link}, which is not there'

def order(root):
    "The pages in the order of the sidebar, which is that of the pager at the foot of each page"
    entries = yaml.safe_load((Path(root)/'_quarto.yml').read_text(encoding='utf-8'))['website']['sidebar']['contents']
    return [page for section in entries for page in section['contents']]

def strays(pages, texts):
    "Pages whose first Next is not the page that the pager shows: page, what it says, what comes"
    for page, follows in zip(pages, pages[1:]):
        said = [posixpath.normpath(posixpath.join(posixpath.dirname(page), link)) for link in targets(texts[page])]
        if said[:1] != [follows]: yield page, said[:1], follows
