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
RUNS_SHELLS = {"create_subprocess_shell", "getoutput", "getstatusoutput", "popen", "system"}
RUNS_CODE = {"InteractiveInterpreter", "run_module", "run_path"}
READS_PICKLES = {"read_pickle", "to_pickle", "unsafe_load", "full_load", "UnsafeLoader"}
FORBIDDEN_NAMES = RUNS_SHELLS | RUNS_CODE | READS_PICKLES
SHELL_OWNERS = {"asyncio", "commands", "os", "subprocess"}
STARTS_OTHERS = ("exec", "posix_spawn", "spawn")
LOADS_MODULES = "derivation/trusted_functions.py"
"""The one place that imports what is named in a text, and looks first whether it is trusted."""


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
            for alias in node.names:
                if name == "builtins" and alias.name in FORBIDDEN_CALLS:
                    yield f"from builtins import {alias.name}"
                is_shell = name in SHELL_OWNERS and alias.name in RUNS_SHELLS
                if is_shell or (name == "os" and alias.name.startswith(STARTS_OTHERS)):
                    yield f"from {name} import {alias.name}"
                if name == "importlib" and alias.name in ("import_module", "__import__", "util"):
                    yield f"from {name} import {alias.name}"
        elif isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS:
            yield node.id  # called, or given to who calls it
        elif isinstance(node, ast.Attribute) and node.attr == "import_module":
            yield node.attr
        elif isinstance(node, ast.Call):
            yield from _call(node)


def _call(node: ast.Call) -> Iterator[str]:
    function = node.func
    owner = getattr(getattr(function, "value", None), "id", "")
    name = getattr(function, "attr", getattr(function, "id", ""))
    if owner == "builtins" and name in FORBIDDEN_CALLS:
        yield f"{owner}.{name}"
    if name in FORBIDDEN_NAMES and (name not in RUNS_SHELLS or owner in SHELL_OWNERS):
        yield f"{owner}.{name}"
    if owner == "yaml" and name in ("load", "load_all"):
        yield f"{owner}.{name}"
    if owner == "os" and name.startswith(STARTS_OTHERS):
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
        ("pd.read_pickle(path)", ["pd.read_pickle"]),
        ("frame.to_pickle(path)", ["frame.to_pickle"]),
        ("yaml.load(text)", ["yaml.load"]),
        ("from os import system", ["from os import system"]),
        ("asyncio.create_subprocess_shell('ls')", ["asyncio.create_subprocess_shell"]),
        ("subprocess.getoutput('ls')", ["subprocess.getoutput"]),
        ("os.execv('/bin/sh', [])", ["os.execv"]),
        ("builtins.eval('1')", ["builtins.eval"]),
        ("run = eval", ["eval"]),
        ("map(exec, texts)", ["exec"]),
        ("from os import execv", ["from os import execv"]),
        ("from importlib import import_module", ["from importlib import import_module"]),
        ("importlib.import_module(name)", ["import_module"]),
        ("from importlib.resources import files", []),
        ("subprocess.Popen(line, shell=flag)", ["shell="]),
        ("subprocess.run(['ls'], shell=False)", []),
        ("table.load(path)", []),
        ("platform.system()", []),
        ("re.compile('a')", []),
        ("text.eval()", []),
    ],
)
def test_what_is_looked_for(text: str, found: list[str]) -> None:
    assert list(offences(ast.parse(text))) == found


def test_no_module_runs_what_it_reads() -> None:
    assert len(MODULES) > 400
    found = {str(path): list(offences(ast.parse(path.read_text()))) for path in MODULES}
    (loads,) = [path for path in found if path.endswith(LOADS_MODULES)]
    assert found.pop(loads) == ["from importlib import import_module"]
    assert {path: what for path, what in found.items() if what} == {}
