"Build metadata: every value comes from settings.ini."
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup

HERE = Path(__file__).resolve().parent
ini = ConfigParser(delimiters=['='], interpolation=None)
ini.read(HERE/'settings.ini', encoding='utf-8')
cfg = ini['DEFAULT']
lib, words = cfg['lib_path'], lambda key: cfg[key].split()

setup(
    name=cfg['lib_name'],
    version=cfg['version'],
    description=cfg['description'],
    long_description=(HERE/'README.md').read_text(encoding='utf-8') if (HERE/'README.md').exists()
    else cfg['description'],
    long_description_content_type='text/markdown',
    keywords=words('keywords'),
    author=cfg['author'],
    author_email=cfg['author_email'],
    license='Apache-2.0',
    classifiers=['Development Status :: 3 - Alpha', 'Intended Audience :: Developers', 'Intended Audience :: Education',
                 'Programming Language :: Python :: 3', 'Topic :: Scientific/Engineering :: Artificial Intelligence'],
    python_requires=f">={cfg['min_python']}",
    packages=find_packages(include=[lib, f'{lib}.*']),
    # globs in package_data are not recursive, so the data files are listed one by one
    package_data={lib: [p.relative_to(HERE/lib).as_posix() for p in sorted((HERE/lib/'data').rglob('*'))
                        if p.is_file()]},
    include_package_data=False,
    install_requires=words('requirements'),
    extras_require={k: words(f'{k}_requirements') for k in ('dev', 'accelerate', 'ray', 'smollm2')},
    entry_points={'console_scripts': words('console_scripts'), 'nbdev': [f'{lib}={lib}._modidx:d']},
    zip_safe=False,
)
