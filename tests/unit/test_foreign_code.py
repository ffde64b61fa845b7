"""Nothing in the package runs what it reads: no pickles, no evaluated texts, no shells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb

MODULES = sorted(Path(livingdb.__file__).parent.rglob("*.py"))
FORBIDDEN_MODULES = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve", "yaml"}
FORBIDDEN_CALLS = {"__import__", "compile", "eval", "exec"}
STARTS_PROGRAMS = {"Popen", "call", "check_call", "check_output", "run"}
FORBIDDEN_ATTRIBUTES = {("os", "popen"), ("os", "system"), ("pd", "read_pickle")}


def offences(tree: ast.AST) -> Iterator[str]:
    """What runs code that came as data, or could."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[0] for alias in node.names]
            yield from (f"import {name}" for name in names if name in FORBIDDEN_MODULES)
        elif isinstance(node, ast.ImportFrom):
            name = (node.module or "").partition(".")[0]
            if name in FORBIDDEN_MODULES:
                yield f"from {name}"
        elif isinstance(node, ast.Call):
            yield from _call(node)


def _call(node: ast.Call) -> Iterator[str]:
    function = node.func
    owner = getattr(getattr(function, "value", None), "id", "")
    name = getattr(function, "attr", getattr(function, "id", ""))
    if isinstance(function, ast.Name) and name in FORBIDDEN_CALLS:
        yield name
    if (owner, name) in FORBIDDEN_ATTRIBUTES:
        yield f"{owner}.{name}"
    for given in node.keywords:
        is_off = isinstance(given.value, ast.Constant) and given.value.value is False
        is_risk = given.arg == "allow_pickle" or (given.arg == "shell" and name in STARTS_PROGRAMS)
        if is_risk and not is_off:
            yield f"{given.arg}="


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import pickle", ["import pickle"]),
        ("def f():\n    from yaml import load", ["from yaml"]),
        ("eval('1')", ["eval"]),
        ("subprocess.run('ls', shell=True)", ["shell="]),
        ("np.load(path, allow_pickle=flag)", ["allow_pickle="]),
        ("np.load(path, allow_pickle=False)", []),
        ("os.system('ls')", ["os.system"]),
        ("re.compile('a')", []),
        ("text.eval()", []),
    ],
)
def test_what_is_looked_for(text: str, found: list[str]) -> None:
    assert list(offences(ast.parse(text))) == found


def test_no_module_runs_what_it_reads() -> None:
    assert len(MODULES) > 400
    found = {str(path): list(offences(ast.parse(path.read_text()))) for path in MODULES}
    assert {path: what for path, what in found.items() if what} == {}
