"""Ancestors and common ancestors on random graphs, against the plainest way to find them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

from livingdb.catalog.snapshots import SnapshotRow, Snapshots
from livingdb.chunks.address import Address
from livingdb.graph.ancestry import (
    common_ancestors,
    first_parents,
    is_ancestor,
    last_common_position,
    log,
)

Parents = list[tuple[int, ...]]
"""The parents of snapshot 1, 2, 3, …: numbers that are smaller."""


class FakeSnapshots(Snapshots):
    """The index without a catalog."""

    def __init__(self, parents: Parents):
        self.rows: dict[int, SnapshotRow] = {}
        for number, (first, *others) in enumerate([(None,), *parents], 1):
            self.rows[number] = self._made(number, first, tuple(others))

    def _made(self, number: int, first: int | None, others: tuple[int, ...]) -> SnapshotRow:
        depth = 0 if first is None else self.rows[first].depth + 1
        skip = None
        if first is not None:
            skip = self.ancestor(self.rows[first], depth & (depth - 1)).sequence
        address = Address(number.to_bytes(32, "big"))
        return SnapshotRow(
            number, address, first, others, skip, depth, number, "transaction", "", ""
        )

    def at(self, sequence: int) -> SnapshotRow:
        return self.rows[sequence]

    def at_with_prefetch(self, sequence: int) -> SnapshotRow:
        return self.rows[sequence]

    def many(self, sequences: Any) -> dict[int, SnapshotRow]:
        return {number: self.rows[number] for number in sequences}


@st.composite
def graphs(draw: st.DrawFn) -> FakeSnapshots:
    """A first snapshot and up to forty more; merges have two parents, now and then three."""
    parents: Parents = []
    reach = draw(st.integers(1, 40))
    for number in range(2, draw(st.integers(1, 40)) + 1):
        near = st.integers(max(1, number - reach), number - 1)
        count = draw(st.sampled_from((1, 1, 2, 2, 3)))
        parents.append(tuple(draw(st.lists(near, min_size=1, max_size=count, unique=True))))
    return FakeSnapshots(parents)


def _ancestors(graph: FakeSnapshots, number: int) -> set[int]:
    found = {number}
    for parent in graph.at(number).parents:
        found |= _ancestors_cached(graph, parent)
    return found


def _ancestors_cached(graph: FakeSnapshots, number: int) -> set[int]:
    known: dict[int, set[int]] = graph.__dict__.setdefault("known", {})
    if number not in known:
        known[number] = _ancestors(graph, number)
    return known[number]


def _best(graph: FakeSnapshots, one: int, other: int) -> list[int]:
    common = _ancestors(graph, one) & _ancestors(graph, other)
    hidden = {older for number in common for older in _ancestors(graph, number) - {number}}
    return sorted(common - hidden, reverse=True)


@settings(max_examples=tries(300))
@given(graph=graphs(), data=st.data())
def test_common_ancestors_are_the_best_ones_newest_first(
    graph: FakeSnapshots, data: st.DataObject
) -> None:
    numbers = st.integers(1, len(graph.rows))
    one, other = data.draw(numbers), data.draw(numbers)
    found = common_ancestors(graph, graph.at(one), graph.at(other))
    assert [row.sequence for row in found] == _best(graph, one, other)


@settings(max_examples=tries(200))
@given(graph=graphs())
def test_is_ancestor_for_every_pair(graph: FakeSnapshots) -> None:
    for new in graph.rows.values():
        above = _ancestors_cached(graph, new.sequence)
        for old in graph.rows.values():
            assert is_ancestor(graph, old, new) == (old.sequence in above)


@settings(max_examples=tries(200))
@given(graph=graphs())
def test_a_log_is_all_ancestors_newest_first(graph: FakeSnapshots) -> None:
    for row in graph.rows.values():
        found = [entry.sequence for entry in log(graph, row)]
        assert found == sorted(_ancestors_cached(graph, row.sequence), reverse=True)


@settings(max_examples=tries(200))
@given(graph=graphs())
def test_first_parents_and_the_way_straight_to_one_of_them(graph: FakeSnapshots) -> None:
    for row in graph.rows.values():
        line = list(first_parents(graph, row))
        assert line[0] == row
        assert line[-1].first is None
        for newer, older in pairwise(line):
            assert newer.first == older.sequence
        assert [graph.ancestor(row, at.depth) for at in line] == line


@settings(max_examples=tries(100))
@given(graph=graphs())
def test_the_last_common_position_is_the_newest_on_both_lines(graph: FakeSnapshots) -> None:
    lines = {row.sequence: list(first_parents(graph, row)) for row in graph.rows.values()}
    for one in graph.rows.values():
        for other in graph.rows.values():
            common = [row for row in lines[one.sequence] if row in lines[other.sequence]]
            assert last_common_position(graph, one, other) == common[0]


def test_a_long_way_to_the_last_common_position_is_skipped() -> None:
    """Two lines of ten thousand snapshots that part at the fifth: few of them are looked at."""
    first: Parents = [(number,) for number in range(1, 10_000)]
    second: Parents = [(5,), *((number,) for number in range(10_001, 20_000))]
    graph = FakeSnapshots(first + second)
    seen: list[int] = []
    plain = graph.at
    graph.at = lambda sequence: seen.append(sequence) or plain(sequence)  # type: ignore[method-assign,func-returns-value]
    found = last_common_position(graph, plain(10_000), plain(20_000))
    assert found == plain(5)
    assert len(seen) < 500


def test_merges_that_cross_have_two_common_ancestors() -> None:
    graph = FakeSnapshots([(1,), (1,), (2, 3), (3, 2)])
    found = common_ancestors(graph, graph.at(4), graph.at(5))
    assert [row.sequence for row in found] == [3, 2]


def test_an_ancestor_reached_late_by_a_long_way_is_no_best_one() -> None:
    """2 is common and found first by the short way, but 3, which comes from it, is common too."""
    graph = FakeSnapshots([(1,), (2,), (3,), (2, 4), (3, 2)])
    found = common_ancestors(graph, graph.at(5), graph.at(6))
    assert [row.sequence for row in found] == [3]


def test_snapshots_without_a_common_ancestor() -> None:
    graph = FakeSnapshots([])
    graph.rows[2] = graph._made(2, None, ())
    assert common_ancestors(graph, graph.at(1), graph.at(2)) == []
    assert last_common_position(graph, graph.at(1), graph.at(2)) is None
    assert not is_ancestor(graph, graph.at(1), graph.at(2))
