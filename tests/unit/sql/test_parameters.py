"""Values bound to statements."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.sql.shop import shop
from tests.unit.sql.twin import BranchScope

from livingdb.errors import InvalidData
from livingdb.sql.parameters import bind_parameters, parameter_names
from livingdb.sql.parse import parse_statement


@pytest.fixture(scope="module")
def main() -> BranchScope:
    return shop()


def test_names(main: BranchScope) -> None:
    result = main.sql(
        "SELECT id, :who AS who FROM orders WHERE id = :id OR id = :id + 1 ORDER BY id",
        {"id": 3, "who": "Robert'); DROP TABLE orders;--", "unused": 1},
    )
    assert list(result) == [
        {"id": 3, "who": "Robert'); DROP TABLE orders;--"},
        {"id": 4, "who": "Robert'); DROP TABLE orders;--"},
    ]


def test_positions_follow_the_text(main: BranchScope) -> None:
    text = "WITH w AS (SELECT ? AS a) SELECT a, ? AS b, id FROM w, orders WHERE id > ? LIMIT ?"
    assert list(main.sql(text, ["x", "y", 17, 1])) == [{"a": "x", "b": "y", "id": 18}]


@pytest.mark.parametrize(
    "value",
    [
        1,
        2**40,
        -1.5,
        "it's “quoted”",
        b"\x00\xff",
        True,
        None,
        decimal.Decimal("12.50"),
        datetime.date(2026, 1, 2),
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        [1, 2, None],
    ],
)
def test_values_of_all_kinds(main: BranchScope, value: object) -> None:
    assert main.sql("SELECT ? AS v", [value]).to_arrow()["v"].to_pylist() == [value]


def test_times_without_a_zone_are_utc(main: BranchScope) -> None:
    given = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
    (row,) = main.sql("SELECT ? AS v, CAST(? AS TIMESTAMP_NTZ) AS w", [given, given])
    assert row == {"v": given.replace(tzinfo=datetime.UTC), "w": given}


def test_scalars_of_other_libraries(main: BranchScope) -> None:
    text = "SELECT id FROM orders WHERE id = ? OR id = ?"
    assert len(main.sql(text, [np.int64(5), pa.scalar(6)])) == 2


def test_null_can_be_cast_and_compared(main: BranchScope) -> None:
    text = (
        "SELECT CAST(:n AS STRING) AS a, CAST(:n AS INT) AS b, CAST(:n AS DATE) AS c, :n / 2 AS d"
    )
    (row,) = main.sql(text, {"n": None})
    assert set(row.values()) == {None}
    assert len(main.sql("SELECT id FROM orders WHERE id = :n", {"n": None})) == 0


def test_many_parameters(main: BranchScope) -> None:
    items = ", ".join(f"? AS c{number}" for number in range(15))
    (row,) = main.sql(f"SELECT {items}", list(range(15)))
    assert list(row.values()) == list(range(15))


def test_changes_take_parameters() -> None:
    main = shop(3)
    main.sql("INSERT INTO orders (id, city) VALUES (?, ?), (?, ?)", [10, "a", 11, "b"])
    main.sql("UPDATE orders SET city = :city WHERE id = :id", {"id": 10, "city": "c"})
    main.sql(
        "MERGE INTO orders t USING (SELECT :id AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.city = :city THEN UPDATE SET city = :other",
        {"id": 11, "city": "b", "other": "d"},
    )
    assert [row["city"] for row in main.all("orders")[3:]] == ["c", "d"]
    assert main.sql("DELETE FROM orders WHERE id = ?", [10]).changed == 1


@pytest.mark.parametrize(
    ("text", "given", "words"),
    [
        ("SELECT :a", None, "parameter :a"),
        ("SELECT :a", {"b": 1}, "parameter :a"),
        ("SELECT ?, ?", [1], "parameter 2"),
        ("SELECT ?", [1, 2], "2 values"),
        ("SELECT ?", [object()], "a type SQL does not have"),
        ("SELECT ?", ["\ud800"], "not Unicode"),
        ("SELECT ?", "x", "a dict for :name or a list"),
    ],
)
def test_wrong_parameters(main: BranchScope, text: str, given: object, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        main.sql(text, given)


def test_a_statement_that_was_read_before_is_nobody_elses() -> None:
    text = "SELECT id FROM orders WHERE id = :one OR id = :two"
    first = parse_statement(text)
    assert bind_parameters(first, {"one": 1, "two": 2}) == {"p0": 1, "p1": 2}
    first.set("expressions", [])
    again = parse_statement(text)
    assert parameter_names(again) == ["one", "two"]
    assert [column.name for column in again.expressions] == ["id"]


@pytest.mark.parametrize(
    "value",
    [
        *(10**38, -(10**38), 10**400, np.array([10**400], object)[0], [1, 10**400]),
        *(decimal.Decimal("1e500"), decimal.Decimal("1e-39"), decimal.Decimal("9" * 39)),
        decimal.Decimal("1" + "0" * 37 + ".5"),
    ],
)
def test_numbers_of_too_many_digits_are_no_parameters(main: BranchScope, value: object) -> None:
    """They would be other numbers: infinite, or rounded."""
    for text in ("SELECT :v AS v", "SELECT id FROM orders WHERE id = :v"):
        with pytest.raises(InvalidData, match="more digits than decimals"):
            main.sql(text, {"v": value})


@pytest.mark.parametrize(
    "value", [decimal.Decimal("9" * 38), decimal.Decimal("1e37"), decimal.Decimal("-0." + "1" * 38)]
)
def test_numbers_of_as_many_digits_as_decimals_have(main: BranchScope, value: object) -> None:
    assert list(main.sql("SELECT :v AS v", {"v": value})) == [{"v": value}]
