"""Watches: events that no sync tells of."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import livingdb
from livingdb import AlreadyExists, InvalidData, InvalidName, NotFound, alert
from livingdb.alerts.watch import WatchTarget
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.commit import check_watches as watch_rounds
from livingdb.evolution import AddColumn, DropColumn, RenameColumn, RenameTable
from livingdb.graph.graph import now

ORDERS = {"id": "bigint", "city": "string", "amount": "bigint"}
HOUR = 3_600_000_000


@pytest.fixture
def main(quiet: livingdb.Database) -> livingdb.Branch:
    branch = quiet.branch("main")
    branch.create_table("orders", ORDERS, key="id")
    branch.insert("orders", [{"id": n, "city": "Oslo", "amount": n} for n in range(5)])
    return branch


@pytest.fixture
def watched(quiet: livingdb.Database) -> livingdb.Database:
    quiet.watch("any", alert.on_schema_change(), alerts=[alert.log()], severity="critical")
    quiet.watch("orders", alert.on_schema_change("orders"))
    quiet.watch("dev", alert.on_schema_change(branch="dev"))
    return quiet


def told(db: livingdb.Database) -> list[tuple[str, str]]:
    """Which watches told what, oldest first."""
    return [(one.sync, one.message) for one in reversed(db.alerts())]


# --- schema changes --------------------------------------------------------------------------


def test_schema_changes(main: livingdb.Branch, watched: livingdb.Database) -> None:
    main.insert("orders", [{"id": 9}])
    main.delete("orders", [9])
    assert watched.alerts() == []
    main.evolve(AddColumn("orders", "vat", "bigint"))
    words = "the schema of main changed: orders has other columns (+vat)"
    assert told(watched) == [("any", words), ("orders", words)]
    newest = watched.alerts()[0]
    assert newest.event == "schema_change"
    assert newest.details["snapshot"] == main.head.id
    assert newest.details["tables"] == {"orders": "has other columns (+vat)"}
    assert newest.details["watch"] == "orders"
    assert (newest.severity, watched.alerts()[1].severity) == ("warning", "critical")
    assert [d["sink"] for d in watched.alerts()[1].deliveries] == ["log"]
    assert newest.deliveries == []


def test_each_kind_of_schema_change(main: livingdb.Branch, watched: livingdb.Database) -> None:
    watched.unwatch("any")
    main.evolve(RenameColumn("orders", "city", "town"))
    main.evolve(DropColumn("orders", "amount"))
    main.create_table("other", {"ключ": "string"}, key="ключ")
    main.evolve(RenameTable("orders", "sales"))
    found = [words for name, words in told(watched) if name == "orders"]
    assert found == [
        "the schema of main changed: orders has other columns (city → town)",
        "the schema of main changed: orders has other columns (-amount)",
        "the schema of main changed: orders is gone",
    ]
    assert all("repeats" not in one.details for one in watched.alerts()), "each is its own event"


def test_only_the_branch_that_is_named(main: livingdb.Branch, watched: livingdb.Database) -> None:
    dev = main.clone("dev")
    assert watched.alerts() == []
    dev.create_table("t", {"id": "bigint"}, key="id")
    main.create_table("u", {"id": "bigint"}, key="id")
    assert [name for name, _ in told(watched)] == ["any", "dev", "any"]
    watched.merge("dev", into="main")
    assert told(watched)[-1] == ("any", "the schema of main changed: t is new")


def test_schemas_in_step_and_resets(main: livingdb.Branch, watched: livingdb.Database) -> None:
    main.evolve(AddColumn("orders", "vat", "bigint"), keep="old", sync="both")
    before = len(watched.alerts())
    main.insert("orders", [{"id": 77, "vat": 3}])
    watched.branch("old").insert("orders", [{"id": 78}])
    assert len(watched.alerts()) == before
    free = main.clone("free")
    free.create_table("t", {"id": "bigint"}, key="id")
    free.reset("free~1")
    assert told(watched)[-1] == ("any", "the schema of free changed: t is gone")


def test_an_alert_and_its_commit_are_one(
    main: livingdb.Branch, watched: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = watched._graph
    head = main.head

    def fail(*_: Any) -> None:
        raise livingdb.StorageFailure("full")

    monkeypatch.setattr(graph.catalog.outbox, "add", fail)
    with pytest.raises(livingdb.StorageFailure):
        main.create_table("t", {"id": "bigint"}, key="id")
    monkeypatch.undo()
    assert watched.alerts() == []
    assert main.head == head


def test_a_watch_that_another_process_made_counts_from_the_next_commit(
    main: livingdb.Branch, quiet: livingdb.Database
) -> None:
    main.insert("orders", [{"id": 50}])
    with livingdb.open(quiet.name) as other:
        other.watch("any", alert.on_schema_change())
    main.create_table("t", {"id": "bigint"}, key="id")
    assert len(quiet.alerts()) == 1
    with livingdb.open(quiet.name) as other:
        other.unwatch("any")
    main.create_table("u", {"id": "bigint"}, key="id")
    assert len(quiet.alerts()) == 1


def test_watches_cost_a_commit_nothing_when_there_are_none(
    main: livingdb.Branch, quiet: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.insert("orders", [{"id": 50}])

    def fail() -> None:
        raise AssertionError

    monkeypatch.setattr(quiet._graph.catalog.watches, "all", fail)
    main.insert("orders", [{"id": 51}])
    main.evolve(AddColumn("orders", "vat", "bigint"))


# --- merges ----------------------------------------------------------------------------------


def test_merges(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    quiet.watch("into main", alert.on_merge("main"))
    quiet.watch("any", alert.on_merge())
    dev = main.clone("dev")
    dev.insert("orders", [{"id": 10}], message="by dev")
    quiet.merge("dev", into="main")
    assert told(quiet) == [
        ("any", "main: now at 'by dev'"),
        ("into main", "main: now at 'by dev'"),
    ]
    dev.insert("orders", [{"id": 11}])
    main.insert("orders", [{"id": 12}])
    quiet.merge("dev", into="main", message="both", author="bo")
    assert told(quiet)[2:] == [("any", "main: both"), ("into main", "main: both")]
    assert quiet.alerts()[0].details["author"] == "bo"
    quiet.merge("main", into="dev")
    assert [name for name, _ in told(quiet)[4:]] == ["any"]
    quiet.merge("main", into="dev")
    assert len(quiet.alerts()) == 5, "nothing was left to merge"
    dev.reset("dev~1")
    assert len(quiet.alerts()) == 5


# --- over time -------------------------------------------------------------------------------


def test_lag_is_told_once_for_each_crossing(
    main: livingdb.Branch, quiet: livingdb.Database
) -> None:
    main.derive("v", "SELECT id FROM orders WHERE amount > 2", when="on demand")
    quiet.watch("late", alert.on_lag("v", "1 hour"), alerts=[alert.log(cool_down="0")])
    assert quiet.check_watches() == []
    main.insert("orders", [{"id": 20, "amount": 20}])
    graph = quiet._graph
    assert watch_rounds.check_watches(graph, now() + HOUR // 2) == []
    (number,) = watch_rounds.check_watches(graph, now() + HOUR)
    assert watch_rounds.check_watches(graph, now() + 2 * HOUR) == []
    (first,) = quiet.alerts()
    assert (first.id, first.sync, first.event) == (number, "main/v", "lag")
    assert first.details["snapshots"] == 1
    assert quiet.watches()[0].state == {"over": True}
    quiet.refresh("v")
    assert watch_rounds.check_watches(graph, now() + 2 * HOUR) == []
    assert quiet.watches()[0].state == {"over": False}
    main.insert("orders", [{"id": 21, "amount": 20}])
    assert len(watch_rounds.check_watches(graph, now() + HOUR)) == 1
    assert quiet.alerts()[0].details["repeats"] == number
    assert len(quiet.alerts()[0].deliveries) == 1


def test_lag_of_a_stopped_lens_and_of_a_view_without_its_source(
    main: livingdb.Branch, quiet: livingdb.Database
) -> None:
    main.evolve(AddColumn("orders", "rank", "int"), to="next", sync="both")
    other = main.clone("other")
    other.derive("v", "SELECT id FROM orders", when="on demand")
    quiet.watch("lens", alert.on_lag("next", "1 hour"))
    quiet.watch("view", alert.on_lag("v", "1 hour"))
    quiet.sync("next").detach()
    main.insert("orders", [{"id": 20, "amount": 20}])
    quiet.drop_branch("other", detach=True)
    graph = quiet._graph
    assert len(watch_rounds.check_watches(graph, now() + HOUR)) == 2
    told = {one.event: one for one in quiet.alerts()}
    assert told["lag"].details["snapshots"] == 1
    assert "'other', which it reads, was dropped" in told["watch_lost"].message
    assert watch_rounds.check_watches(graph, now() + 2 * HOUR) == []


def test_failures_in_a_row(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    main.derive("v", "SELECT id FROM orders", when="on demand")
    quiet.watch("failing", alert.on_failures("v", times=2))
    graph = quiet._graph
    (sync,) = graph.catalog.syncs.all()

    def run(outcome: str) -> int:
        with graph.catalog.write() as connection:
            details = {"error": "ö no"} if outcome == "failed" else {}
            graph.catalog.runs.add(connection, sync.id, None, now(), 1, outcome, details)
        return len(quiet.check_watches())

    assert [run("failed"), run("done"), run("failed"), run("failed")] == [0, 0, 0, 1]
    assert [run("failed"), run("done"), run("failed"), run("failed")] == [0, 0, 0, 1]
    assert quiet.alerts()[0].message == "v failed 2 times in a row: ö no"


def test_the_runner_looks(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    main.derive("v", "SELECT id FROM orders", when="on demand")
    quiet.watch("late", alert.on_lag("main/v", 1e-6))
    main.insert("orders", [{"id": 20}])
    quiet.propagate()
    assert [one.event for one in quiet.alerts()] == ["lag"]
    quiet.propagate()
    assert len(quiet.alerts()) == 1


def test_growth(
    main: livingdb.Branch, quiet: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = [1_000_000]
    monkeypatch.setattr(watch_rounds, "stored_bytes", lambda graph: size[0])
    quiet.watch("bytes", alert.on_growth("500 kB", per="1 day"))
    quiet.watch("share", alert.on_growth(0.2, per="1 day"))
    graph, start = quiet._graph, now()
    fired = []
    for hour, bytes_ in [(1, 1_100), (2, 1_250), (3, 1_490), (4, 1_500), (5, 1_600), (26, 1_600)]:
        size[0] = bytes_ * 1000
        watch_rounds.check_watches(graph, start + hour * HOUR)
        fired.append(len(quiet.alerts()))
    assert fired == [0, 1, 1, 2, 2, 2]
    states = {watch.name: watch.state for watch in quiet.watches()}
    assert states["bytes"]["over"] is False, "within the last day it grew by less"
    size[0] = 2_200_000
    watch_rounds.check_watches(graph, start + 27 * HOUR)
    assert len(quiet.alerts()) == 3
    assert quiet.alerts()[0].sync == "bytes"
    assert all(len(watch.state["samples"]) <= 50 for watch in quiet.watches())


def test_growth_of_a_real_database(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    quiet.watch("any", alert.on_growth(10_000))
    assert quiet.check_watches() == []
    main.insert("orders", [{"id": n, "city": f"{n * n}"} for n in range(100, 60_000)])
    (one,) = quiet.check_watches()
    assert one.details["grown_bytes"] >= 10_000
    weight = quiet.storage()
    assert weight.pack_bytes < watch_rounds.stored_bytes(quiet._graph) <= weight.bytes


def test_samples_are_bounded(quiet: livingdb.Database) -> None:
    quiet.watch("any", alert.on_growth(10**12, per="1 hour"))
    start = now()
    for step in range(200):
        watch_rounds.check_watches(quiet._graph, start + step * HOUR // 50)
    assert len(quiet.watches()[0].state["samples"]) <= 50


def test_two_runners_tell_once(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    main.derive("v", "SELECT id FROM orders", when="on demand")
    for number in range(8):
        quiet.watch(f"late {number}", alert.on_lag("v", 1e-6))
    main.insert("orders", [{"id": 20}])
    together = threading.Barrier(4)
    numbers: list[int] = []

    def look() -> None:
        with livingdb.open(quiet.name) as mine:
            together.wait()
            numbers.extend(one.id for one in mine.check_watches())

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(numbers) == len(set(numbers)) == len(quiet.alerts()) == 8


def test_a_watch_whose_sync_is_gone_says_so_once(
    main: livingdb.Branch, quiet: livingdb.Database
) -> None:
    main.derive("v", "SELECT id FROM orders", when="on demand")
    quiet.watch("late", alert.on_lag("v", "1 hour"))
    quiet.drop_branch("v")
    (one,) = quiet.check_watches()
    assert (one.sync, one.event) == ("late", "watch_lost")
    assert "no sync 'v'" in one.message
    assert quiet.check_watches() == []
    main.derive("v", "SELECT id FROM orders", when="on demand")
    main.insert("orders", [{"id": 20}])
    assert len(watch_rounds.check_watches(quiet._graph, now() + HOUR)) == 1


# --- the watches themselves ------------------------------------------------------------------


def test_watches_are_listed_and_forgotten(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    sink = alert.webhook("https://example.org/hush")
    made = quiet.watch("b ü", alert.on_merge("main"), alerts=sink, severity="info")
    quiet.watch("a", alert.on_schema_change("orders", branch=main))
    assert [watch.name for watch in quiet.watches()] == ["a", "b ü"]
    found = quiet.watches()[1]
    assert (found.event, found.severity, found.alerts) == ("merge", "info", [sink])
    assert found.what == made.what == alert.on_merge("main")
    assert found.time.tzinfo is not None
    assert "hush" not in repr(found)
    with pytest.raises(AlreadyExists, match="b ü"):
        quiet.watch("b ü", alert.on_merge())
    quiet.unwatch("b ü")
    with pytest.raises(NotFound, match="b ü"):
        quiet.unwatch("b ü")
    assert [watch.name for watch in quiet.watches()] == ["a"]


def test_what_cannot_be_watched(main: livingdb.Branch, quiet: livingdb.Database) -> None:
    with pytest.raises(NotFound, match="'nothing'"):
        quiet.watch("x", alert.on_lag("nothing", "1 hour"))
    with pytest.raises(InvalidName):
        quiet.watch("", alert.on_merge())
    with pytest.raises(InvalidData, match="on_merge"):
        quiet.watch("x", "merge")
    with pytest.raises(InvalidData, match="severity"):
        quiet.watch("x", alert.on_merge(), severity="bad")
    with pytest.raises(InvalidData, match="cannot be stored"):
        quiet.watch("x", alert.on_merge(), alerts=[print])
    for wrong in (
        lambda: alert.on_lag("v", "soon"),
        lambda: alert.on_lag(3, "1 hour"),
        lambda: alert.on_failures("v", times=0),
        lambda: alert.on_growth("much"),
        lambda: alert.on_growth(0),
        lambda: alert.on_growth(-0.5),
        lambda: alert.on_growth(True),
        lambda: alert.on_growth("1 GB", per="0"),
    ):
        with pytest.raises(InvalidData):
            wrong()
    assert quiet.watches() == []


@pytest.mark.parametrize(
    ("given_", "size_bytes", "share"),
    [
        (5, 5, None),
        ("500 MB", 500_000_000, None),
        ("1.5 GiB", 3 * 2**29, None),
        ("10 bytes", 10, None),
        ("3b", 3, None),
        (0.2, None, 0.2),
        ("20%", None, 0.2),
    ],
)
def test_growth_in_words(given_: Any, size_bytes: int | None, share: float | None) -> None:
    found = alert.on_growth(given_)
    assert (found.size_bytes, found.share, found.seconds) == (size_bytes, share, 86_400)


@given(
    st.one_of(
        st.builds(alert.on_schema_change, st.none() | st.text(), st.none() | st.text()),
        st.builds(alert.on_merge, st.none() | st.text()),
        st.builds(alert.on_lag, st.text(min_size=1), st.floats(0, 1e9)),
        st.builds(alert.on_failures, st.text(min_size=1), st.integers(1, 100)),
        st.builds(alert.on_growth, st.integers(1) | st.floats(1e-9, 1e9), st.floats(1, 1e9)),
    )
)
def test_what_is_watched_is_the_same_after_it_was_stored(what: WatchTarget) -> None:
    import json

    assert WatchTarget.from_json(json.loads(json.dumps(what.to_json()))) == what


def test_something_that_a_newer_program_watches(
    main: livingdb.Branch, quiet: livingdb.Database
) -> None:
    """It is left alone; those who know it tell."""
    quiet.watch("w", alert.on_merge())
    with quiet._graph.catalog.write() as connection:
        SealedRows(schema.watch).update(
            connection, [], lambda row: {"spec": row["spec"].replace("merge", "eclipse")}
        )
        quiet._graph.catalog.raise_epoch(connection)
    main.insert("orders", [{"id": 60}])
    assert repr(quiet.watches()[0]) == "<Watch w: eclipse>"
    assert [one.event for one in quiet.check_watches()] == ["watch_lost"]
