"The docs site: every page is there, its links, figures and mathematics hold, and it opens in a browser without complaint."
import functools, http.server, importlib, mimetypes, re, subprocess, sys, threading
from contextlib import contextmanager
import checklinks, pytest, yaml

pytestmark = pytest.mark.slow

@pytest.fixture(scope='module')
def site(root):
    subprocess.run([sys.executable, 'tools/build_docs.py', '--smalldocs'], cwd=root, check=True)
    return root/'_docs'

@pytest.fixture(scope='module')
def pages(root, notebooks):
    "Where each notebook is to be found in the site"
    return {p.relative_to(root/'nbs').as_posix(): (p.relative_to(root/'nbs').parent/re.sub(r'^\d+_', '', p.stem)).as_posix() + '.html' for p in notebooks}

def html(site, page): return (site/page).read_text(encoding='utf-8')

def test_every_notebook_has_its_page(site, pages):
    assert [nb for nb,page in pages.items() if not (site/page).exists()] == []

def test_sidebar_has_every_page_once(site, pages):
    bar = re.search(r'<nav id="quarto-sidebar".*?</nav>', html(site, 'index.html'), re.S)[0]
    links = [l.removeprefix('./') or 'index.html' for l in re.findall(r'<a href="([^"]*)" class="sidebar-item-text', bar)]
    assert sorted(links) == sorted(pages.values())

def test_no_broken_link(site):
    n, bad = checklinks.check(site)
    assert n > 100 and not bad, bad

def test_figures_mathematics_and_api(root, site, pages):
    "The argument has formulas; each chapter but the side rooms shows something, and has an API entry for what it exports"
    bar = yaml.safe_load((root/'_quarto.yml').read_text(encoding='utf-8'))['website']['sidebar']['contents']
    side = next(s['contents'] for s in bar if s['section'] == 'Side rooms')
    for nb,page in pages.items():
        text = html(site, page)
        if re.match(r'0[0-3]_', nb): assert text.count('class="math') >= 3, f'{page}: formulas'
        if re.match(r'\d\d_', nb):
            module = importlib.import_module(f'specdec.{page.removesuffix(".html")}')
            called = [n for n in module.__all__ if callable(getattr(module, n))]
            assert '>source</a>' in text or not called, f'{page}: no API entry of {called}'
            main = text.split('<main', 1)[1]
            assert nb in side or re.search(r'<img|<svg|<table|class="cell-output', main), f'{page}: it shows nothing'

def test_code_has_no_links_in_markdown(site, pages):
    for page in pages.values():
        for pre in re.findall(r'<pre.*?</pre>', html(site, page), re.S): assert not (found := re.search(r'\[`[^`\n]+`\]\(', re.sub('<[^>]*>', '', pre))), f'{page}: {found[0]}'

def prose(site, page):
    "The text of a page that a reader sees as text: without scripts, code and tags"
    main = html(site, page).split('<main', 1)[1].split('</main>')[0]
    return re.sub('<[^>]*>', '', re.sub(r'<(script|style|pre|code)\b.*?</\1>', '', main, flags=re.S))

def test_no_page_shows_how_it_was_made(site, pages):
    "No half of a link, no path of the machine that built it, no complaint of the builder, and no picture without a description"
    for page in pages.values():
        main = html(site, page).split('<main', 1)[1]
        assert not (found := re.search(r'\]\([^)\s]{1,80}\)', prose(site, page))), f'{page}: {found[0]}'
        assert not (found := re.search(r'(?<![\w.])/(?:work|root|home|Users|tmp)/\S*|\w+\.py:\d+: \w*Warning', re.sub('<[^>]*>', '', main))), f'{page}: {found[0]}'
        assert not [i[:80] for i in re.findall(r'<img\b[^>]*>', main) if not re.search(r'alt="[^"]+"', i)], page

def test_search_finds_every_page(site, pages):
    found = (site/'search.json').read_text(encoding='utf-8')
    assert [p for p in pages.values() if p not in found] == []

@pytest.fixture(scope='module')
def served(site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args): pass
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=str(site))) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{s.server_port}'
        s.shutdown()

