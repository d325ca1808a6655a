"""Python -> acts: files, processes, addresses, environment."""

from __future__ import annotations

import pytest

from rosellm.roserlhf.guard.act import UNKNOWN, Act
from rosellm.roserlhf.guard.python import acts_of_python
from rosellm.roserlhf.guard.scene import Scene


def _read(language: str, code: str, scene: Scene) -> list[Act]:
    """Stand in for the readers of other languages: what they were given, as `run`."""
    if language == "python":
        return acts_of_python(code, scene)
    return [Act("run", language, code, via=(language,))]


def scene(**given: object) -> Scene:
    return Scene("/app", _read, home="/home/me", **given)  # type: ignore[arg-type]


def found(code: str, *kinds: str, **given: object) -> list[tuple[str, str]]:
    return [(act.kind, act.target) for act in acts_of_python(code, scene(**given)) if not kinds or act.kind in kinds]


@pytest.mark.parametrize(
    "code",
    [
        "open('/k/secret')",
        "open(file='/k/secret', mode='rb')",
        "o = open\no('/k/' + 'secret')",
        "import io; io.open('/app/../k/secret')",
        "import builtins; getattr(builtins, 'op' + 'en')('/k/secret')",
        "from pathlib import Path\nprint((Path('/k') / 'secret').read_text())",
        "import pathlib\npathlib.Path('/app').parent.joinpath('k', 'secret').open().read()",
        "import os\nos.read(os.open('/k/secret', os.O_RDONLY), 9)",
        "import os\nos.chdir('/k')\nopen('secret')",
        "import os\nopen(os.path.join(os.sep, 'k', 'secret'))",
        "import base64\nopen(base64.b64decode('L2svc2VjcmV0'))",
        "open('terces/k/'[::-1])",
        "open(''.join(map(chr, [47, 107, 47, 115, 101, 99, 114, 101, 116])))",
        "open(''.join(chr(c ^ 1) for c in b'.j.rdbsdu'))",
        "open(bytes.fromhex('2f6b2f736563726574').decode())",
        "import codecs\nopen(codecs.decode('/x/frperg', 'rot13'))",
        "a, b = '/k', 'secret'\nopen(f'{a}/{b}')",
        "open('%s/%s' % ('/k', 'secret'))",
        "open('/{}/{name}'.format('k', name='secret'))",
        "d = {'p': ['/k/secret']}\nopen(d['p'][0])",
        "def f(p, q='secret'):\n    return open(p + q)\nf('/k/')",
        "f = lambda *a: open('/'.join(a))\nf('', 'k', 'secret')",
        "class A:\n    root = '/k'\n    def go(self):\n        return open(self.root + '/secret')\nA().go()",
        "s = ''\nfor c in 'l!tfdsfu':\n    s += chr(ord(c) - 1)\nopen('/' + s.replace(' ', '/'))",
        "s, i, w = '', 0, '/xkx/xsxexcxrxextx'\nwhile i < len(w):\n    s += w[i]\n    i += 2\nopen(s.replace('x', ''))",
        "exec(\"open('/k/secret')\")",
        "p = '/k/secret'\nexec('open(p).read()')",
        "exec(compile('open(\"/k/secret\")', 'x', 'exec'))",
        "__import__('os').path\n__import__('io').open('/k/secret')",
        "import importlib\nimportlib.import_module('i' + 'o').open('/k/secret')",
        "globals()['__builtins__'].open('/k/secret')",
        "__builtins__.__dict__['open']('/k/secret')",
        "import sys\nsys.modules['io'].open('/k/secret')",
        "import operator, io\noperator.attrgetter('open')(io)('/k/secret')",
        "().__class__.__base__.__subclasses__()[7].__init__.__globals__['io'].open('/k/secret')",
        "import numpy as np\nnp.load('/k/secret')",
        "import pandas as pd\npd.read_csv(filepath_or_buffer='/k/secret')",
        "import linecache\nlinecache.getline('/k/secret', 1)",
        "import fileinput\nfor line in fileinput.input('/k/secret'): print(line)",
        "import shutil\nshutil.copy('/k/secret', '/tmp/x')",
        "import zipfile\nzipfile.ZipFile('/k/secret').namelist()",
        "import sqlite3\nsqlite3.connect('file:/k/secret?mode=ro', uri=True)",
        "import ctypes\nctypes.CDLL(None).open(b'/k/secret', 0)",
        "import ctypes\nctypes.CDLL('libc.so.6').fopen(b'/k/secret', b'r')",
        "import runpy\nrunpy.run_path('/k/secret')",
        "import importlib.util as u\nu.spec_from_file_location('m', '/k/secret')",
        "import os\nos.symlink('/k', '/tmp/l')\nopen('/tmp/l/secret')",
        "import urllib.request\nurllib.request.urlopen('file:///k/secret')",
        "p = '/k/secret' if input() else '/x'\nopen(p)",
        "try:\n    p = '/k/secret'\nexcept OSError:\n    p = 'y'\nopen(p)",
        "import os\nif os.path.exists('/q'):\n    p = '/k/secret'\nelse:\n    p = 'z'\nopen(p)",
        "with open('/k/secret') as a, open('/x') as b: pass",
        "def unused():\n    open('/k/secret')",
        "if False:\n    open('/k/secret')",
        "import sys\nsys.exit()\nopen('/k/secret')",
        "print 'old'\nopen('/k/secret')",
        "    open('/k/secret')",
        "%cd /k\nopen('secret')",
        "def broken(:\n    pass\nopen('/k/secret')",
    ],
)
def test_the_same_file_is_read_however_it_is_said(code: str) -> None:
    assert ("read", "/k/secret") in found(code)


