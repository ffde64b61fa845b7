"""Retention: what goes, what keeps the rest, and what is told of what went."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from tests.clock import NOON, Clock, stopped

import livingdb
from livingdb import Database, Forgotten, InvalidData, Retention
from livingdb.evolution import AddColumn, CreateTable, SplitTable
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.maintenance.retention.collect import collect_garbage
from livingdb.maintenance.retention.keepers import FOLLOWERS, KEEPERS

NEWEST = Retention(snapshots=1, dropped_days=0, grace_seconds=0)
HOUR = 3_600.0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 400 rows, and twenty commits, six hours apart."""
    path: Path = tmp_path_factory.mktemp("retention") / "db"
    with stopped(NOON) as clock, livingdb.create(path, author="ann", engine="embedded") as made:
        main = made.branch("main")
        main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
        main.insert("t", {"id": range(400), "v": [f"row {n}" for n in range(400)]})
        for step in range(20):
            clock.go_on(6 * HOUR)
            main.upsert("t", {"id": [step, step + 1], "v": [f"step {step}", f"then {step}"]})
    return path


@pytest.fixture
def clock() -> Iterator[Clock]:
    """It shows when the last of them was made."""
    with stopped(NOON + timedelta(seconds=20 * 6 * HOUR)) as found:
        yield found


@pytest.fixture
def db(whole: Path, tmp_path: Path, clock: Clock) -> Iterator[Database]:
    """A copy of it."""
    shutil.copytree(whole, tmp_path / "db")
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as made:
        yield made


def moment(clock: Clock) -> int:
    return clock.time_ns() // 1000


def collect(db: Database, clock: Clock, policy: Retention, dry_run: bool = False) -> object:
    return collect_garbage(db._graph, policy, dry_run, moment(clock))


def rows(snapshot: livingdb.Snapshot) -> dict[str, pa.Table]:
    return {name: snapshot.table(name).to_arrow() for name in snapshot.tables()}


def history(db: Database) -> dict[str, dict[str, pa.Table]]:
    return {snapshot.id: rows(snapshot) for snapshot in db.snapshots()}


def check_cut(db: Database, before: dict[str, dict[str, pa.Table]]) -> list[str]:
    """Everything that is kept reads as before, the rest is forgotten; the ids that are kept."""
    kept = []
    for snapshot in db.snapshots():
        if db._graph.forgotten.find(snapshot._row) is None:
            assert rows(snapshot) == before[snapshot.id]
            kept.append(snapshot.id)
            continue
        assert snapshot.edge.author == "ann"
        for name in snapshot.tables():
            with pytest.raises(Forgotten, match="policy"):
                snapshot.table(name)
    assert db.check().problems == []
    return kept


# --- policies -------------------------------------------------------------------------------


def test_without_a_policy_everything_is_kept(db: Database, clock: Clock) -> None:
    before = history(db)
    assert db.retention == Retention()
    assert str(db.retention) == "keep everything"
    assert str(db.collect_garbage()) == "nothing goes: the policy keeps everything"
    assert check_cut(db, before) == list(before)


def test_a_policy_is_kept_with_the_database(db: Database) -> None:
    agents = Retention(days=2, drop_idle=True)
    policy = Retention(
        days=30,
        thin="daily",
        thin_days=365,
        branches={"agent/*": agents},
        tags={"v*": "2027-01-01"},
    )
    db.retention = policy
    with livingdb.open(db.name) as other:
        assert other.retention == policy
    assert policy.lines() == [
        "branches: keep everything for 30 days, then one per day for 365 days, then nothing",
        "branches agent/*: keep everything for 2 days, then nothing; dropped after 2 days without "
        "a write",
        "tags v*: until 2027-01-01",
        "other tags: for ever",
        "dropped branches: for 7 days",
    ]
    db.retention = None
    assert db.retention == Retention()


def test_what_is_no_policy_is_refused(db: Database) -> None:
    given: Any = {"days": 1}
    with pytest.raises(InvalidData, match=r"livingdb\.Retention, not dict"):
        db.retention = given
    with pytest.raises(InvalidData, match=r"livingdb\.Retention, not dict"):
        db.collect_garbage(given)


