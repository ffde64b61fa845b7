"""What queries make of texts and lists stays within the memory that they may take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.engines.embedded import session, value_sizes
from livingdb.engines.embedded.duckdb_dialect import to_duckdb_sql
from livingdb.engines.embedded.memory_parts import MemoryParts
from livingdb.sql.parse import parse_statement

DOUBLED = ", ".join(f"c{at + 1} AS (SELECT id, concat(v, v) AS v FROM c{at})" for at in range(24))
NESTED = "SELECT id, v || v AS v FROM t"
for _ in range(24):
    NESTED = f"SELECT id, v || v AS v FROM ({NESTED})"

TOO_LARGE = {
    "replace": "SELECT max(length(replace(v, 'x', v))) AS n FROM t",
    "named": f"WITH c0 AS (SELECT id, v FROM t), {DOUBLED} SELECT max(length(v)) AS n FROM c24",
    "subqueries": f"SELECT max(length(v)) AS n FROM ({NESTED})",
    "one row": f"SELECT max(length(v)) AS n FROM ({NESTED}) WHERE id = 1",
    "hex": f"SELECT max(length({'hex(' * 16}v{')' * 16})) AS n FROM t",
    "separator": "SELECT max(length(concat_ws(repeat(v, 20), v, v, v))) AS n FROM t",
    "pattern": f"SELECT max(length(regexp_replace(v, 'x', '{'y' * 200}'))) AS n FROM t",
    "format": "SELECT max(length(printf('%99999999d', id))) AS n FROM t",
    "width": "SELECT max(length(format_string('{:>99999999}', v))) AS n FROM t",
    "time": "SELECT max(length(date_format(timestamp_seconds(id), "
    f"'{'yyyy ' * 9999}'))) AS n FROM t",
    "sequence": "SELECT max(size(sequence(1, 100000000))) AS n FROM t",
    "sequence of a row": "SELECT max(size(sequence(1, 100000 * id))) AS n FROM t",
    "explode": "SELECT count(*) AS n FROM (SELECT explode(sequence(1, 900000000)) AS x)",
    "lists": "SELECT max(size(transform(sequence(1, 9999), i -> sequence(1, 9999)))) AS n FROM t",
    "join": "SELECT max(length(array_join(sequence(1, id % 5 + 999), "
    f"'{'y' * 2000}'))) AS n FROM t",
    "reduce": "SELECT max(length(reduce(sequence(1, 40), v, (a, b) -> concat(a, a)))) AS n FROM t",
    "recursion": "WITH RECURSIVE r AS (SELECT id, v FROM t WHERE id = 1 UNION ALL "
    "SELECT id + 1, concat(v, v) FROM r WHERE id < 60) SELECT max(length(v)) AS n FROM r",
    "condition": "SELECT count(*) AS n FROM t WHERE replace(v, 'x', v) LIKE '%z%'",
    "group": "SELECT count(*) AS n FROM t GROUP BY replace(v, 'x', v)",
    "cast": "SELECT count(try_cast(replace(v, 'x', v) AS INT)) AS n FROM t",
    "choice": "SELECT max(CASE WHEN id >= 0 THEN replace(v, 'x', v) END) AS n FROM t",
}

PROGRAM = """
import json, resource, sys
import livingdb
from livingdb.errors import LivingDBError

db = livingdb.open(sys.argv[1], engine="embedded", memory_limit="64 MB")
main = db.at("main")
main.sql("SELECT max(length(concat(v, v))) AS n FROM t")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = {}
for name, text in json.loads(sys.argv[2]).items():
    try:
        said[name] = str(main.sql(text).to_arrow().to_pylist())
    except LivingDBError as error:
        said[name] = f"{type(error).__name__}: {error}"
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"said": said, "kib": peak - before}))
"""
"""Runs statements within 64 MB; what is said of each, and how much memory all of that took."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    path: Path = tmp_path_factory.mktemp("sizes") / "shop.ldb"
    with livingdb.create(path, engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "v": "string", "w": "string"}, key="id")
        words = [None if at % 3 else f"w{at}" for at in range(2048)]
        main.insert("t", {"id": list(range(2048)), "v": ["x" * 2000] * 2048, "w": words})
        yield database


def test_memory_of_values(db: livingdb.Database) -> None:
    """A program within 64 MB takes at most twice that and what it begins with."""
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(db.name), json.dumps(TOO_LARGE)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    not_refused = {
        name: said
        for name, said in found["said"].items()
        if not said.startswith("Unsupported: ") or "memory_limit" not in said
    }
    assert not not_refused
    assert found["kib"] < 2 * 64 * 1024 + 64 * 1024


