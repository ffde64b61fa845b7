"""One public namespace, and a light one."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import livingdb
from livingdb import errors


def test_all_is_sorted_and_has_no_name_twice() -> None:
    assert livingdb.__all__ == sorted(set(livingdb.__all__))


def test_all_names_what_is_exported() -> None:
    exported = {
        name
        for name, value in vars(livingdb).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert exported <= set(livingdb.__all__)
    for name in livingdb.__all__:
        assert getattr(livingdb, name) is not None


def test_every_error_is_exported_and_has_its_own_code() -> None:
    assert set(errors.__all__) <= set(livingdb.__all__)
    codes = [getattr(errors, name).code for name in errors.__all__]
    assert len(codes) == len(set(codes))


def test_importing_livingdb_imports_no_engine() -> None:
    heavy = ("pyspark", "duckdb", "pandas", "pyarrow", "numpy", "sqlglot", "fastapi")
    program = f"import sys, livingdb; print([m for m in {heavy!r} if m in sys.modules])"
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_names_that_need_arrow_come_when_asked_for() -> None:
    program = (
        "import sys, livingdb\n"
        "assert set(livingdb.__all__) <= set(dir(livingdb))\n"
        "assert 'pyarrow' not in sys.modules\n"
        "assert livingdb.Layout().splitter == 'content'\n"
        "assert 'Layout' in vars(livingdb)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'nothing'"):
        livingdb.nothing  # noqa: B018