@pytest.mark.parametrize(
    "given",
    [
        {"days": -1},
        {"days": float("inf")},
        {"days": 1e308},
        {"thin": "daily", "thin_days": 1e300},
        {"dropped_days": float("nan")},
        {"grace_seconds": float("inf")},
        {"grace_seconds": None},
        {"days": 1, "drop_idle": -1},
        {"days": 1, "drop_idle": None},
        {"snapshots": 0},
        {"thin": "yearly"},
        {"thin_days": 3},
        {"drop_idle": True},
        {"tags": {"v*": "soon"}},
        {"branches": {"a": Retention(days=1, tags={"x": "2027-01-01"})}},
    ],
)
def test_what_is_no_policy(given: dict[str, object]) -> None:
    with pytest.raises(livingdb.LivingDBError):
        Retention(**given)  # type: ignore[arg-type]


def test_a_very_long_time(db: Database) -> None:
    long: dict[str, Any] = dict.fromkeys(("days", "thin_days", "dropped_days", "drop_idle"), 1e9)
    policy = Retention(thin="daily", grace_seconds=1e9, **long)
    assert policy.lines()
    assert db.collect_garbage(policy, dry_run=True).snapshots == []


def test_days_and_then_nothing(db: Database, clock: Clock) -> None:
    before = history(db)
    foretold = collect(db, clock, Retention(days=1, grace_seconds=0), dry_run=True)
    assert check_cut(db, before) == list(before)
    done = collect(db, clock, Retention(days=1, grace_seconds=0))
    assert done.snapshots == foretold.snapshots  # type: ignore[attr-defined]
    assert done.after_bytes < done.before_bytes  # type: ignore[attr-defined]
    kept = check_cut(db, before)
    assert kept == [snapshot.id for snapshot in db.branch("main").log()[:5]]
    assert not collect(db, clock, Retention(days=1, grace_seconds=0)).snapshots  # type: ignore[attr-defined]


@pytest.mark.parametrize(("thin", "count"), [("hourly", 21), ("daily", 6), ("weekly", 1)])
def test_thinned(db: Database, clock: Clock, thin: str, count: int) -> None:
    """The last one of each hour, day or week stays: the commits are six hours apart."""
    before = history(db)
    collect(db, clock, Retention(thin=thin, grace_seconds=0))
    kept = check_cut(db, before)
    assert len(kept) == count


def test_thinned_and_then_nothing(db: Database, clock: Clock) -> None:
    before = history(db)
    collect(db, clock, Retention(snapshots=2, thin="daily", thin_days=2, grace_seconds=0))
    assert len(check_cut(db, before)) == 4


# --- what keeps what ------------------------------------------------------------------------


def test_tags_leases_and_merge_bases(db: Database, clock: Clock) -> None:
    before = history(db)
    line = [snapshot.id for snapshot in db.branch("main").log()]
    db.tag("v1", "main~3")
    db.tag("x1", "main~4")
    base = db.at("main~9")
    base.clone("dev")
    db.branch("dev").upsert("t", {"id": [900], "v": ["dev"]})
    before |= history(db)
    policy = replace(NEWEST, tags={"x*": "2020-01-01"})
    with db._graph.leases.hold(db.at("main~6").sequence, "a reader"):
        told = db.collect_garbage(policy, dry_run=True)
        why = {at: [(link.kind, link.by) for link in told.why(line[at])] for at in (0, 3, 4, 6, 9)}
        assert why[0][0] == ("head", "the head of branch 'main'")
        assert why[3] == [("tag", "tag 'v1'")]
        assert why[4] == []
        assert why[6][0][0] == "lease"
        assert why[9] == [("merge base", "where branches that are there parted")]
        db.collect_garbage(policy)
        assert {line[0], line[3], line[6], line[9]} < set(check_cut(db, before))
    db.collect_garbage(policy)
    assert line[6] not in check_cut(db, before)
    db.merge("dev", into="main")
    assert db.branch("main").table("t").to_arrow().num_rows == 401


