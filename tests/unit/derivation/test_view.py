"""A view as it stands in its sync, its plan, and the functions that it may name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache, partial
from os import getenv
from pathlib import Path

import pyarrow as pa
import pytest

from livingdb.derivation.plan_cache import columns_used, input_of, portable_columns, view_plan
from livingdb.derivation.trusted_functions import check_name, is_trusted, load_function
from livingdb.derivation.view import SourceTable, View, hot_condition
from livingdb.engines.portable.portability import PortableQuery
from livingdb.errors import InvalidData, NotFound, Untrusted
from livingdb.tables.schema import TableSchema

getenv_partial = partial(getenv, "HOME")


@cache
def cached_double(number: int) -> int:
    """A function of this module, in a wrapper of another."""
    return 2 * number


VIEWS = {
    "small": View("v", "sql", {}, changes=()),
    "whole": View(
        "v",
        "sql",
        {"t": SourceTable("1", "t"), "t_2": SourceTable("2", "t", "ab" * 32)},
        text="SELECT 'ö' FROM t",
        query='SELECT "ö" FROM `t`',
        key=("a", "b"),
        refresh="incremental",
        materialize="where day > '2026-01-01'",
        engine="spark",
        function="shop.models:train",
        params={"rate": 0.1, "layers": [1, 2], "name": None},
        changes=({"kind": "mask", "column": "a"},),
        home="7",
        called="totals",
        uses={"t": ["a", "b"]},
        restless=True,
    ),
    "without a key": View("v", "sql", {"t": SourceTable("1", "t")}, key=(), changes=()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_comes_back_from_json_as_it_was(name: str) -> None:
    view = VIEWS[name]
    assert View.from_json(json.loads(json.dumps(view.to_json()))) == view


def test_a_view_without_changes_comes_back_from_json_as_it_was() -> None:
    view = View("v", "sql", {})
    assert View.from_json(json.loads(json.dumps(view.to_json()))) == view


@pytest.mark.parametrize(
    ("materialize", "condition"),
    [
        ("full", ""),
        ("none", ""),
        ("lazy", ""),
        ("where", ""),
        ("where day > 3", "day > 3"),
        ("WHERE  a = 'where b'", "a = 'where b'"),
        ("whereas a", ""),
        (None, ""),
    ],
)
def test_the_condition_for_rows_to_be_stored(materialize: object, condition: str) -> None:
    assert hot_condition(materialize) == condition


def test_a_view_follows_branches_and_not_snapshots() -> None:
    here, there, past = (
        SourceTable("1", "a"),
        SourceTable("2", "b"),
        SourceTable("3", "c", "ab" * 32),
    )
    view = View("v", "sql", {"b": there, "a": here, "a_2": here, "c": past}, home="9")
    assert view.branches == ("2", "1")
    assert View("v", "sql", {"c": past}, home="9").branches == ("9",)
    assert View("v", "sql", {}, home="9").branches == ("9",)


# --- plans ---------------------------------------------------------------------------------------


def table(columns: dict[str, str], key: str) -> TableSchema:
    return TableSchema.of(columns, key)


T = table({"id": "bigint", "city": "string", "net": "bigint", "note": "string"}, "id")


def view_of(query: str, key: tuple[str, ...] | None = None) -> View:
    return View("v", "sql", {"t": SourceTable("1", "t")}, query=query, key=key)


def test_a_plan_is_made_once_for_the_same_query_key_and_tables() -> None:
    query = "SELECT t.city, sum(t.net) AS n FROM t GROUP BY t.city"
    first = view_plan(view_of(query), {"t": T})
    again = table({"id": "bigint", "city": "string", "net": "bigint", "note": "string"}, "id")
    assert view_plan(view_of(query), {"t": again}) is first
    assert view_plan(view_of(query, ("city",)), {"t": T}) is not first
    wider = table({"id": "bigint", "city": "string", "net": "bigint", "more": "int"}, "id")
    assert view_plan(view_of(query), {"t": wider}) is not first
    other_key = table({"id": "bigint", "city": "string", "net": "bigint", "note": "string"}, "city")
    assert view_plan(view_of(query), {"t": other_key}) is not first


def test_only_columns_that_a_query_names_are_read() -> None:
    used = columns_used(
        view_of("SELECT t.city, sum(t.net) AS n FROM t WHERE t.id > 3 GROUP BY t.city"), {"t": T}
    )
    assert used == {"t": ["city", "id", "net"]}


def test_a_table_whose_key_is_hidden_is_a_bag() -> None:
    assert input_of(T).key == ("id",)
    rows = pa.schema([("row", pa.int64()), ("city", pa.string())])
    bag = TableSchema.of_query(rows, ["row"], hidden=["row"])
    assert input_of(bag).key is None
    assert input_of(bag).schema.names == ["city"]


def test_columns_that_every_engine_gives_and_those_that_may_differ() -> None:
    same = portable_columns(view_of("SELECT t.id, t.city FROM t WHERE t.net > 3"), {"t": T})
    assert isinstance(same, PortableQuery)
    unsure = portable_columns(view_of("SELECT t.id, rand() AS r FROM t"), {"t": T})
    assert isinstance(unsure, str)
    assert "rand" in unsure.lower()


# --- trusted functions ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["m:f", "shop.models:train", "a.b.c:_d", "ö:ü"])
def test_names_of_functions(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "f", "m.f", "m:", ":f", "m:f.g", "m:f:g", ".m:f", "m.:f", "m..n:f", "m:f()", "m f:g", 3,
     None, "../m:f", "m:1"],
)  # fmt: skip
def test_what_names_no_function(name: object) -> None:
    with pytest.raises(InvalidData, match="names no function"):
        check_name(name)


@pytest.mark.parametrize(
    ("trust", "trusted"),
    [
        ([], False),
        (["shop.models:train"], True),
        (["shop.models"], True),
        (["shop.models.train"], True),
        (["shop.*"], True),
        (["other", "shop.*"], True),
        (["*"], True),
        (["shop.models:t*"], True),
        (["shop"], False),
        (["shop."], False),
        (["Shop.*"], False),
        (["models:train"], False),
        (["shop.models:train2"], False),
        (["shop.model"], False),
        ([""], False),
    ],
)
def test_patterns_of_trust(trust: Sequence[str], trusted: bool) -> None:
    assert is_trusted("shop.models:train", trust) is trusted


def test_only_what_is_trusted_is_loaded() -> None:
    assert load_function("math:gcd", ["math"])(12, 18) == 6
    with pytest.raises(Untrusted, match=r"'math:gcd'.*trust=.'math'"):
        load_function("math:gcd", ["json"])
    with pytest.raises(InvalidData, match="names no function"):
        load_function("math.gcd", ["*"])


@pytest.mark.parametrize(
    "name",
    [
        "os:system",  # posix defines it
        "tests.unit.derivation.test_view:getenv",
        "tests.unit.derivation.test_view:getenv_partial",
        "tests.unit.derivation.test_view:load_function",
        f"tests.unit.derivation.test_view:{Path.__name__}",
    ],
)
def test_what_a_trusted_module_imported_is_not_trusted(name: str) -> None:
    with pytest.raises(Untrusted, match="defined as"):
        load_function(name, [name.partition(":")[0]])


def test_what_a_trusted_module_wraps_is_its_own() -> None:
    name = "tests.unit.derivation.test_view:cached_double"
    assert load_function(name, ["tests.unit.derivation.*"])(4) == 8
    with pytest.raises(Untrusted):
        load_function(name, ["functools"])


def test_a_module_that_is_not_trusted_is_not_even_imported() -> None:
    with pytest.raises(Untrusted):
        load_function("no_such_module_at_all:f", [])


@pytest.mark.parametrize("name", ["no_such_module_at_all:f", "math:no_such_function"])
def test_what_cannot_be_loaded_is_named(name: str) -> None:
    with pytest.raises(NotFound, match=name):
        load_function(name, ["*"])


@pytest.mark.parametrize("text", ["raise ValueError('secret')", "def (:"])
def test_a_module_that_fails_is_named(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_module.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(NotFound, match=r"failing_module:f.* raised (Value|Syntax)Error$"):
        load_function("failing_module:f", ["*"])


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidData, match="no function"):
        load_function("math:pi", ["math"])
