"""What each method of a mask shows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb.evolution import MaskColumn

DAY = dt.date(1990, 4, 17)
COLUMNS = {
    **{"id": "bigint", "card": "string", "name": "string", "age": "int", "born": "date"},
    **{"seen": "timestamp_ntz", "score": "double", "iban": "string"},
}
ROW = {
    **{"id": 1, "card": "4111-1111 Åx", "name": "Kari", "age": 47, "born": DAY},
    **{"seen": dt.datetime(2026, 1, 2, 3, 4), "score": -1.5, "iban": "NO93"},
}
MASKS = [
    MaskColumn("t", "card", method="token", key="a key of ours"),
    MaskColumn("t", "name", method="partial", value="first 1 last 1"),
    MaskColumn("t", "age", method="bucket", value=10),
    MaskColumn("t", "born", method="bucket", value="year"),
    MaskColumn("t", "seen", method="bucket", value="hour"),
    MaskColumn("t", "score", method="bucket", value=0.5),
    MaskColumn("t", "iban", method="partial", value="last 4"),
]


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> livingdb.Branch:
    path: Path = tmp_path_factory.mktemp("methods") / "shop.ldb"
    branch = livingdb.create(path, engine="embedded").branch("main")
    branch.create_table("t", COLUMNS, key="id")
    rows = [ROW, {**ROW, "id": 2, "name": "Ål", "age": -3}, {"id": 3}]
    branch.insert("t", rows)
    return branch


def test_every_method(main: livingdb.Branch) -> None:
    masked = main.clone("masked", transform=MASKS, sync="forward", when="immediate")
    main.upsert("t", [{**ROW, "id": 4, "card": "5500-0000 zz"}])
    one, two, three, four = masked.table("t").to_arrow().to_pylist()
    expected = {
        **{"name": "K**i", "age": 40, "born": dt.date(1990, 1, 1), "score": -1.5},
        **{"seen": dt.datetime(2026, 1, 2, 3), "iban": "****"},
    }
    assert {name: one[name] for name in expected} == expected
    assert (two["name"], two["age"]) == ("**", -10)
    assert set(three.values()) == {3, None}
    assert one["card"] == two["card"] != four["card"]
    form = "dddd-dddd Ul"
    for card in (one["card"], four["card"]):
        shown = "".join("d" if c.isdigit() else "l" if c.islower() else c for c in card)
        assert shown in (form.replace("U", "l"), form)
    assert one["card"] != ROW["card"]
    assert masked.database.column_lineage("masked.t").masked["age"] == ["t.age"]
    assert masked.database.check(deep=True).problems == []


@pytest.mark.parametrize(
    ("column", "method", "value"),
    [
        ("name", "bucket", 10),
        ("age", "bucket", 0),
        ("age", "bucket", 1.5),
        ("age", "bucket", None),
        ("born", "bucket", "eon"),
        ("age", "partial", "last 1"),
        ("name", "partial", "middle"),
        ("name", "partial", ""),
        ("name", "null", 1),
        ("id", "bucket", 10),
        ("age", "token", None),
    ],
)
def test_what_does_not_fit(main: livingdb.Branch, column: str, method: str, value: Any) -> None:
    mask = MaskColumn("t", column, method=method, value=value, key="k")
    with pytest.raises(livingdb.InvalidData):
        main.clone("other", transform=[mask], sync="forward")


def test_an_expression_that_is_nested_too_deeply(main: livingdb.Branch) -> None:
    deep = f"CASE WHEN {'(' * 500}id = 1{')' * 500} THEN 'a' END"
    with pytest.raises(livingdb.InvalidData, match="nested too deeply"):
        main.clone("deep", transform=MaskColumn("t", "name", method="expression", value=deep))
