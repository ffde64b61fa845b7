"""What is too large or too deep ends with an error that says so."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from threading import Timer
from types import ModuleType
from typing import Any

import pytest

import livingdb
from livingdb.engines import engine_choice, planned_answer
from livingdb.engines.embedded import duckdb_dialect, session
from livingdb.engines.embedded.memory_parts import MemoryParts, current_part, in_common_memory
from livingdb.engines.request import Engine
from livingdb.interruption import check_interruption, interruptible
from livingdb.spark.options import check_partitions
from livingdb.sql import spark_grammar
from livingdb.sql.join_count import count_joins
from livingdb.sql.parse import parse_statement

LARGE = "SELECT count(*) AS n FROM (SELECT DISTINCT a.id * 100000 + b.id AS x FROM t a, t b, t c)"
LISTS = "SELECT collect_list(concat(a.v, b.v)) AS x FROM t a, t b, t c"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    path: Path = tmp_path_factory.mktemp("limits") / "shop.ldb"
    with livingdb.create(path, engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
        main.insert("t", {"id": list(range(120)), "v": ["x" * 200] * 120})
        yield database


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.slow
def test_what_is_nested_too_deeply(db: livingdb.Database) -> None:
    main, head = db.branch("main"), db.branch("main").head.id
    deep = f"SELECT {'abs(' * 2000}id{')' * 2000} AS x FROM t"
    for refused in (
        lambda: main.sql(deep),
        lambda: main.derive("v", sql=deep),
        lambda: main.derive("v", sql=f"SELECT id, {'1 + ' * 20_000}1 AS x FROM t"),
        lambda: main.insert("t", [{"id": 500, "v": nested(3000)}]),
        lambda: main.sql("SELECT :given AS x", {"given": nested(3000)}),
        lambda: main.create_table("u", {"x": f"{'array<' * 2000}int{'>' * 2000}"}, key="x"),
    ):
        with pytest.raises(livingdb.LivingDBError, match="nested too deeply"):
            refused()
    assert main.head.id == head


def joined(count: int) -> str:
    """A query of so many joins."""
    joins = " ".join(f"JOIN t t{i} USING (id)" for i in range(count))
    return f"(SELECT t.id FROM t {joins})"


DOUBLED = [
    "c0 AS (SELECT id FROM t)",
    *(f"c{i + 1} AS (SELECT id FROM c{i} JOIN c{i} AS d USING (id))" for i in range(7)),
]
"""Each name stands for twice as many tables as the one before."""


def without_engines(name: str) -> Engine:
    raise AssertionError(f"{name} is asked")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"SELECT {' + '.join(['1'] * 3000)}", "nested too deeply"),
        (" UNION ALL ".join(["SELECT id FROM t"] * 1500), "nested too deeply"),
        (f"SELECT 1 FROM t GROUP BY CUBE ({', '.join(f'id + {i}' for i in range(60))})", "sets"),
        ("SELECT 1 FROM t GROUP BY CUBE (1,2,3,4,5,6,7), CUBE (1,2,3,4,5,6)", "4,096 sets"),
        (f"SELECT 1 FROM t GROUP BY {', '.join(['id'] * 13)} WITH CUBE", "4,096 sets"),
        (f"SELECT 1 FROM t {' '.join(f'JOIN t t{i} USING (id)' for i in range(129))}", "128 table"),
        (f"SELECT 1 FROM {joined(65)} a JOIN {joined(65)} b USING (id)", "128 tables"),
        (f"SELECT 1 FROM t WHERE id IN {joined(65)} AND id IN {joined(65)}", "128 tables"),
        (f"WITH a AS {joined(65)} SELECT 1 FROM a JOIN a AS b USING (id)", "128 tables"),
        (f"WITH {', '.join(DOUBLED)} SELECT 1 FROM c7 JOIN c7 AS b USING (id)", "128 tables"),
    ],
    ids=[
        *("sum", "union", "cube", "cubes", "with cube", "joins"),
        *("nested joins", "joins in conditions", "joins that are named", "joins that double"),
    ],
)
def test_what_no_engine_comes_to_an_end_with(
    db: livingdb.Database, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused when it is read, and no engine is started for it."""
    for module in (engine_choice, planned_answer):
        monkeypatch.setattr(module, "load_engine", without_engines)
    main, head = db.branch("main"), db.branch("main").head.id
    for engine in (None, "spark"):
        with pytest.raises((livingdb.InvalidData, livingdb.Unsupported), match=message):
            main.sql(text, engine=engine)
    with pytest.raises((livingdb.InvalidData, livingdb.Unsupported), match=message):
        main.derive("v", sql=text)
    with pytest.raises((livingdb.InvalidData, livingdb.Unsupported), match=message):
        main.sql(f"DELETE FROM t WHERE id IN ({text})")
    assert main.head.id == head


