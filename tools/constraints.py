"""Print constraints.txt for the environment that runs this: the versions of the package's whole dependency tree, dev
extras included."""
import re
from importlib.metadata import distribution, PackageNotFoundError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from nbdev.config import get_config

def name(s): return re.sub(r'[-_.]+', '-', s).lower()

def tree(todo):
    "Every installed distribution that the requirements `todo` reach, extras included: {name: distribution}"
    seen, done = {}, set()
    while todo:
        r = Requirement(todo.pop())
        key = (name(r.name), frozenset(r.extras))
        if key in done: continue
        done.add(key)
        try: d = seen[key[0]] = distribution(r.name)
        except PackageNotFoundError: continue                      # for another platform
        for dep in map(Requirement, d.requires or []):
            if not dep.marker or any(dep.marker.evaluate({'extra': e}) for e in {'', *r.extras}):
                todo.append(str(dep).split(';')[0])
    return seen

def pin(d, oldest):
    "One line; a release that needs a Python above `oldest` says so, so that older ones may pick their own"
    needs = SpecifierSet(d.metadata['Requires-Python'] or '')
    low = next(f'3.{m}' for m in range(int(oldest.split('.')[1]), 30) if f'3.{m}.99' in needs)
    marker = '' if low == oldest else f'; python_version >= "{low}"'
    return f"{d.metadata['Name']}=={d.version.split('+')[0]}{marker}"

if __name__ == '__main__':
    cfg = get_config()
    found = tree((cfg.requirements + ' ' + cfg.dev_requirements).split())
    print('# The versions the tests ran with; made by tools/constraints.py. A CPU build of torch is enough:\n'
          '# where the default one brings gigabytes of CUDA, install the CPU build of this version first.')
    for n in sorted(found): print(pin(found[n], cfg.min_python))