@pytest.fixture(scope='module')
def katex(root):
    "A local copy of KaTeX, if there is one (npm install --ignore-scripts katex@0.16.11), in place of the one on the net"
    return next(filter(lambda p: p.is_dir(), [root/'node_modules/katex/dist', root.parent/'node_modules/katex/dist']), None)

@contextmanager
def visits(browser, katex, **kw):
    "A function that opens a page, with everything outside refused (KaTeX comes from the copy), and gives it with what it complained about"
    context = browser.new_context(**kw)                                              # its pages share what was loaded
    def outside(route):
        m = re.search(r'/katex@[^/]+/dist/(.+)$', route.request.url.split('?')[0])
        if katex and m and (katex/m[1]).is_file():
            kind = mimetypes.guess_type(m[1])[0] or 'application/octet-stream'
            route.fulfill(path=str(katex/m[1]), headers={'Access-Control-Allow-Origin': '*', 'Content-Type': kind, 'Cache-Control': 'max-age=600'})
        else: route.abort()
    context.route(re.compile(r'^https?://(?!127\.0\.0\.1)'), outside)
    page, faults = context.new_page(), []
    page.on('pageerror', lambda e: faults.append(str(e)))
    page.on('console', lambda m: faults.append(m.text) if m.type == 'error' and '127.0.0.1' in m.location.get('url', '') and 'net::ERR_FAILED' not in m.text else None)
    page.on('response', lambda r: faults.append(f'{r.status} {r.url}') if r.status >= 400 else None)
    def visit(url):
        faults.clear()
        page.goto(url, wait_until='load')
        if katex: page.wait_for_function('!document.querySelector("span.math:not(:has(.katex))")', timeout=10_000)
        return page, faults
    yield visit
    context.close()

def test_pages_open_without_complaint(served, browser, katex, pages):
    "Each page shows its images and formulas, and is no wider than a phone when it is on one"
    with visits(browser, katex) as visit:
        for path in pages.values():
            page, faults = visit(f'{served}/{path}')
            assert not faults, (path, faults)
            assert page.locator('main h1').count() and page.title(), path
            assert page.evaluate('[...document.images].every(i => i.complete && i.naturalWidth > 0)'), f'{path}: an image does not show'
            assert page.locator('.katex-error, .katex [mathcolor="#cc0000"]').count() == 0, f'{path}: a formula KaTeX cannot read'
            page.set_viewport_size(dict(width=390, height=800))
            wide = page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
            assert wide <= 1, f'{path}: {wide} pixels wider than a phone'
            page.set_viewport_size(dict(width=1280, height=720))

def test_titles_for_those_who_share_a_link(site, pages):
    for page in pages.values():
        for name in ('og:title', 'og:description', 'twitter:card'): assert re.search(rf'<meta (?:property|name)="{name}" content="[^"]+"', html(site, page)), f'{page}: {name}'

def test_no_such_page(site): assert 'index.html' in html(site, '404.html').split('<main', 1)[1]

def test_accessible(served, browser, katex, root):
    "axe-core finds no serious fault on the first page, in a chapter and beside an explorable, in light and in dark"
    axe = next((p for p in (root/'node_modules/axe-core/axe.min.js', root.parent/'node_modules/axe-core/axe.min.js') if p.is_file()), None)
    if not axe: pytest.skip('axe-core is not here: npm install --ignore-scripts --no-save axe-core')
    for scheme in ('light', 'dark'):
        with visits(browser, katex, color_scheme=scheme) as visit:
            for path in ('index.html', 'acceptance.html', 'theory.html', 'verification.html', 'tutorials/start_here.html', 'explorables.html', 'widgets.html', '404.html'):
                page, _ = visit(f'{served}/{path}')
                assert page.evaluate('document.documentElement.classList.contains("quarto-dark")') == (scheme == 'dark')
                page.add_script_tag(path=str(axe))
                found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")['violations']
                serious = [(v['id'], [n['target'] for n in v['nodes'][:3]]) for v in found if v['impact'] in ('serious', 'critical')]
                assert not serious, (scheme, path, serious)

def test_search_box(served, browser, katex):
    with visits(browser, katex) as visit:
        page, _ = visit(f'{served}/index.html')
        page.get_by_role('searchbox').first.fill('verify')
        page.locator('.smalldocs-search-results a').first.wait_for(timeout=10_000)