def test_many_sets_and_joins(db: livingdb.Database) -> None:
    """As many as are taken are answered."""
    columns = ", ".join(f"id % {i} AS c{i}" for i in range(1, 7))
    query = f"SELECT count(*) AS n FROM (SELECT {columns} FROM t) GROUP BY CUBE (c1,c2,c3,c4,c5,c6)"
    assert len(db.at("main").sql(query)) > 64
    joins = " ".join(f"JOIN t t{i} ON t{i}.id = t.id" for i in range(20))
    assert len(db.at("main").sql(f"SELECT t.id FROM t {joins}")) == 120
    apart = " UNION ALL ".join([f"SELECT a.id FROM t a JOIN {joined(1)} b USING (id)"] * 70)
    assert count_joins(parse_statement(apart), 128) == 2
    items = ", ".join(f"(SELECT count(*) FROM {joined(2)} a) AS c{i}" for i in range(70))
    assert count_joins(parse_statement(f"SELECT {items}"), 128) == 2


def test_memory_of_queries(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query spills to disk, and ends with an error of ours where it cannot."""
    monkeypatch.setattr(session, "_memory_limit", "")
    with livingdb.open(db.name, engine="embedded", memory_limit="40 MB") as small:
        main = small.branch("main")
        assert main.sql(LARGE).to_arrow().column("n")[0].as_py() == 120 * 120
        with pytest.raises(livingdb.Unsupported, match="memory_limit"):
            main.sql(LISTS)
        assert main.sql("SELECT count(*) AS n FROM t").to_arrow().column("n")[0].as_py() == 120


def test_users_have_parts_of_the_memory(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_memory_limit", "160 MB")
    parts = MemoryParts()

    def settings(owner: str | None = None) -> tuple[str, str]:
        with nullcontext() if owner is None else parts.of(owner), session.Session() as one:
            return tuple(  # type: ignore[return-value]
                one._connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]
                for name in ("memory_limit", "temp_directory")
            )

    whole = settings()
    with ExitStack() as stack:
        for owner in ("ann", "bob", "cy", "dan"):
            stack.enter_context(parts.of(owner))
        shares = [settings(owner) for owner in ("ann", "bob", "cy", "dan")]
        # What spills to disk does so in places of its own.
        assert len({whole, *shares}) == 5
        assert len({place for _, place in (whole, *shares)}) == 5
        assert {limit for limit, _ in shares} == {"38.1 MiB"}
        assert settings("bob") == shares[1]
        assert settings("eve") in shares
    assert settings("eve") == shares[0]
    assert current_part() is None
    large = "SELECT id, repeat('x', 1000) AS x FROM range(100000)"
    with parts.of("ann"), pytest.raises(livingdb.LimitExceeded, match="40,000,000 bytes"):
        db.branch("main").sql(large)
    assert len(db.branch("main").sql(large)) == 100_000
    with parts.of("ann"), in_common_memory():
        assert len(db.branch("main").sql(large)) == 100_000
    assert [session._size_bytes(text) for text in ("12B", "1.5 GB", "2 KiB", "0 bytes")] == [
        *(12, 1_500_000_000, 2048, 0)
    ]


@pytest.mark.parametrize(
    "made",
    [
        *("repeat(v, 1000000)", "repeat('é', 524289)", "repeat(repeat(v, 5000), 5000)"),
        *("lpad(v, 2147483647, 'ab')", "rpad(v, 1048577, 'c')", "space(2147483647)"),
        "repeat(v, CAST(id AS INT) * 10000000 + 10000000)",
    ],
)
def test_texts_that_functions_make_are_short(db: livingdb.Database, made: str) -> None:
    """No engine counts them against its limit while it makes those of many rows."""
    main, before = db.branch("main"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for text in (f"SELECT {made} AS x FROM t", f"SELECT id FROM t WHERE length({made}) > 5"):
        with pytest.raises(livingdb.InvalidData, match="at most 1,048,576 bytes"):
            main.sql(text, engine="embedded")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # KiB
    assert len(main.sql(f"SELECT CASE WHEN id < 0 THEN {made} END AS x FROM t")) == 120


def test_texts_that_functions_make(db: livingdb.Database) -> None:
    row = "repeat(v, -1) AS a, repeat('é', 3) AS b, lpad('a', 3, 'xy') AS c"
    row += ", rpad('abc', 2, 'x') AS d, space(2) AS e, repeat(CAST(NULL AS STRING), 5) AS f"
    row += ", length(repeat('ab', 524288)) AS g"
    found = db.at("main").sql(f"SELECT {row} FROM t LIMIT 1", engine="embedded").to_arrow()
    wanted = {"a": "", "b": "ééé", "c": "xya", "d": "ab", "e": "  ", "f": None, "g": 1 << 20}
    assert found.to_pylist() == [wanted]


def test_time_of_queries(db: livingdb.Database) -> None:
    """A query that is stopped says why, and so does one that begins after that; others go on."""
    long = "SELECT count(*) AS n FROM t a, t b, t c, t d, t e WHERE a.id < b.id"
    with interruptible() as interruption:
        timer = Timer(0.2, interruption.stop, ["too long"])
        timer.start()
        for query in (long, "SELECT id FROM t"):
            with pytest.raises(livingdb.LimitExceeded, match="too long"):
                db.at("main").sql(query)
            with pytest.raises(livingdb.LimitExceeded, match="too long"):
                db.at("main").plan(query).first_rows(1)
        timer.join()
    assert len(db.at("main").sql("SELECT id FROM t")) == 120


def test_first_rows_of_queries(db: livingdb.Database) -> None:
    """No more of an answer is computed than is asked for."""
    endless = "SELECT a.id + b.id AS x FROM t a, t b, t c, t d, t e"
    at = db.at("main")
    assert at.plan(endless).first_rows(7).num_rows == 7
    ordered = at.plan("SELECT id FROM t ORDER BY id DESC").first_rows(3)
    assert ordered.to_pydict() == {"id": [119, 118, 117]}
    assert at.plan("SELECT id FROM t").first_rows(500).num_rows == 120
    assert at.plan("SELECT id FROM t").first_rows(0).to_pydict() == {"id": []}
    assert at.plan("SELECT id FROM t").caution == ""
    assert at.plan("SELECT initcap(v) AS x FROM t").caution


@pytest.mark.parametrize("limit", ["", "much", "-1 GB", 0, -5, True, 1.5, "0 GB"])
def test_no_memory_limit(db: livingdb.Database, limit: Any) -> None:
    with pytest.raises(livingdb.InvalidData, match="memory_limit"):
        livingdb.open(db.name, memory_limit=limit)


@pytest.mark.parametrize("count", [0, -1, 10**9, "many", None])
def test_no_number_of_partitions(count: Any) -> None:
    with pytest.raises(livingdb.InvalidData, match="from 1 to 100,000"):
        check_partitions(count)
    assert check_partitions(8) == 8


@pytest.mark.parametrize("module", [spark_grammar, duckdb_dialect])
def test_reading_a_long_statement_is_stopped(
    db: livingdb.Database, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle of it, before any engine has to do with it."""
    text = "SELECT " + " + ".join(["1"] * 100) + f" AS {module.__name__.rpartition('.')[2]}"
    left = [70]
    with interruptible() as interruption:

        def check() -> None:
            left[0] -= 1
            if left[0] == 0:
                interruption.stop("too long")
            check_interruption()

        monkeypatch.setattr(module, "check_interruption", check)
        with pytest.raises(livingdb.LimitExceeded, match="too long"):
            db.at("main").sql(text)
    assert left == [0]
    monkeypatch.undo()
    assert len(db.at("main").sql(text)) == 1
