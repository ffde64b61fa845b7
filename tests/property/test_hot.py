"""A view of which a part is stored shows what the same view shows when all of it is stored."""

from __future__ import annotations

import datetime
import decimal
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import livingdb

COLUMNS = {
    "id": "bigint",
    "n": "int",
    "x": "double",
    "s": "string",
    "d": "date",
    "p": "decimal(6,2)",
    "t": "timestamp",
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-5, 25),
    "n": st.integers(-3, 3),
    "x": st.sampled_from([0.0, 0.1, -1.5, 2.0, float("inf"), float("-inf"), float("nan")]),
    "s": st.sampled_from(["", "a", "ab", "b", "å", "\0", "a\0"]),
    "d": st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 6)),
    "p": st.decimals(-2, 2, places=2),
    "t": st.datetimes(datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 2)).map(
        lambda time: time.replace(microsecond=0, tzinfo=datetime.UTC)
    ),
}


@st.composite
def rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    ids = draw(st.lists(VALUES["id"], unique=True, max_size=8))
    others = {name: st.none() | VALUES[name] for name in COLUMNS if name != "id"}
    return [{"id": key, **draw(st.fixed_dictionaries(others))} for key in ids]


def written(value: Any) -> str:
    """A value as SQL."""
    if isinstance(value, str):
        quoted = value.replace("\0", "")
        return f"'{quoted}'"
    if isinstance(value, float):
        special = {"inf": "'Infinity'", "-inf": "'-Infinity'", "nan": "'NaN'"}
        return f"CAST({special[str(value)]} AS DOUBLE)" if str(value) in special else str(value)
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return str(decimal.Decimal(value)) if isinstance(value, decimal.Decimal) else str(value)


@st.composite
def conditions(draw: st.DrawFn, plain: bool = False) -> str:
    """Comparisons with AND between them; `plain`: of finite constants."""
    found = []
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(list(COLUMNS)))
        values = VALUES[name]
        if plain:
            values = values.filter(lambda value: str(value) not in ("inf", "-inf", "nan", "", "\0"))
        form = draw(st.sampled_from(["<", "<=", ">", ">=", "=", "BETWEEN", "IN", "mirrored"]))
        one, other = sorted((draw(values), draw(values)), key=str)
        if form == "BETWEEN":
            found.append(f"{name} BETWEEN {written(one)} AND {written(other)}")
        elif form == "IN":
            found.append(f"{name} IN ({written(one)}, {written(other)})")
        elif form == "mirrored":
            found.append(f"{written(one)} < {name}")
        else:
            found.append(f"{name} {form} {written(one)}")
    return " AND ".join(found)


@contextmanager
def branch() -> Iterator[livingdb.Branch]:
    home = Path(tempfile.mkdtemp(prefix="livingdb-hot-"))
    try:
        with livingdb.create(home / "t.ldb", engine="embedded") as db:
            yield db.branch("main")
    finally:
        shutil.rmtree(home, ignore_errors=True)


QUERIES = [
    "SELECT * FROM t",
    "SELECT n, x, s, d, p, t, id FROM t WHERE n IS NULL OR n < 3",
    "SELECT k AS id, n, x, s, d, p, t FROM (SELECT r.id % 4 AS k, max(r.n) AS n, max(r.x) AS x, "
    "min(r.s) AS s, max(r.d) AS d, max(r.p) AS p, max(r.t) AS t FROM t AS r GROUP BY r.id % 4)",
]


@given(
    st.sampled_from(QUERIES),
    conditions(plain=True),
    st.lists(conditions(), min_size=1, max_size=4),
    st.lists(rows(), min_size=1, max_size=3),
    st.lists(st.integers(-5, 25), unique=True, max_size=5),
)
def test_a_part_stored_is_as_good_as_all(
    query: str,
    hot: str,
    asked: list[str],
    writes: list[list[dict[str, Any]]],
    gone: list[int],
) -> None:
    with branch() as main:
        main.create_table("t", COLUMNS, key="id")
        main.upsert("t", writes[0])
        main.derive("whole", query, when="immediate")
        main.derive("part", query, when="immediate", materialize=f"where {hot}")
        for more in writes[1:]:
            main.upsert("t", more)
        main.delete("t", [key for key in gone if main.table("t").get(key) is not None])
        db = main.database
        whole, part = db.branch("whole").table("whole"), db.branch("part").table("part")
        for condition in asked:
            wanted, found = (table.to_arrow(where=condition) for table in (whole, part))
            assert str(found.to_pylist()) == str(wanted.to_pylist()), condition
            texts = [
                f"SELECT count(*) AS n, max(id) AS m FROM {name} WHERE {condition}"
                for name in ("whole", "part")
            ]
            one, other = (main.sql(text).to_arrow().to_pylist() for text in texts)
            assert one == other, condition
        assert str(part.to_arrow().to_pylist()) == str(whole.to_arrow().to_pylist())
        assert db.sync("part").state == "active"
        assert not db.check().problems