def test_a_view_keeps_what_it_was_made_from(db: Database, clock: Clock) -> None:
    main = db.branch("main")
    main.derive("short", "SELECT id, v FROM t WHERE id < 5", when="on demand")
    source = main.head.id
    main.upsert("t", {"id": [1], "v": ["later"]})
    before = history(db)
    told = db.collect_garbage(NEWEST)
    assert [link.kind for link in told.why(source)] == ["source", "head"]
    assert source in check_cut(db, before)
    db.refresh("short")
    assert db.check(deep=True).problems == []


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "schema change"])
@pytest.mark.parametrize(
    "transform",
    [
        [AddColumn("t", "a", "int64", default=1)],
        [AddColumn("t", "a", "int64", default=1), CreateTable("u", {"id": "int64"}, key="id")],
    ],
    ids=["one", "two"],
)
def test_what_stands_behind_a_clone_that_is_late(
    db: Database, clock: Clock, transform: list[Any], is_first: bool
) -> None:
    """It is asked for through branches that have gone on since."""
    main = db.branch("main")
    main.clone("next", transform=transform, sync="forward", when="immediate")
    if not is_first:
        main.evolve(AddColumn("t", "b", "int64"))
    db.branch("next").clone("late", sync="forward", when="deferred")
    db.branch("late").derive("same", "SELECT id, v FROM t", key="id")
    main.evolve(AddColumn("t", "c", "int64"))
    for step in range(3):
        clock.go_on(HOUR)
        main.upsert("t", {"id": [7], "v": [f"later {step}"]})
    before = {row["v"] for row in db.lineage("same", 7, base=True)["t"].to_pylist()}
    collect(db, clock, NEWEST)
    db.branch("late").derive("again", "SELECT id, v FROM t", key="id")
    for view in ("same", "again"):
        assert {row["v"] for row in db.lineage(view, 7, base=True)["t"].to_pylist()} == before


def test_everything_that_names_a_snapshot_is_in_the_registry(db: Database, clock: Clock) -> None:
    names = {keeper.__name__ for keeper in (*KEEPERS, *FOLLOWERS)}  # type: ignore[attr-defined]
    assert {"_heads", "_tags", "_leases", "_policies", "_syncs", "_merge_bases"} <= names
    assert {"_streams", "_steps", "_watches", "_recent", "_sources_of", "_other_sides"} <= names


def test_what_was_a_head_a_moment_ago_stays(db: Database, clock: Clock) -> None:
    before = history(db)
    collect(db, clock, Retention(snapshots=1, grace_seconds=7 * HOUR))
    assert len(check_cut(db, before)) == 3


# --- branches that were dropped -------------------------------------------------------------


def test_dropped_branches_go_after_their_time(db: Database, clock: Clock) -> None:
    main = db.branch("main")
    for number in range(5):
        agent = main.clone(f"agent/{number}")
        agent.insert("t", {"id": [1000 + number], "v": ["x" * 500]})
    gone = db.branch("agent/0").head
    for number in range(5):
        db.drop_branch(f"agent/{number}")
    before = history(db)
    policy = Retention(branches={"agent/*": Retention(days=0, dropped_days=3)}, grace_seconds=0)
    assert not collect(db, clock, policy).snapshots  # type: ignore[attr-defined]
    clock.go_on(4 * 24 * HOUR)
    done = collect(db, clock, policy)
    assert len(done.snapshots) == 5  # type: ignore[attr-defined]
    assert len(check_cut(db, before)) == len(before) - 5
    with pytest.raises(Forgotten, match="agent/0"):
        db.at(gone.id).table("t")
    for refused in (lambda: db.tag("x", gone.id), lambda: db.at(gone.id).clone("again")):
        with pytest.raises(Forgotten):
            refused()
    assert db._graph.catalog.dropped_branches.all() == []
    drawn = db.graph()
    assert "rows forgotten" in drawn.to_text(width=200)
    assert sum(node.is_forgotten for node in drawn.nodes) == 5
    assert drawn.to_svg() != db.graph(branches=["main"]).to_svg()


