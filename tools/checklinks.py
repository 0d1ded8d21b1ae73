"""Check every local link, image and #anchor of a built site.

    python tools/checklinks.py _docs"""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

class Page(HTMLParser):
    "The anchors of a page and what it refers to"
    def __init__(self, text): super().__init__(); self.ids, self.links = {'', 'top'}, []; self.feed(text)
    def handle_starttag(self, tag, attrs):
        d = {k: v for k,v in attrs if v}
        self.ids.update(d[k] for k in ('id', 'name', 'data-anchor-id') if k in d)
        self.links += [d[k] for k in ('href', 'src') if k in d]

def check(site):
    "(number of links looked at, [(page, link, fault)])"
    site = Path(site).resolve()
    pages = {f: Page(f.read_text(encoding='utf-8')) for f in site.rglob('*.html')}
    n, bad = 0, []
    for f,p in pages.items():
        for link in p.links:
            u = urlsplit(link)
            if u.scheme or u.netloc: continue
            n += 1
            path = unquote(u.path)
            to = f if not path else (site/path.lstrip('/') if path.startswith('/') else f.parent/path).resolve()
            if to.is_dir(): to /= 'index.html'
            if not to.is_relative_to(site) or not to.exists(): bad.append((f.relative_to(site), link, 'missing'))
            elif to in pages and unquote(u.fragment) not in pages[to].ids:
                bad.append((f.relative_to(site), link, 'no such anchor'))
    return n, bad

if __name__ == '__main__':
    n, bad = check(sys.argv[1])
    for row in bad: print(*row)
    print(f'{n} links, {len(bad)} broken')
    sys.exit(bool(bad) or not n)
