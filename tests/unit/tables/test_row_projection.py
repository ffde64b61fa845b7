"""Rows made of other rows, column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from livingdb.tables.row_projection import Formula, ProjectionStep, RowProjection

ROWS = {"id": [1, 2, 3], "a": [10, None, 30], "b": ["x", "y", None]}


class Counted:
    """A formula that knows how often, and for how many rows, it was computed."""

    def __init__(self, reads: Sequence[str], make: str, function: Any):
        self.calls: list[int] = []
        self._function = function
        self.formula = Formula(tuple(reads), (make,), self._compute)

    def _compute(self, rows: pa.Table) -> list[pa.Array]:
        self.calls.append(rows.num_rows)
        return [self._function(rows)]


def read(
    projection: RowProjection, names: Sequence[str], rows: Mapping[str, list[Any]] = ROWS
) -> list[list[Any]]:
    wanted = projection.reads(names)
    given = {name: pa.array(rows[name]) for name in wanted}
    _, columns = projection.map_rows(given, len(rows["id"]), names)
    return [column.to_pylist() for column in columns]


def start() -> RowProjection:
    return RowProjection.of_columns(ROWS)


def constant(value: int) -> Counted:
    return Counted([], "c", lambda rows: pa.array([value] * rows.num_rows))


def test_renames_read_one_column() -> None:
    projection = start()
    for number in range(100):
        before = "a" if number == 0 else f"a{number - 1}"
        projection = projection.then(ProjectionStep({"id": "id", f"a{number}": before}))
    assert projection.reads(["a99"]) == ["a"]
    assert read(projection, ["a99", "id"]) == [[10, None, 30], [1, 2, 3]]


def test_what_is_dropped_is_not_computed() -> None:
    made = Counted(["a"], "twice", lambda rows: pc.add(rows["a"], rows["a"]))
    projection = start().then(ProjectionStep({"id": "id", "a": "a"}, [made.formula]))
    assert read(projection, ["twice"]) == [[20, None, 60]]
    dropped = projection.then(ProjectionStep({"id": "id"}))
    assert dropped.reads(["id"]) == ["id"]
    assert read(dropped, ["id"]) == [[1, 2, 3]]
    assert made.calls == [3]


def test_what_two_columns_need_is_computed_once() -> None:
    made = Counted(["a"], "t", lambda rows: pc.add(rows["a"], rows["a"]))
    projection = start().then(ProjectionStep({"id": "id"}, [made.formula]))
    copies = projection.then(ProjectionStep({"one": "t", "two": "t", "id": "id"}))
    assert read(copies, ["one", "two"]) == [[20, None, 60]] * 2
    assert made.calls == [3]


def test_constants_are_computed_for_one_row() -> None:
    first = constant(7)
    second = Counted(["c"], "d", lambda rows: pc.add(rows["c"], 1))
    projection = start().then(ProjectionStep({"id": "id"}, [first.formula]))
    projection = projection.then(ProjectionStep({"id": "id", "c": "c"}, [second.formula]))
    for _ in range(2):
        assert read(projection, ["d", "c"]) == [[8, 8, 8], [7, 7, 7]]
    assert (first.calls, second.calls) == ([1], [1])
    assert read(projection, ["d"], {"id": [], "a": [], "b": []}) == [[]]


def test_a_constant_that_cannot_be_fails_only_where_there_are_rows() -> None:
    def fail(rows: pa.Table) -> pa.Array:
        if rows.num_rows:
            raise ValueError("no such value")
        return pa.array([], pa.int64())

    projection = start().then(ProjectionStep({"id": "id"}, [Counted([], "c", fail).formula]))
    assert read(projection, ["c"], {"id": []}) == [[]]
    with pytest.raises(ValueError, match="no such value"):
        read(projection, ["c"])


def test_rows_that_are_left_out_reach_no_later_step() -> None:
    keeps = Counted(["a"], "?", lambda rows: pc.is_valid(rows["a"].combine_chunks()))
    same = {name: name for name in ROWS}
    projection = start().then(ProjectionStep(same, [keeps.formula], "?"))
    later = Counted(["a"], "half", lambda rows: pc.divide(rows["a"], 2))
    projection = projection.then(ProjectionStep({"id": "id", "b": "b"}, [later.formula]))
    again = Counted(["half"], "?", lambda rows: pc.greater(rows["half"].combine_chunks(), 5))
    projection = projection.then(
        ProjectionStep({"id": "id", "b": "b", "half": "half"}, [again.formula], "?")
    )
    given = {name: pa.array(values) for name, values in ROWS.items()}
    kept, columns = projection.map_rows(given, 3, ["id", "half", "b"])
    assert kept is not None
    assert kept.tolist() == [False, False, True]
    assert [column.to_pylist() for column in columns] == [[3], [15], [None]]
    assert (later.calls, again.calls) == ([2], [2])
    assert projection.drops
    assert projection.reads(["b"]) == ["a", "b"]


def test_a_column_that_two_filters_pass_over_loses_the_rows_of_both() -> None:
    projection = start()
    for least in (2, 3):
        keeps = Counted(["id"], "?", lambda rows, least=least: pc.greater_equal(rows["id"], least))
        same = {name: name for name in ROWS}
        projection = projection.then(ProjectionStep(same, [keeps.formula], "?"))
    assert read(projection, ["b", "a"]) == [[None], [30]]


def test_chains_may_be_long() -> None:
    projection = start()
    for _ in range(2_000):
        more = Counted(["a"], "a", lambda rows: pc.add(rows["a"], 1))
        projection = projection.then(ProjectionStep({"id": "id", "b": "b"}, [more.formula]))
    assert read(projection, ["a"]) == [[2010, None, 2030]]
