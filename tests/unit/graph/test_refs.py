"""Refs: every way to name a snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.clock import Clock, stopped

import livingdb
from livingdb import InvalidName, NotFound, Snapshot
from livingdb.graph.refs import parse_time


@pytest.fixture
def clock() -> Iterator[Clock]:
    with stopped() as found:
        yield found


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        made.branch("main").create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        for number in range(4):
            made.branch("main").insert("t", [{"id": number, "v": number}])
        yield made


def _line(db: livingdb.Database) -> list[Snapshot]:
    return db.branch("main").log()


def _moment(clock: Clock) -> datetime:
    """Now; nothing else happens in the same second."""
    now = clock.go_on()
    clock.go_on()
    return now


# --- back along first parents ---------------------------------------------------------------


def test_steps_back(db: livingdb.Database) -> None:
    line = _line(db)
    assert len(line) == 6
    for back, snapshot in enumerate(line):
        assert db.at(f"main~{back}") == snapshot
    assert db.at("main~") == line[1]
    assert db.at("main~~") == line[2]
    assert db.at("main~2~1") == line[3]
    assert db.at(f"{line[1].id}~2") == line[3]
    assert db.at(f"id:{line[1].id[:12]}~2") == line[3]


def test_steps_beyond_the_beginning(db: livingdb.Database) -> None:
    for ref in ("main~6", "main~99999", "main~5~1"):
        with pytest.raises(NotFound):
            db.at(ref)


def test_steps_back_over_a_merge_follow_the_first_parent(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    dev.insert("t", [{"id": 10, "v": 0}])
    before = main.insert("t", [{"id": 11, "v": 0}])
    merged = db.merge("dev", into="main")
    assert merged.parents == (before.id, dev.head.id)
    assert db.at("main~") == before


def test_steps_back_from_a_tag(db: livingdb.Database) -> None:
    db.tag("v1", "main~1")
    assert db.at("v1~2") == _line(db)[3]


# --- times ----------------------------------------------------------------------------------


def test_a_time_follows_the_branchs_own_log(db: livingdb.Database, clock: Clock) -> None:
    main = db.branch("main")
    first, then = main.head, _moment(clock)
    second = main.insert("t", [{"id": 20, "v": 0}])
    later = _moment(clock)
    main.reset("main~3")
    target, last = main.head, _moment(clock)
    for moment, snapshot in ((then, first), (later, second), (last, target)):
        assert db.at(f"main@{moment.replace(tzinfo=None).isoformat()}") == snapshot
    assert db.at("main@2999-01-01") == target


def test_a_time_in_a_zone(db: livingdb.Database, clock: Clock) -> None:
    main = db.branch("main")
    first, then = main.head, _moment(clock)
    main.insert("t", [{"id": 20, "v": 0}])
    for hours in (-11, -2, 0, 5.5, 14):
        zone = timezone(timedelta(hours=hours))
        assert db.at(f"main@{then.astimezone(zone).isoformat()}") == first
    assert db.at(f"main@{then.replace(tzinfo=None).isoformat()}Z") == first
    assert db.at(f"main@{then.replace(tzinfo=None).isoformat(sep=' ')}") == first


def test_the_moment_of_a_commit_is_already_after_it(db: livingdb.Database) -> None:
    head = db.branch("main").head
    assert db.at(f"main@{head.time.isoformat()}") == head
    assert db.at(f"main@{(head.time - timedelta(microseconds=1)).isoformat()}") == db.at("main~1")


def test_a_time_before_the_branch(db: livingdb.Database, clock: Clock) -> None:
    before = _moment(clock)
    db.branch("main").clone("dev")
    with pytest.raises(NotFound):
        db.at(f"dev@{before.isoformat()}")
    with pytest.raises(NotFound):
        db.at("main@1999-12-31T23:59:59")
    assert db.at("dev@2999-01-01") == db.branch("main").head


def test_a_time_of_what_is_no_branch(db: livingdb.Database) -> None:
    db.tag("v1", "main")
    for ref in ("v1@2999-01-01", "nobody@2999-01-01"):
        with pytest.raises(NotFound):
            db.at(ref)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "2026-11-15T25:00", "12"])
def test_what_is_no_time(db: livingdb.Database, text: str) -> None:
    with pytest.raises(InvalidName):
        db.at(f"main@{text}")


def test_times_are_utc_unless_a_zone_is_given() -> None:
    assert parse_time("1970-01-01T00:00:01") == 1_000_000
    assert parse_time("1970-01-01T02:00:01+02:00") == 1_000_000
    assert parse_time("1970-01-01T00:00:01Z") == 1_000_000
    assert parse_time("1970-01-02") == 86_400_000_000
    assert parse_time("1969-12-31T23:59:59.999999") == -1
    assert parse_time("2026-11-15T10:00:00.000001") % 1_000_000 == 1


# --- ids ------------------------------------------------------------------------------------


def test_ids_and_their_prefixes(db: livingdb.Database) -> None:
    for snapshot in _line(db):
        for digits in (snapshot.id, snapshot.id.upper(), snapshot.id[:16], snapshot.id[:17]):
            assert db.at(digits) == snapshot
            assert db.at(f"id:{digits}") == snapshot


def test_too_short_a_prefix(db: livingdb.Database) -> None:
    short = db.branch("main").head.id[:5]
    with pytest.raises(NotFound):
        db.at(short)
    with pytest.raises(InvalidName):
        db.at(f"id:{short}")


def test_an_id_that_is_not_there(db: livingdb.Database) -> None:
    known = {snapshot.id[:6] for snapshot in db.snapshots()}
    absent = next(f"{n:06x}" for n in range(100) if f"{n:06x}" not in known)
    for ref in (absent, f"id:{absent}", absent.ljust(64, "0"), f"id:{absent.ljust(64, '0')}"):
        with pytest.raises(NotFound):
            db.at(ref)


def test_what_is_no_id(db: livingdb.Database) -> None:
    for ref in ("id:", "id:main", "id:zzzzzz", "id:" + "0" * 65):
        with pytest.raises(InvalidName):
            db.at(ref)


def test_a_prefix_of_two_ids_is_refused(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ids that begin alike are made up: nobody finds them in a test."""
    snapshots = db._graph.snapshots
    both = [db.branch("main").head._row, db.at("main~1")._row]
    monkeypatch.setattr(snapshots, "with_prefix", lambda prefix: both)
    for ref in ("abcdef", "id:abcdef"):
        with pytest.raises(InvalidName, match="more than one"):
            db.at(ref)