def test_idle_branches_are_dropped(db: Database, clock: Clock) -> None:
    main = db.branch("main")
    for name in ("agent/old", "agent/new", "agent/seen"):
        main.clone(name).upsert("t", {"id": [1], "v": [name]})
    db.branch("agent/seen").derive("view", "SELECT id FROM t", when="immediate")
    clock.go_on(3 * 24 * HOUR)
    db.branch("agent/new").upsert("t", {"id": [2], "v": ["new"]})
    policy = Retention(branches={"agent/*": Retention(days=2, drop_idle=True)})
    told = collect(db, clock, policy, dry_run=True)
    done = collect(db, clock, policy)
    assert (told.dropped, told.snapshots) == (done.dropped, [])  # type: ignore[attr-defined]
    assert done.dropped == ["agent/old"]  # type: ignore[attr-defined]
    assert {branch.name for branch in db.branches()} == {"main", "agent/new", "agent/seen", "view"}


# --- cutting keeps meaning ------------------------------------------------------------------


def test_history_goes_on_after_a_cut(db: Database, clock: Clock) -> None:
    """Writes, diffs, blame and compacting work across it; a date finds what is kept before it."""
    db.tag("v1", "main~10")
    before = history(db)
    third = db.at("main~3")
    then = (third.time + timedelta(minutes=1)).isoformat()
    db.collect_garbage(NEWEST)
    main = db.branch("main")
    assert db.at(f"main@{then}") == db.at("v1")
    told = db.blame("main", "t", 8)
    assert told.column("message").to_pylist() == ["at or before: what came between was forgotten"]
    assert set(db.history("main", "t", 15).column("author").to_pylist()) == {""}
    assert db.diff("v1", "main")["t"].summary()["inserted"] == 0
    for number in range(70):
        main.upsert("t", {"id": [number], "v": [f"again {number}"]})
    db.compact()
    assert len(check_cut(db, before | history_of(db, main))) == 72
    assert db.blame("main", "t", 69).column("author").to_pylist() == ["ann"]


def history_of(db: Database, branch: livingdb.Branch) -> dict[str, dict[str, pa.Table]]:
    found = {}
    for snapshot in branch.log():
        try:
            found[snapshot.id] = rows(snapshot)
        except Forgotten:
            continue
    return found


