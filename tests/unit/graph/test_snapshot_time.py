"""The time of a snapshot: what the clock said, in order with its parents' where they are close."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.clock import NOON, Clock, stopped

import livingdb
from livingdb import RuleViolation
from livingdb.evolution import AddColumn
from livingdb.graph.snapshot_time import is_out_of_order, snapshot_time

MINUTE = 60_000_000
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def clock() -> Iterator[Clock]:
    with stopped() as found:
        yield found


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[livingdb.Database]:
    """One table and four rows, each a minute after the one before; it is noon then."""
    clock.go_on(-300)
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as made:
        made.branch("main").create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        for number in range(4):
            clock.go_on(60)
            made.branch("main").insert("t", [{"id": number, "v": number}])
        clock.go_on(60)
        assert clock.moment == NOON
        yield made


def insert(db: livingdb.Database, number: int, branch: str = "main") -> livingdb.Snapshot:
    return db.branch(branch).insert("t", [{"id": number, "v": 0}])


def at(db: livingdb.Database, moment: datetime, branch: str = "main") -> livingdb.Snapshot:
    return db.at(f"{branch}@{moment.isoformat()}")


# --- the rule ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clock", "before", "time"),
    [
        (1000, [], 1000),
        (1000, [999], 1000),
        (1000, [1000], 1001),
        (1000, [5000], 5001),
        (1000, [1000 + MINUTE], 1001 + MINUTE),
        (1000, [1001 + MINUTE], 1000),
        (1000, [999, 5000], 5001),
        (1000, [5000, 3 * MINUTE], 5001),
        (3 * MINUTE, [1000], 3 * MINUTE),
    ],
)
def test_a_time_is_raised_within_a_minute(clock: int, before: list[int], time: int) -> None:
    assert snapshot_time(clock, before) == time
    is_near = all(other - clock <= MINUTE for other in before)
    assert is_out_of_order(time, before) == (not is_near)


# --- a clock that runs back ----------------------------------------------------------------------


def test_a_clock_that_runs_back_by_a_second(db: livingdb.Database, clock: Clock) -> None:
    first = insert(db, 10)
    clock.go_on(-1)
    second = insert(db, 11)
    assert first.time == NOON
    assert second.time == NOON + MOMENT, "after its parent"
    assert at(db, NOON) == first
    assert at(db, NOON - MOMENT) == db.at("main~2")
    assert at(db, second.time) == second
    assert db.alerts() == []


def test_a_clock_that_runs_back_by_an_hour(db: livingdb.Database, clock: Clock) -> None:
    first = insert(db, 10)
    clock.go_on(-3600)
    second = insert(db, 11)
    eleven = NOON - timedelta(hours=1)
    assert second.time == eleven, "what the clock said"
    (alert,) = db.alerts()
    assert (alert.event, alert.severity, alert.sync) == ("clock", "warning", "main")
    assert alert.details["snapshot"] == second.id
    assert alert.details["seconds"] == 3600
    assert "1:00:00 before" in alert.message
    # The newest position in the log whose time is not later.
    assert at(db, eleven) == second
    assert at(db, eleven + timedelta(minutes=30)) == second, "between the two"
    assert at(db, NOON) == second
    with pytest.raises(livingdb.NotFound, match="not there yet"):
        at(db, eleven - MOMENT)
    assert db.at("main~1") == first, "what was before is reached by steps"
    assert db.at("main@now") == second


def test_the_alert_is_raised_once_for_a_commit(db: livingdb.Database, clock: Clock) -> None:
    main = db.branch("main")
    main.derive("v", "SELECT id FROM t", when="immediate")
    main.derive("w", "SELECT count(*) AS n FROM v", when="immediate")
    clock.go_on(-3600)
    insert(db, 10)
    assert [alert.sync for alert in db.alerts()] == ["main"], "not for each view that moves along"
    for _ in range(3):
        main.sql("SELECT * FROM v").to_arrow()
        assert len(main.log()) == 7
        db.at(f"main@{clock.moment.isoformat()}")
    clock.go_on(10)
    insert(db, 11)
    assert len(db.alerts()) == 1, "the clock goes on from there"
    clock.go_on(-3600)
    insert(db, 12)
    assert len(db.alerts()) == 2
    assert db.alerts()[0].details["repeats"] == db.alerts()[1].id


def test_a_commit_that_fails_raises_none(db: livingdb.Database, clock: Clock) -> None:
    clock.go_on(-3600)
    with pytest.raises(livingdb.DuplicateKey):
        insert(db, 1)
    assert db.alerts() == []


def test_a_parent_on_another_machine(db: livingdb.Database, clock: Clock) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    clock.go_on(3600)
    theirs = insert(db, 20, "dev")
    clock.go_on(-3600)
    ours = insert(db, 21)
    assert db.alerts() == []
    merged = db.merge("dev", into="main")
    assert merged.parents == (ours.id, theirs.id)
    assert merged.time == ours.time + MOMENT, "after the parent that is near"
    (alert,) = db.alerts()
    assert alert.details["snapshot"] == merged.id
    assert db.at("dev@now") == dev.head == theirs
    assert at(db, NOON, "dev") != theirs, "it is not there yet, by its time"
    assert main.head == merged


# --- positions and snapshots ---------------------------------------------------------------------


def test_the_log_of_a_branch_that_was_reset(db: livingdb.Database, clock: Clock) -> None:
    main = db.branch("main")
    last = main.head
    target = db.at("main~2")
    main.reset(target)
    clock.go_on(60)
    again = insert(db, 30)
    assert at(db, NOON - MOMENT) == last
    assert at(db, NOON) == target, "the position's time, not that of the snapshot"
    assert at(db, target.time) == target, "when it was made"
    assert at(db, target.time + timedelta(seconds=59)) == target
    assert at(db, target.time + timedelta(seconds=60)) != target
    assert at(db, again.time) == again
    assert db.at("main@now") == again
    main.reset(last)
    assert db.at("main@now") == last
    assert db.alerts() == []


def test_a_reset_while_the_clock_is_behind(db: livingdb.Database, clock: Clock) -> None:
    main = db.branch("main")
    target = db.at("main~2")
    clock.go_on(-3600)
    main.reset(target)
    (alert,) = db.alerts()
    assert (alert.event, alert.details["snapshot"]) == ("clock", target.id)
    assert at(db, clock.moment) == target
    assert db.at("main@NOW") == target


@pytest.mark.parametrize("hours", [-11, -2, 0, 5.5, 14])
def test_a_time_in_a_zone(db: livingdb.Database, clock: Clock, hours: float) -> None:
    wanted, zone = db.at("main~1"), timezone(timedelta(hours=hours))
    then = wanted.time + timedelta(seconds=1)
    insert(db, 10)
    assert at(db, then.astimezone(zone)) == wanted
    assert at(db, then.replace(tzinfo=None)) == wanted, "UTC"
    text = then.astimezone(zone).isoformat()
    found = db.branch("main").sql(f"SELECT count(*) AS n FROM t TIMESTAMP AS OF '{text}'")
    assert found.to_arrow().to_pylist() == [{"n": 3}]
    found = db.branch("main").sql("SELECT count(*) AS n FROM t TIMESTAMP AS OF 'now'")
    assert found.to_arrow().to_pylist() == [{"n": 5}]


# --- branches in step ----------------------------------------------------------------------------


def test_the_other_side_of_a_pair_is_found_if_it_moved_along(
    db: livingdb.Database, clock: Clock
) -> None:
    main = db.branch("main")
    main.evolve(AddColumn("t", "w", "bigint", default=1), keep="old", sync="both")
    clock.go_on(60)
    first = insert(db, 40)
    paired = db.branch("old").head
    clock.go_on(60)
    insert(db, 41)
    main.reset(first)
    assert db.branch("old").head == paired


def test_no_pair_is_guessed_where_the_clock_ran_back(db: livingdb.Database, clock: Clock) -> None:
    main = db.branch("main")
    before = main.head
    main.evolve(AddColumn("t", "w", "bigint", default=1), keep="old", sync="both")
    clock.go_on(60)
    first = insert(db, 40)
    paired = db.branch("old").head
    clock.go_on(-3600)
    second = insert(db, 41)
    assert db.at("old").table("t").get(41) == {"id": 41, "v": 0}
    heads = main.head, db.branch("old").head
    with pytest.raises(RuleViolation, match="no snapshot that belongs to"):
        main.reset(before)
    assert (main.head, db.branch("old").head) == heads
    for target, other in ((second, heads[1]), (first, paired)):
        main.reset(target)
        assert db.branch("old").head == other, "both moved in one commit"
