"""Branches move by compare-and-swap, write down every movement, and share names with nobody."""

from __future__ import annotations

import pytest
from tests.unit.catalog.conftest import add_snapshot

from livingdb.catalog import schema
from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.tags import TagRow
from livingdb.errors import AlreadyExists


def add_branch(
    catalog: Catalog, name: str, head: SnapshotRow, time: int = 10, origin: str | None = None
) -> BranchRow:
    with catalog.write() as connection:
        catalog.branches.add(connection, name, head.sequence, time, origin)
    return find(catalog, name)


def find(catalog: Catalog, name: str) -> BranchRow:
    found = catalog.branches.find(name)
    assert found is not None
    return found


def move(catalog: Catalog, seen: BranchRow, to: SnapshotRow, time: int, how: str = "put") -> bool:
    with catalog.write() as connection:
        return catalog.branches.move(connection, seen, to.sequence, time, how)


@pytest.fixture
def line(catalog: Catalog) -> list[SnapshotRow]:
    """Four snapshots, each the parent of the next."""
    rows = [add_snapshot(catalog, "0")]
    for number in range(1, 4):
        rows.append(add_snapshot(catalog, str(number), rows[-1]))
    return rows


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


def test_times_that_run_back(catalog: Catalog, line: list[SnapshotRow]) -> None:
    branch = add_branch(catalog, "main", line[0], time=10)
    for to, time in zip(line[1:], (30, 20, 40), strict=True):
        assert move(catalog, find(catalog, "main"), to, time)
    movements = catalog.movements

    def at(time: int) -> int | None:
        found = movements.at(branch, time)
        return None if found is None else found.position

    assert [at(time) for time in (9, 10, 19, 20, 30, 39, 40)] == [None, 0, 0, 2, 2, 2, 3]
    exactly = [movements.exactly_at(branch, time) for time in (10, 20, 25, 30)]
    assert [None if one is None else one.position for one in exactly] == [0, 2, None, 1]
    crossed = [time for time in range(5, 50) if movements.ran_back_over(branch, time, 0)]
    assert crossed == list(range(21, 31))
    assert movements.ran_back_over(branch, 25, 9)
    assert not movements.ran_back_over(branch, 25, 10)


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
    assert find(catalog, "main").head == line[0].sequence