ORDINARY = [
    "SELECT id, concat(v, '-', w) AS x, replace(v, 'x', 'yz') AS y FROM t",
    "SELECT concat_ws(',', w, NULL, v) AS x, w || 'k' AS y FROM t ORDER BY id",
    "SELECT concat(w, 'k') AS k, concat(w, 'k') || 'l' AS l, count(*) AS n FROM t"
    " GROUP BY concat(w, 'k') ORDER BY k",
    "SELECT upper(concat(w, 'k')) AS k, concat(upper(concat(w, 'k')), 'l') AS l, count(*) AS n"
    " FROM t GROUP BY 1 ORDER BY k",
    "SELECT concat(w, 'k') AS k, concat(w, 'k') || max(v) AS l FROM t GROUP BY k ORDER BY k",
    "SELECT DISTINCT concat(w, 'k') AS k FROM t ORDER BY concat(w, 'k')",
    "SELECT a.id FROM t a JOIN t b ON concat(a.w, 'k') = concat(b.w, 'k') ORDER BY a.id",
    "SELECT w || (SELECT max(w) || 'm' FROM t) AS x FROM t ORDER BY id",
    "SELECT lag(w || 'k') OVER (ORDER BY id) || 'l' AS x FROM t ORDER BY id",
    "SELECT CASE WHEN id > 5 THEN repeat(w, 3) ELSE lpad(w, 9, 'ab') END AS x FROM t ORDER BY id",
    "SELECT try_cast(replace(w, 'w', '') AS INT) AS x FROM t ORDER BY id",
    "SELECT concat(CAST(id AS STRING), CAST(id + 1 AS STRING)) AS x FROM t ORDER BY id",
    "SELECT transform(sequence(1, id % 5 + 1), i -> concat(w, i)) AS x FROM t ORDER BY id",
    "SELECT array_join(transform(split(w, ''), p -> p || '.'), ' ') AS x FROM t ORDER BY id",
    "SELECT hex(w) AS x, base64(CAST(w AS BINARY)) AS y FROM t ORDER BY id",
    "SELECT size(sequence(DATE '2024-01-01', DATE '2024-03-01', INTERVAL 1 DAY)) AS x FROM t",
    "SELECT sum(length(translate(w, 'w', 'v'))) AS n FROM t HAVING max(w || 'x') > 'a'",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_queries_within_a_limit(
    db: livingdb.Database, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are answered as they are without one, also where each value is looked at."""
    main = db.at("main")
    monkeypatch.setattr(session, "_memory_limit", "")
    wanted = main.sql(text).to_arrow()
    monkeypatch.setattr(session, "_memory_limit", "256 MB")
    assert main.sql(text).to_arrow().equals(wanted)
    monkeypatch.setattr(value_sizes, "_FEW_BYTES", -1)
    assert main.sql(text).to_arrow().equals(wanted)
    monkeypatch.setattr(session.Session, "_value_limit", lambda self: 2048 * 8)
    monkeypatch.setattr(session, "are_too_large", lambda sizes, most: _none(len(sizes)))
    monkeypatch.setattr(session, "_instances", {})
    assert main.sql(text).to_arrow().equals(wanted)


def _none(count: int) -> object:
    import pyarrow as pa

    return pa.repeat(pa.scalar(False), count)


def test_what_is_not_looked_at(db: livingdb.Database) -> None:
    """What makes a few times as much of a table's rows costs nothing more."""

    def is_checked(text: str, *, of_tables: bool = True) -> bool:
        tree = parse_statement(text)
        return "SPARK_TOO_LARGE" in to_duckdb_sql(tree, 1 << 30, of_tables=of_tables)

    plain = "SELECT concat(v, ' ', w) AS x, replace(v, 'ab', 'cd') AS y FROM t"
    assert not is_checked(plain)
    assert is_checked(plain, of_tables=False)
    assert is_checked("SELECT v || v AS x FROM (SELECT v || v AS v FROM t)")
    assert is_checked("WITH c AS (SELECT v || v AS v FROM t) SELECT v || v AS x FROM c")
    assert is_checked("SELECT max(v) || max(v) AS x FROM t")
    assert is_checked("SELECT concat(v, v, v, v, v, v, v, v, v) AS x FROM t")
    assert is_checked("SELECT repeat(v, id) AS x FROM t")


def test_large_values_that_fit(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few large values are made where many of them are not."""
    monkeypatch.setattr(session, "_memory_limit", "64 MB")
    text = "SELECT length(replace(v, 'x', v)) AS n FROM t WHERE id < 3"
    assert db.at("main").sql(text).to_arrow().to_pydict() == {"n": [4_000_000] * 3}


def test_parts_of_users_hold_values(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_memory_limit", "")
    text = "SELECT replace(v, 'x', v) AS x FROM t"
    with MemoryParts().of("ann"), session.Session() as one:
        assert one._value_bytes is not None
        assert "SPARK_TOO_LARGE" in one.duckdb_sql(parse_statement(text))
    with session.Session() as one:
        assert one._value_bytes is None
    assert "SPARK_TOO_LARGE" not in to_duckdb_sql(parse_statement(text))


def test_a_function_that_has_no_words(db: livingdb.Database) -> None:
    with pytest.raises(livingdb.Unsupported, match="no words"):
        db.at("main").sql("SELECT initcap(initcap(w)) AS x FROM t", engine="embedded")


@pytest.mark.parametrize("name", ["upper", "lower", "initcap", "repeat"])
def test_functions_that_are_written_often(db: livingdb.Database, name: str) -> None:
    """Each has its argument several times in DuckDB's words: forty in each other are too many."""
    last = ", 1)" if name == "repeat" else ")"
    deep = f"{f'{name}(' * 40}v{last * 40}"
    with pytest.raises(livingdb.InvalidData, match="nested too deeply"):
        db.at("main").sql(f"SELECT {deep} AS x FROM t", engine="embedded")
    count = 1 if name == "initcap" else 4
    few = f"{f'{name}(' * count}v{last * count}"
    assert len(db.at("main").sql(f"SELECT {few} AS x FROM t", engine="embedded")) == 2048
