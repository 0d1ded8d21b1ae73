"A stand-in for the hub on localhost: the addresses that a download asks for, and the answers that go wrong."
import hashlib, http.server, json, re, threading
from contextlib import contextmanager

COMMIT = 'c0ffee' * 6 + 'c0ff'

class Hub(http.server.BaseHTTPRequestHandler):
    files = {}                                  # 'model/acme/tiny' -> {name: bytes}
    gated, token, broken, asked = set(), None, None, []
    tired = {}                                  # repository -> the status with which all of it is answered
    def log_message(self, *args): pass

    def answer(self, status, body=b'', **headers):
        self.send_response(status)
        for k, v in {'X-Repo-Commit': COMMIT, 'Content-Length': len(body), **headers}.items(): self.send_header(k.replace('_', '-'), str(v))
        self.end_headers()
        if self.command != 'HEAD': self.wfile.write(body)

    def do_GET(self):
        self.asked.append((self.path, self.headers.get('authorization')))
        api = re.match(r'/api/(model|dataset)s/([^/]+/[^/?]+)(?:/(?:revision|tree)/([^/?]+))?', self.path)
        file = re.match(r'/(datasets/)?(.+?)/resolve/([^/]+)/(.+)', self.path)
        if not api and not file: return self.answer(404)
        kind, repo, revision = api.groups() if api else ('dataset' if file[1] else 'model', file[2], file[3])
        key, revision = f'{kind}/{repo}', revision or 'main'
        if status := self.tired.get(repo): return self.answer(status, X_Error_Message='Invalid credentials in Authorization header' if status == 401 else 'not now')
        if key not in self.files: return self.answer(404, X_Error_Code='RepoNotFound')
        if key in self.gated and self.headers.get('authorization') != f'Bearer {self.token}': return self.answer(403, X_Error_Code='GatedRepo')
        if revision not in ('main', COMMIT): return self.answer(404, X_Error_Code='RevisionNotFound')
        if api and '/tree/' in self.path:
            return self.answer(200, json.dumps([dict(type='file', path=n, size=len(b), oid=hashlib.sha1(b).hexdigest()) for n, b in self.files[key].items()]).encode(), Content_Type='application/json')
        if api: return self.answer(200, json.dumps(dict(id=repo, sha=COMMIT, siblings=[dict(rfilename=n) for n in self.files[key]])).encode(), Content_Type='application/json')
        data = self.files[key].get(file[4])
        if data is None: return self.answer(404, X_Error_Code='EntryNotFound')
        if self.broken == file[4] and self.command == 'GET':                    # half a file, then the line goes dead
            self.send_response(200); self.send_header('Content-Length', str(len(data))); self.send_header('ETag', '"e"'); self.end_headers()
            return self.wfile.write(data[:len(data)//2])
        self.answer(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"')
    do_HEAD = do_GET

@contextmanager
def serving(**state):
    "A hub with its own `files`, `gated`, `token`, `broken`; yields its address and what was asked for"
    cls = type('This', (Hub,), {'asked': [], **state})
    with http.server.ThreadingHTTPServer(('127.0.0.1', 0), cls) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{s.server_port}', cls
        s.shutdown()
