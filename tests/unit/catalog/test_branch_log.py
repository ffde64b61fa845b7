"""The lines of a branch's log are a chain: none is missing, and none is another."""

from __future__ import annotations

import pytest
from tests.unit.catalog.conftest import add_snapshot

from livingdb.catalog import schema
from livingdb.catalog.branch_log import CHECKPOINT
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.movements import Movements
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.errors import Corruption

_log = schema.branch_log
_lines = SealedRows(_log)
LAST = 5


@pytest.fixture
def branch(catalog: Catalog) -> BranchRow:
    """A branch that has moved five times, from snapshot 1 at time 10 to snapshot 6 at time 60."""
    snapshots = [add_snapshot(catalog, str(number)) for number in range(LAST + 1)]
    with catalog.write() as connection:
        catalog.branches.add(connection, "main", snapshots[0].sequence, 10)
    for number in range(1, LAST + 1):
        row = found(catalog)
        with catalog.write() as connection:
            head = snapshots[number].sequence
            assert catalog.branches.move(connection, row, head, 10 * (number + 1), "commit")
    return found(catalog)


def found(catalog: Catalog) -> BranchRow:
    row = catalog.branches.find("main")
    assert row is not None
    return row


def fresh(catalog: Catalog) -> Movements:
    """As somebody else sees them."""
    return Movements(catalog.queries, catalog.branches)


def remove(catalog: Catalog, position: int) -> None:
    with catalog.write() as connection:
        assert _lines.delete(connection, _log.c.position == position) == 1


@pytest.mark.parametrize("position", range(LAST + 1))
def test_a_line_that_is_missing_is_named(
    catalog: Catalog, branch: BranchRow, position: int
) -> None:
    remove(catalog, position)
    missing = rf"row \({branch.number}, {position}\) of table 'branch_log' is missing"
    with pytest.raises(Corruption, match=missing):
        fresh(catalog).of(branch)
    with pytest.raises(Corruption, match=missing):
        fresh(catalog).last_to(branch, 999)
    with pytest.raises(Corruption, match=missing):
        fresh(catalog).at(branch, 10 * (position + 1))


def test_a_time_that_changed_misleads_nobody(catalog: Catalog, branch: BranchRow) -> None:
    """The line whose time is wrong is passed over, and what is found is not the answer."""
    with catalog.write() as connection:
        is_third = _log.c.position == 3
        connection.execute(_log.update().where(is_third).values(time=4_000))
    with pytest.raises(Corruption, match=r"row \(1, 3\) of table 'branch_log'"):
        fresh(catalog).at(branch, 45)
    with pytest.raises(Corruption, match=r"row \(1, 3\) of table 'branch_log'"):
        fresh(catalog).exactly_at(branch, 40)
    move = fresh(catalog).at(branch, 25)
    assert move is not None
    assert move.position == 1, "what lies before it is read as ever"


def test_a_line_that_was_written_anew_does_not_fit(catalog: Catalog, branch: BranchRow) -> None:
    """Its own digest is right, and that the next line has is another."""
    with catalog.write() as connection:
        _lines.update(connection, [_log.c.position == 2], {"snapshot": 1})
    with pytest.raises(Corruption, match=r"row \(1, 2\) of table 'branch_log'"):
        fresh(catalog).of(branch)


def test_a_part_of_a_log_is_whole_too(catalog: Catalog, branch: BranchRow) -> None:
    movements = fresh(catalog)
    assert [move.position for move in movements.of(branch, 1, 4)] == [4, 3, 2]
    assert [move.position for move in movements.of(branch, upto=0)] == [0]
    assert movements.of(branch, LAST) == []
    assert [move.position for move in movements.of(branch, 3, 99)] == [5, 4]
    remove(catalog, 3)
    assert [move.position for move in movements.of(branch, 3)] == [5, 4]
    with pytest.raises(Corruption):
        movements.of(branch, 2)


def test_who_saw_it_earlier_reads_what_there_was_then(catalog: Catalog, branch: BranchRow) -> None:
    with catalog.write() as connection:
        assert catalog.branches.move(connection, branch, 1, 90, "reset")
    assert [move.position for move in fresh(catalog).of(branch)] == [5, 4, 3, 2, 1, 0]


def test_the_log_of_a_branch_that_was_dropped_is_no_damage(
    catalog: Catalog, branch: BranchRow
) -> None:
    with catalog.write() as connection:
        catalog.branches.drop(connection, branch, 1)
    assert fresh(catalog).of(branch) == []


def test_a_log_that_was_cut_goes_on_with_the_chain(catalog: Catalog, branch: BranchRow) -> None:
    with catalog.write() as connection:
        assert catalog.movements.cut(connection, branch, 1) == 0, "how it began is kept"
        assert catalog.movements.cut(connection, branch, 3) == 2
        assert catalog.movements.cut(connection, branch, 3) == 0
    movements = fresh(catalog)
    assert [move.position for move in movements.of(branch)] == [5, 4, 3, 0]
    assert all(move.operation != CHECKPOINT for move in movements.of(branch))
    assert movements.last_to(branch, 3) is None
    assert movements.at(branch, 45).position == 3  # type: ignore[union-attr]
    assert movements.at(branch, 25).position == 0  # type: ignore[union-attr]
    assert movements.at(branch, 5) is None
    with catalog.write() as connection:
        assert catalog.branches.move(connection, branch, 1, 90, "reset")
        assert movements.cut(connection, branch, 5) == 2, "it is cut again"
    assert [move.position for move in fresh(catalog).of(found(catalog))] == [6, 5, 0]
    remove(catalog, 4)
    with pytest.raises(Corruption, match=r"row \(1, 4\) of table 'branch_log' is missing"):
        fresh(catalog).of(found(catalog))