def test_all_prefixes_stay_unique_or_are_refused(db: livingdb.Database) -> None:
    ids = [snapshot.id for snapshot in db.snapshots()]
    snapshots = db._graph.snapshots
    for length in range(1, 5):
        for prefix in {identity[:length] for identity in ids}:
            found = {row.address.hex() for row in snapshots.with_prefix(prefix)}
            same = {identity for identity in ids if identity.startswith(prefix)}
            assert found <= same
            assert len(found) == min(2, len(same))


# --- names win ------------------------------------------------------------------------------


def test_names_win_over_ids(db: livingdb.Database) -> None:
    old = db.at("main~3")
    name = old.id[:8]
    head = db.branch("main").head
    db.branch("main").clone(name)
    assert db.at(name) == head
    assert db.at(f"id:{name}") == old
    assert db.at(f"{name}~1") == db.at("main~1")
    db.drop_branch(name)
    assert db.at(name) == old
    db.tag(name, "main")
    assert db.at(name) == head
    assert db.at(f"id:{name}") == old


def test_a_whole_id_as_a_name(db: livingdb.Database) -> None:
    old, head = db.at("main~3"), db.branch("main").head
    db.tag(old.id, "main")
    assert db.at(old.id) == head
    assert db.at(f"id:{old.id}") == old