def test_another_process_reads_and_writes_meanwhile(db: Database, clock: Clock) -> None:
    """One that had the database open before goes on, and is told what went."""
    script = """
import json, sys, livingdb
with livingdb.open(sys.argv[1], author="eve") as db:
    old, main = db.at("main~5"), db.branch("main")
    main.table("t").to_arrow()
    print("open", flush=True)
    sys.stdin.readline()
    main.upsert("t", {"id": [7], "v": ["from eve"]})
    try:
        db.at(old.id).table("t").to_arrow()
    except livingdb.Forgotten:
        print(json.dumps(main.table("t").to_arrow().num_rows), flush=True)
"""
    other = subprocess.Popen(
        [sys.executable, "-c", script, db.name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "open\n"
    assert db.collect_garbage(NEWEST).snapshots
    told, _ = other.communicate("go on\n", timeout=60)
    assert json.loads(told) == 400
    assert db.branch("main").head.author == "eve"
    assert db.check().problems == []


def test_a_transaction_that_is_open_is_committed(db: Database, clock: Clock) -> None:
    with db.branch("main").transaction() as tx:
        tx.upsert("t", {"id": [3], "v": ["mine"]})
        db.collect_garbage(NEWEST)
    assert db.branch("main").sql("SELECT v FROM t WHERE id = 3").to_arrow().to_pylist() == [
        {"v": "mine"}
    ]
    assert db.check().problems == []


def test_a_damaged_policy_option_is_bad_data() -> None:
    with pytest.raises(InvalidData, match="thin"):
        Retention.from_text('{"thin": "never"}')


@pytest.mark.parametrize("wrong", [float("inf"), 1e308, 10**400, float("nan"), -1, "a week"])
@pytest.mark.parametrize("name", ["days", "thin_days", "dropped_days", "drop_idle"])
def test_no_number_of_days(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidData, match=f"{name} is"):
        Retention(**{name: wrong, "thin": "daily"})


def test_what_a_lens_was_made_of_stays_while_its_tree_is_built_upon(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "x.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.insert("t", {"id": range(50), "v": range(50)})
        # Between the two there is a version that is in no snapshot.
        split = SplitTable("t", {"low": "id < 25", "high": "id >= 25"})
        main.evolve([split, AddColumn("low", "w", "bigint", up="v + 1")])
        main.migrate()
        for number in range(4):
            main.upsert("low", {"id": [number], "v": [0], "w": [number]})
        before = main.table("low").to_arrow()
        assert db.collect_garbage(Retention(snapshots=1, grace_seconds=0)).snapshots
        assert db.check().problems == []
        db.compact()
        assert db.check().problems == []
        assert main.table("low").to_arrow() == before


def test_what_was_forgotten_is_made_again_under_another_address(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "x.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.insert("t", {"id": range(50), "v": range(50)})
        db.tag("start", "main")
        chance = Random(1)
        many = {"id": range(1000, 3000), "v": [chance.getrandbits(60) for _ in range(2000)]}
        main.upsert("t", many)
        gone = main.table("t").version
        main.delete("t", range(1000, 2990))
        assert db.collect_garbage(Retention(snapshots=1, grace_seconds=0)).snapshots
        hollow = {address.hex() for address in db._graph.catalog.forgotten.versions()}
        assert gone in hollow, "others come from it"
        again = db.at("start").clone("again")
        again.upsert("t", many)
        assert again.table("t").version != gone
        assert db.check().problems == []
        assert db.diff("again", "main")["t"].summary().deleted == 1990
        db.drop_branch("main", force=True)
        db.collect_garbage(Retention(snapshots=1, grace_seconds=0, dropped_days=0))
        assert len(again.table("t")) == 2050
        assert db.check().problems == []


def test_maps_of_many_tables_stay(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "x.ldb", engine="embedded") as db:
        main = db.branch("main")
        for number in range(12):
            main.create_table(f"t{number}", {"id": "bigint"}, key="id")
        agent = main.clone("agent")
        for number in range(12):
            agent.insert(f"t{number}", {"id": [1]})
        shared = {db._graph.record(s._row.address).map.shared for s in db.snapshots()}
        assert len(shared - {None}) > 1
        db.drop_branch("agent")
        assert db.collect_garbage(NEWEST).snapshots
        assert all(db._graph.store.contains([address for address in shared if address]))
        assert db.check().problems == []


def test_files_stay_while_a_lease_may_read_them(whole: Path, tmp_path: Path) -> None:
    """Whoever has a lease may have been told by name which packs to read."""
    shutil.copytree(whole, tmp_path / "db")
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as db:
        graph, main = db._graph, db.branch("main")
        db.compact()
        named = set(graph.catalog.packs.names())
        lease = graph.leases.grant(main.head._row.sequence, "a reader", HOUR)
        for step in range(9):
            main.upsert("t", {"id": [step], "v": [f"later {step}"]})
            drain_journal(graph.store)  # which joins small packs in the end
            named |= set(graph.catalog.packs.names())
        db.collect_garbage(NEWEST)
        folder = tmp_path / "db" / "packs"
        assert {path.name for path in folder.iterdir()} >= named
        graph.leases.renew([lease.id], 2 * HOUR)
        (known,) = graph.leases.current()
        assert (known.id, known.began) == (lease.id, lease.began)
        assert known.until > lease.until
        graph.leases.drop([lease.id])
        graph.sweep()
        assert {path.name for path in folder.iterdir()} == set(graph.catalog.packs.names())
        assert db.check().problems == []


def test_a_lease_is_not_granted_on_what_went(db: Database, clock: Clock) -> None:
    first, head = db.at("main~5")._row, db.branch("main").head._row
    collect(db, clock, NEWEST)
    leases = db._graph.leases
    with pytest.raises(Forgotten):
        leases.grant(first.sequence, "a reader", HOUR)
    leases.grant(head.sequence, "one that ran out", -1.0)
    assert leases.current() == []
    leases.grant(head.sequence, "another", HOUR)
    assert [lease.holder for lease in db._graph.catalog.leases.all()] == ["another"]