def test_a_branch_moves_only_from_where_it_was_seen(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    seen = add_branch(catalog, "main", line[0])
    assert move(catalog, seen, line[1], 20)
    assert not move(catalog, seen, line[2], 30), "it is no longer where it was seen"
    now = find(catalog, "main")
    assert (now.head, now.position) == (line[1].sequence, 1)
    assert [step.snapshot for step in catalog.movements.of(now)] == [
        line[1].sequence,
        line[0].sequence,
    ], "what was refused is in no log"
    assert move(catalog, now, line[0], 40), "to where it was before is a movement, too"
    assert not move(catalog, seen, line[2], 50), "the same head is not the same position"


def test_who_saw_an_older_epoch_does_not_move_a_branch(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    seen = add_branch(catalog, "main", line[0])
    with catalog.write() as connection:
        catalog.raise_epoch(connection)
    assert not move(catalog, seen, line[1], 20)
    again = find(catalog, "main")
    assert (again.epoch, again.position) == ("1", 0)
    assert move(catalog, again, line[1], 20)


def test_what_is_not_committed_moved_nothing(catalog: Catalog, line: list[SnapshotRow]) -> None:
    seen = add_branch(catalog, "main", line[0])
    with pytest.raises(ZeroDivisionError), catalog.write() as connection:
        assert catalog.branches.move(connection, seen, line[1].sequence, 20, "put")
        assert not catalog.branches.is_at(connection, seen)
        raise ZeroDivisionError
    assert find(catalog, "main") == seen
    assert len(catalog.movements.of(seen)) == 1
    with catalog.write() as connection:
        assert catalog.branches.is_at(connection, seen)


def test_who_is_alone_with_a_branch_keeps_only_what_it_commits(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    seen = add_branch(catalog, "main", line[0])
    with catalog.exclusive_transaction(seen, seen.id) as connection:
        assert catalog.branches.move(connection, seen, line[1].sequence, 20, "put")
    assert find(catalog, "main") == seen
    with (
        catalog.exclusive_transaction(seen, seen.id) as held,
        catalog.commit_exclusive(held) as connection,
    ):
        assert catalog.branches.move(connection, seen, line[2].sequence, 20, "put")
    assert find(catalog, "main").head == line[2].sequence


def test_a_log_is_newest_first_and_can_be_cut(catalog: Catalog, line: list[SnapshotRow]) -> None:
    add_branch(catalog, "main", line[0], time=10)
    for number, how in ((1, "insert"), (2, "merge"), (0, "reset")):
        assert move(catalog, find(catalog, "main"), line[number], 10 + 10 * number, how)
    now = find(catalog, "main")
    log = catalog.movements.of(now)
    assert [step.position for step in log] == [3, 2, 1, 0]
    assert [step.operation for step in log] == ["reset", "merge", "insert", "clone"]
    assert catalog.movements.of(now, after=1) == log[:2]
    assert catalog.movements.of(now, after=0, upto=2) == log[1:3]
    assert catalog.movements.of(now, after=3) == []


def test_a_log_ends_where_the_branch_was_seen(catalog: Catalog, line: list[SnapshotRow]) -> None:
    seen = add_branch(catalog, "main", line[0])
    assert move(catalog, seen, line[1], 20)
    assert [step.position for step in catalog.movements.of(seen)] == [0]


def test_the_last_movement_up_to_a_time(catalog: Catalog, line: list[SnapshotRow]) -> None:
    main = add_branch(catalog, "main", line[0], time=10)
    for number, time in ((1, 20), (2, 20), (3, 40)):
        assert move(catalog, find(catalog, "main"), line[number], time)
    other = add_branch(catalog, "other", line[3], time=15)

    def head(branch: BranchRow, time: int) -> int | None:
        step = catalog.movements.at(branch, time)
        return None if step is None else step.snapshot

    times = {9: None, 10: 0, 19: 0, 20: 2, 39: 2, 40: 3, 1_000: 3}
    expected = {t: None if n is None else line[n].sequence for t, n in times.items()}
    assert {time: head(main, time) for time in times} == expected
    assert (head(other, 14), head(other, 15)) == (None, line[3].sequence)


def test_the_last_movement_to_a_snapshot(catalog: Catalog, line: list[SnapshotRow]) -> None:
    main = add_branch(catalog, "main", line[0], time=10)
    for number, time in ((1, 20), (0, 30), (2, 40)):
        assert move(catalog, find(catalog, "main"), line[number], time)
    found = catalog.movements.last_to(main, line[0].sequence)
    assert found == Movement(2, line[0].sequence, 30, "put")
    assert catalog.movements.last_to(main, line[3].sequence) is None
    other = add_branch(catalog, "other", line[3])
    assert catalog.movements.last_to(other, line[0].sequence) is None


def test_a_copied_log_begins_at_a_time_and_counts_from_zero(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    add_branch(catalog, "main", line[0], time=10)
    for number in (1, 2):
        assert move(catalog, find(catalog, "main"), line[number], 10 + 10 * number)
    main = find(catalog, "main")
    old = add_branch(catalog, "old", line[2], time=50)
    with catalog.write() as connection:
        catalog.movements.copy(connection, main, old.id, since=20)
    copied = find(catalog, "old")
    assert [(s.position, s.snapshot, s.time) for s in catalog.movements.of(copied)] == [
        (1, line[2].sequence, 30),
        (0, line[1].sequence, 20),
    ]
    assert copied.position == 1
    assert move(catalog, copied, line[3], 60), "the copy goes on from there"
    with catalog.write() as connection:
        catalog.movements.copy(connection, main, old.id, since=1_000)
    assert len(catalog.movements.of(find(catalog, "old"))) == 3, "nothing to copy changes nothing"


def test_a_dropped_branch_takes_its_log_along_and_its_number_is_not_used_again(
    catalog: Catalog, line: list[SnapshotRow]
) -> None:
    gone = add_branch(catalog, "dev", line[0])
    with catalog.write() as connection:
        catalog.branches.drop(connection, gone, 1)
    assert catalog.branches.find("dev") is None
    assert catalog.movements.of(gone) == []
    assert not move(catalog, gone, line[1], 20)
    again = add_branch(catalog, "dev", line[0])
    assert again.number > gone.number
    assert again.id != gone.id


def test_tags_stay_where_they_are(catalog: Catalog, line: list[SnapshotRow]) -> None:
    with catalog.write() as connection:
        catalog.tags.add(connection, "v2", line[2].sequence, 7)
        catalog.tags.add(connection, "v1", line[1].sequence, 8)
    v1, v2 = TagRow("v1", line[1].sequence, 8), TagRow("v2", line[2].sequence, 7)
    assert catalog.tags.all() == [v1, v2]
    with (
        pytest.raises(AlreadyExists, match="tag 'v1'"),
        catalog.write() as connection,
    ):
        catalog.tags.add(connection, "v1", line[3].sequence, 9)
    assert catalog.tags.find("v1") == v1
    with catalog.write() as connection:
        assert catalog.tags.drop(connection, "v1")
        assert not catalog.tags.drop(connection, "v1")
    assert catalog.tags.find("v1") is None


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
