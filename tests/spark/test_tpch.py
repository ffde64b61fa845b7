"""The 22 queries of TPC-H as views, kept correct through streams of changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from tests.tpch_data import generate, load, stream
from tests.tpch_queries import QUERIES, TABLES

import livingdb
from livingdb.engines.portable.portability import check_portability
from livingdb.sql.parse import parse_statement

SCALE = 0.01


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    return generate(tmp_path_factory.mktemp("tpch"), SCALE)


@pytest.fixture(scope="module", params=[2, pytest.param(6, marks=pytest.mark.slow)])
def rounds(request: pytest.FixtureRequest) -> int:
    """How often the tables change."""
    return int(request.param)


@pytest.fixture(scope="module")
def shop(
    tables: dict[str, pa.Table], rounds: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[livingdb.Database]:
    """The tables before they change, and a view for each query."""
    home = tmp_path_factory.mktemp(f"shop{rounds}")
    with livingdb.create(home / "tpch.ldb", engine="embedded") as db:
        main = db.branch("main")
        load(main, tables)
        for number, query in QUERIES.items():
            main.derive(f"q{number}", sql=query)
        yield db


def canonical(rows: pa.Table) -> list[tuple[object, ...]]:
    found = zip(*(column.to_pylist() for column in rows.columns), strict=True)
    return sorted(found, key=lambda row: tuple(str(value) for value in row))


def same(one: object, other: object) -> bool:
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(float(one), float(other), rel_tol=1e-9)  # type: ignore[arg-type]
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one == other
    return one == other


def assert_same(found: pa.Table, wanted: pa.Table, what: str) -> None:
    ours, theirs = canonical(found), canonical(wanted.rename_columns(found.column_names))
    assert len(ours) == len(theirs), what
    for one, other in zip(ours, theirs, strict=True):
        assert all(same(a, b) for a, b in zip(one, other, strict=True)), (what, one, other)


@pytest.mark.slow
def test_all_queries_are_kept_through_streams_of_changes(
    shop: livingdb.Database,
    tables: dict[str, pa.Table],
    rounds: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    main = shop.branch("main")
    kept: dict[str, set[str]] = {}
    for what in islice(stream(main, tables, 0.002), rounds):
        runs = shop.propagate()
        assert not [run for run in runs if run.error], runs
        for run in runs:
            kept.setdefault(run.name, set()).add(run.strategy)
        for number, query in QUERIES.items():
            wanted = main.sql(query).to_arrow()
            found = shop.branch(f"q{number}").table(f"q{number}").to_arrow()
            assert_same(found, wanted, f"q{number} after {what}")
    whole = sorted(name for name, ways in kept.items() if "full" in ways)
    with capsys.disabled():
        count = len(QUERIES) - len(whole)
        print(f"\nTPC-H: {count} of {len(QUERIES)} never in full; in full at times: {whole}")
    assert len(whole) <= len(QUERIES) // 2


def is_shared(number: int) -> bool:
    return not isinstance(check_portability(parse_statement(QUERIES[number]), TABLES), str)


@pytest.mark.slow
@pytest.mark.parametrize("number", [n for n in sorted(QUERIES) if is_shared(n) and n % 6 == 0])
def test_spark_gives_the_same(shop: livingdb.Database, spark: object, number: int) -> None:
    view = shop.branch(f"q{number}")
    wanted = shop.branch("main").sql(QUERIES[number], engine="spark").to_arrow()
    assert_same(view.table(f"q{number}").to_arrow(), wanted, f"q{number}")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_all_queries_are_kept_by_spark(
    tables: dict[str, pa.Table], spark: object, tmp_path: Path
) -> None:
    with livingdb.create(tmp_path / "tpch.ldb", engine="spark") as db:
        main = db.branch("main")
        load(main, tables)
        for number, query in QUERIES.items():
            main.derive(f"q{number}", sql=query)
        for _ in islice(stream(main, tables, 0.002), 3):
            runs = db.propagate()
            assert not [run for run in runs if run.error], runs
        for number, query in QUERIES.items():
            wanted = main.sql(query).to_arrow()
            found = db.branch(f"q{number}").table(f"q{number}").to_arrow()
            assert_same(found, wanted, f"q{number}")