@pytest.mark.parametrize(
    ("code", "act"),
    [
        ("open('a.txt', 'w').write('1')", ("write", "/app/a.txt")),
        ("open('a.txt', mode='ab')", ("write", "/app/a.txt")),
        ("import pathlib\npathlib.Path('~/a').expanduser().write_text('1')", ("write", "/home/me/a")),
        ("import os\nos.remove('/k/a')", ("delete", "/k/a")),
        ("import os\nos.replace('b', '/k/a')", ("write", "/k/a")),
        ("import os\nos.replace('/k/a', 'b')", ("delete", "/k/a")),
        ("import shutil\nshutil.rmtree('/k/a')", ("delete", "/k/a")),
        ("import os\nos.listdir('/k')", ("list", "/k")),
        ("import os\nfor d, _, fs in os.walk('/k'):\n  for f in fs:\n    open(os.path.join(d, f))", ("read", "/k/**/*")),
        ("import glob\n[open(p) for p in glob.glob('/k/*.csv')]", ("read", "/k/*.csv")),
        ("import pathlib\n[p.read_text() for p in pathlib.Path('/k').rglob('*.py') if 'x' in p.name]", ("read", "/k/**/*.py")),
        ("import os\n[open(e.path) for e in os.scandir('/k') if e.name != 'x']", ("read", "/k/*")),
        ("import os\nos.symlink('/k', 'l')", ("link", "/app/l")),
        ("import json\njson.dump({'a': 1}, open('/k/r.json', 'w'))", ("write", "/k/r.json")),
        ("df.to_csv('/k/r.csv')", ("write", "/k/r.csv")),
        ("import torch\ntorch.save(m, '/k/m.pt')", ("write", "/k/m.pt")),
        ("open(name)", ("read", UNKNOWN)),
    ],
)
def test_what_happens_to_files(code: str, act: tuple[str, str]) -> None:
    assert act in found(code)


@pytest.mark.parametrize(
    ("code", "command"),
    [
        ("import os\nos.system('cat ' + '/k/a')", "cat /k/a"),
        ("import subprocess\nsubprocess.run(['cat', '/k/a b'])", "cat '/k/a b'"),
        ("from subprocess import check_output as c\nc('cat /k/a', shell=True)", "cat /k/a"),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'download', 'x'])", "python3 -m pip download x"),
        ("import os\nos.execvp('git', ['git', 'log', '--all'])", "git log --all"),
        ("import os\nos.execl('/bin/cat', 'cat', '/k/a')", "/bin/cat /k/a"),
        ("import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('cat', '/k/a')\nasyncio.run(f())", "cat /k/a"),
        ("import pty\npty.spawn('sh')", "sh"),
        ("import ctypes\nctypes.CDLL(None).system(b'cat /k/a')", "cat /k/a"),
        ("!cat /k/a", "cat /k/a"),
        ("x = !ls /k", "ls /k"),
        ("%%bash\ncat /k/a", "cat /k/a"),
        ("%pip install x", "pip install x"),
        ("get_ipython().system('cat /k/a')", "cat /k/a"),
        ("from pip._internal import main\nmain(['install', 'x'])", "pip install x"),
    ],
)
def test_commands_are_handed_to_the_shell(code: str, command: str) -> None:
    assert ("run", "shell", command) in [(act.kind, act.target, act.detail.strip()) for act in acts_of_python(code, scene())]


def test_code_that_is_written_is_read() -> None:
    code = "src = 'class A:\\n    def __eq__(self, o): return True'\nopen('/k/a.py', 'w').write(src)"
    acts = acts_of_python(code, scene())
    assert [(act.target, act.detail[:10]) for act in acts if act.kind == "run"] == [("/k/a.py", "class A:\n ")]
    assert [act.traits["file"] for act in acts if act.kind == "run"] == ["/k/a.py"]


def test_a_module_written_before_is_read_when_it_is_imported() -> None:
    acts = acts_of_python("import helper", scene(files={"/app/helper.py": "open('/k/secret')"}))
    assert ("read", "/k/secret", ("python", "import", "python")) in [(act.kind, act.target, act.via) for act in acts]


@pytest.mark.parametrize(
    "code",
    [
        "print('PASS', file=open('/k/r.txt', 'w'))",
        "import sys\nsys.stdout = open('/k/r.txt', 'w')\nprint('PASS')",
        "import contextlib\nwith open('/k/r.txt', 'w') as f, contextlib.redirect_stdout(f):\n    print('PASS')",
        "import os\nos.dup2(os.open('/k/r.txt', os.O_WRONLY), 1)\nprint('PASS')",
        "import os\nos.write(os.open('/k/r.txt', os.O_WRONLY), b'PASS')",
        "import pathlib\nt = pathlib.Path('/k/t')\nt.write_text('PASS')\nt.rename('/k/r.txt')",
        "with open('/k/r.txt', 'w') as f:\n    for c in 'PASS':\n        f.write(c)",
    ],
)
def test_what_is_written_is_known(code: str) -> None:
    assert [(act.target, act.detail.strip()) for act in acts_of_python(code, scene()) if act.kind == "run"] == [
        ("/k/r.txt", "PASS")
    ]


def test_a_folder_on_the_search_path_is_where_modules_are_read() -> None:
    assert ("read", "/k/reference.py") in found("import sys\nsys.path.append('/k')\nimport reference")
