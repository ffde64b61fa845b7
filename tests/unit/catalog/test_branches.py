"""Branches move by compare-and-swap, and share names with nobody."""

from __future__ import annotations

import pytest
from tests.unit.catalog.conftest import add_branch, find_branch, move_branch

from livingdb.catalog import schema
from livingdb.catalog.branch_log import Movement
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.tags import TagRow
from livingdb.errors import AlreadyExists


def test_a_new_branch_stands_on_its_head_and_its_log_says_so(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    made = add_branch(catalog, "main", line[1], time=10)
    assert (made.name, made.head, made.position, made.time) == ("main", line[1].sequence, 0, 10)
    assert (made.origin, made.origin_head, made.epoch) == (None, None, "0")
    assert catalog.movements.of(made) == [Movement(0, line[1].sequence, 10, "clone")]
    dev = add_branch(catalog, "dev", line[1], time=11, origin="main")
    assert (dev.origin, dev.origin_head) == ("main", line[1].sequence)
    assert catalog.branches.count() == 2
    assert [row.name for row in catalog.branches.all()] == ["dev", "main"]
    assert catalog.branches.by_id(dev.id) == dev
    assert catalog.branches.by_ids([made.id, dev.id, "0" * 32]) == {made.id: made, dev.id: dev}
    assert catalog.branches.by_id("9" * 32) is None


def test_no_numbers_name_no_branches(catalog: Catalog, line: list[SnapshotRow]) -> None:
    add_branch(catalog, "main", line[0])
    assert catalog.branches.by_ids([]) == {}


def test_branches_by_page_and_by_id(catalog: Catalog, line: list[SnapshotRow]) -> None:
    with catalog.write() as connection:
        ids = [
            catalog.branches.add(connection, name, line[0].sequence, 1)
            for name in ("d", "b", "c", "a")
        ]
    assert [row.name for row in catalog.branches.pages("a", 2)] == ["b", "c", "d"]
    assert [row.name for row in catalog.branches.pages("b", None)] == ["c", "d"]
    named = {ids[0]: "d", ids[3]: "a"}
    assert catalog.branches.names_of([ids[0], ids[3], "0" * 32]) == named
    fixed = catalog.at_one_moment().branches
    assert [row.name for row in fixed.pages("a", 2)] == ["b", "c", "d"]
    assert fixed.names_of([ids[0], ids[3], "0" * 32]) == named


def test_a_name_is_taken_once(catalog: Catalog, line: list[SnapshotRow]) -> None:
    add_branch(catalog, "main", line[0])
    with pytest.raises(AlreadyExists, match="branch 'main'"):
        add_branch(catalog, "main", line[1])
    assert find_branch(catalog, "main").head == line[0].sequence


def test_a_branch_moves_only_from_where_it_was_seen(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    seen = add_branch(catalog, "main", line[0])
    assert move_branch(catalog, seen, line[1], 20)
    assert not move_branch(catalog, seen, line[2], 30), "it is no longer where it was seen"
    now = find_branch(catalog, "main")
    assert (now.head, now.position) == (line[1].sequence, 1)
    assert [step.snapshot for step in catalog.movements.of(now)] == [
        line[1].sequence,
        line[0].sequence,
    ], "what was refused is in no log"
    assert move_branch(catalog, now, line[0], 40), "to where it was before is a movement, too"
    assert not move_branch(catalog, seen, line[2], 50), "the same head is not the same position"


def test_who_saw_an_older_epoch_does_not_move_a_branch(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    seen = add_branch(catalog, "main", line[0])
    with catalog.write() as connection:
        catalog.raise_epoch(connection)
    assert not move_branch(catalog, seen, line[1], 20)
    again = find_branch(catalog, "main")
    assert (again.epoch, again.position) == ("1", 0)
    assert move_branch(catalog, again, line[1], 20)


def test_what_is_not_committed_moved_nothing(catalog: Catalog, line: list[SnapshotRow]) -> None:
    seen = add_branch(catalog, "main", line[0])
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        assert catalog.branches.move(connection, seen, line[1].sequence, 20, "put")
        assert not catalog.branches.is_at(connection, seen)
        raise ZeroDivisionError
    assert find_branch(catalog, "main") == seen
    assert len(catalog.movements.of(seen)) == 1
    with catalog.write() as connection:
        assert catalog.branches.is_at(connection, seen)


def test_who_is_alone_with_a_branch_keeps_only_what_it_commits(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    seen = add_branch(catalog, "main", line[0])
    with catalog.exclusive_transaction(seen, seen.id) as connection:
        assert catalog.branches.move(connection, seen, line[1].sequence, 20, "put")
    assert find_branch(catalog, "main") == seen
    with (
        catalog.exclusive_transaction(seen, seen.id) as held,
        catalog.commit_exclusive(held) as connection,
    ):
        assert catalog.branches.move(connection, seen, line[2].sequence, 20, "put")
    assert find_branch(catalog, "main").head == line[2].sequence


def test_a_dropped_branch_takes_its_log_along_and_its_number_is_not_used_again(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    gone = add_branch(catalog, "dev", line[0])
    with catalog.write() as connection:
        catalog.branches.drop(connection, gone, 1)
    assert catalog.branches.find("dev") is None
    assert catalog.movements.of(gone) == []
    assert not move_branch(catalog, gone, line[1], 20)
    again = add_branch(catalog, "dev", line[0])
    assert again.number > gone.number
    assert again.id != gone.id


def test_a_branch_is_found_before_a_tag_of_its_name(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    with catalog.write() as connection:
        catalog.tags.add(connection, "x", line[2].sequence, 7)
    assert catalog.branches.branch_or_tag("x") == (TagRow("x", line[2].sequence, 7), "0")
    with pytest.raises(AlreadyExists, match="there is a tag 'x' already"):
        add_branch(catalog, "x", line[1])
    made = add_branch(catalog, "y", line[1])
    with (
        pytest.raises(AlreadyExists, match="there is a branch 'y' already"),
        catalog.write() as connection,
    ):
        catalog.tags.add(connection, "y", line[2].sequence, 7)
    values = {"name": "y", "snapshot": line[2].sequence, "time": 7}
    with catalog.write() as connection:  # as a database of before may have it
        SealedRows(schema.tag).insert(connection, [values])
    assert catalog.branches.branch_or_tag("y") == (made, "0")
    with catalog.write() as connection:
        catalog.raise_epoch(connection)
    assert catalog.branches.branch_or_tag("nothing") == (None, "1")


def test_branches_in_the_order_of_their_heads(catalog: Catalog, line: list[SnapshotRow]) -> None:
    for name, head in (("late", 3), ("a", 1), ("b", 1), ("first", 0)):
        add_branch(catalog, name, line[head])
    by_head = catalog.branches.by_head
    assert [row.name for row in by_head(0, 0, 9)] == ["first", "a", "b", "late"]
    page = by_head(0, 0, 2)
    assert [row.name for row in by_head(page[-1].head, page[-1].number, 9)] == ["b", "late"]
    assert by_head(line[3].sequence, 1 << 62, 9) == []
    assert catalog.snapshots.newest_number() == line[3].sequence