def test_a_snapshot_given_as_such_is_that_snapshot_whatever_names_say(
    db: livingdb.Database,
) -> None:
    old = db.at("main~3")
    db.branch("main").clone(old.id)
    assert db.at(old) == old
    assert db.diff(old, "main~3") == {}
    target = db.branch("main").clone("target")
    target.reset(old)
    assert target.head == old
    db.branch(old.id).insert("t", [{"id": 30, "v": 0}])
    head = db.branch("main").head
    assert db.merge(old, into="main") == head
    assert db.preview_merge(old, into="main").changes == {}


# --- what is no ref -------------------------------------------------------------------------


@pytest.mark.parametrize("ref", ["", None, 3, b"main"])
def test_refs_are_texts(db: livingdb.Database, ref: object) -> None:
    with pytest.raises(InvalidName):
        db.at(ref)


@pytest.mark.parametrize("ref", ["nobody", "Main", "main ", "main~x", "~1", "@2026-01-01", "main^"])
def test_what_is_not_there(db: livingdb.Database, ref: str) -> None:
    with pytest.raises((NotFound, InvalidName)):
        db.at(ref)


@pytest.mark.parametrize(
    "ref",
    [
        *("main~" + "9" * 5000, "main~" + "9" * 600, "main~" + "0" * 600, "main~²", "main~٣"),
        *("main" + "~" * 900, "main" + "~" * 3000, "main" + "~1" * 400, "~" * 900 + "x"),
        *("\ud800", "main\ud800", "main~\udfff", "main@\ud800", "id:\ud800", "a" * 10_000),
    ],
    ids=ascii,
)
def test_strange_texts_are_no_refs(db: livingdb.Database, ref: str) -> None:
    """However a ref is asked for."""
    main = db.branch("main")
    for asked in (db.at, db.branch, db.provenance):
        with pytest.raises((NotFound, InvalidName)):
            asked(ref)
    with pytest.raises((NotFound, InvalidName)):
        db.tag("new", ref)
    with pytest.raises((NotFound, InvalidName)):
        main.reset(ref)
    quoted = ref.replace("`", "")
    for text in (f"SELECT * FROM `{quoted}`.t", f"CREATE BRANCH new FROM `{quoted}`"):
        with pytest.raises(livingdb.LivingDBError):
            main.sql(text)
    assert [branch.name for branch in db.branches()] == ["main"]


def test_many_steps_back(db: livingdb.Database) -> None:
    line = _line(db)
    assert db.at("main~1~0~~") == line[3]
    assert db.at("main~000001~0") == line[1]
    assert db.at("main@now~1~1") == line[2]


def test_a_near_miss_says_what_was_meant(db: livingdb.Database) -> None:
    with pytest.raises(NotFound, match="main"):
        db.at("mian")


def test_only_branches_are_written(db: livingdb.Database) -> None:
    db.tag("v1", "main")
    for ref in ("v1", "main~1", db.branch("main").head.id):
        with pytest.raises(livingdb.LivingDBError):
            db.merge("main", into=ref)
        with pytest.raises(NotFound):
            db.branch(ref)


def test_the_log_is_newest_first_and_can_be_cut(db: livingdb.Database) -> None:
    main, dev = db.branch("main"), db.branch("main").clone("dev")
    dev.insert("t", [{"id": 10, "v": 0}])
    main.insert("t", [{"id": 11, "v": 0}])
    db.merge("dev", into="main")
    log = main.log()
    assert log[0] == main.head
    assert len({snapshot.id for snapshot in log}) == len(log) == 9
    assert [snapshot.time for snapshot in log] == sorted((s.time for s in log), reverse=True)
    assert main.log(limit=3) == log[:3]
    assert main.log(limit=0) == []
    assert len(dev.log()) == 7
