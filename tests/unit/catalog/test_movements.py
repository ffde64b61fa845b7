"""Every movement of a branch is written down, and found by its time and by its snapshot."""

from __future__ import annotations

from tests.unit.catalog.conftest import add_branch, find_branch, move_branch

from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.snapshots import SnapshotRow


def test_times_that_run_back(catalog: Catalog, line: list[SnapshotRow]) -> None:
    branch = add_branch(catalog, "main", line[0], time=10)
    for to, time in zip(line[1:], (30, 20, 40), strict=True):
        assert move_branch(catalog, find_branch(catalog, "main"), to, time)
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


def test_a_log_is_newest_first_and_can_be_cut(catalog: Catalog, line: list[SnapshotRow]) -> None:
    add_branch(catalog, "main", line[0], time=10)
    for number, how in ((1, "insert"), (2, "merge"), (0, "reset")):
        assert move_branch(
            catalog, find_branch(catalog, "main"), line[number], 10 + 10 * number, how
        )
    now = find_branch(catalog, "main")
    log = catalog.movements.of(now)
    assert [step.position for step in log] == [3, 2, 1, 0]
    assert [step.operation for step in log] == ["reset", "merge", "insert", "clone"]
    assert catalog.movements.of(now, after=1) == log[:2]
    assert catalog.movements.of(now, after=0, upto=2) == log[1:3]
    assert catalog.movements.of(now, after=3) == []


def test_a_log_ends_where_the_branch_was_seen(catalog: Catalog, line: list[SnapshotRow]) -> None:
    seen = add_branch(catalog, "main", line[0])
    assert move_branch(catalog, seen, line[1], 20)
    assert [step.position for step in catalog.movements.of(seen)] == [0]


def test_the_last_movement_up_to_a_time(catalog: Catalog, line: list[SnapshotRow]) -> None:
    main = add_branch(catalog, "main", line[0], time=10)
    for number, time in ((1, 20), (2, 20), (3, 40)):
        assert move_branch(catalog, find_branch(catalog, "main"), line[number], time)
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
        assert move_branch(catalog, find_branch(catalog, "main"), line[number], time)
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
        assert move_branch(catalog, find_branch(catalog, "main"), line[number], 10 + 10 * number)
    main = find_branch(catalog, "main")
    old = add_branch(catalog, "old", line[2], time=50)
    with catalog.write() as connection:
        catalog.movements.copy(connection, main, old.id, since=20)
    copied = find_branch(catalog, "old")
    assert [(s.position, s.snapshot, s.time) for s in catalog.movements.of(copied)] == [
        (1, line[2].sequence, 30),
        (0, line[1].sequence, 20),
    ]
    assert copied.position == 1
    assert move_branch(catalog, copied, line[3], 60), "the copy goes on from there"
    with catalog.write() as connection:
        catalog.movements.copy(connection, main, old.id, since=1_000)
    assert len(catalog.movements.of(find_branch(catalog, "old"))) == 3, (
        "nothing to copy changes nothing"
    )
