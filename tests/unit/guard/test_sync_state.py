"""How a sync stands: the trail of its states, who let what pass, and where it stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb.catalog.syncs import ACTIVE, DETACHED, ERROR, HELD, SyncRow
from livingdb.chunks.address import Address, digest
from livingdb.derivation.named_functions import FunctionFailed
from livingdb.errors import InvalidData, TransactionConflict
from livingdb.evolution import CreateTable, RenameColumn
from livingdb.graph.commit_point import CommitPoint
from livingdb.graph.draft import HeadMove
from livingdb.graph.graph import Graph
from livingdb.guard.sync_failure import record_failure
from livingdb.guard.sync_state import (
    APPROVED,
    approvers,
    last_pair,
    set_state,
    stop_sync_action,
    sync_chain,
)

ONE, TWO = "1" * 32, "2" * 32
AT = {ONE: digest(b"one"), TWO: digest(b"two")}
HEX = {str(branch): address.hex() for branch, address in AT.items()}


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[Graph]:
    """A view, and branches that two schema changes, which do not compose, keep in step."""
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        db._graph.on_alert = None
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id")
        main.derive("view", "SELECT id, v FROM t", when="immediate")
        changes = [RenameColumn("t", "v", "value"), CreateTable("u", {"id": "bigint"}, "id")]
        main.evolve(changes, to="new", sync="forward")
        yield db._graph


def syncs_of(graph: Graph, kind: str) -> list[SyncRow]:
    return [row for row in graph.catalog.syncs.all() if row.kind == kind]


def view_of(graph: Graph) -> SyncRow:
    (row,) = syncs_of(graph, "derive")
    return row


def step(graph: Graph, state: str, by: str = "ann", at: Any = None) -> None:
    with graph.catalog.write() as connection:
        details = {} if at is None else {"at": at}
        graph.catalog.trail.add(connection, view_of(graph).id, 5, state, by, "", details)


def test_a_state_is_written_down_with_who_and_why_and_nobody_commits_beside_it(
    graph: Graph,
) -> None:
    sync, seen = view_of(graph), graph.branch("main")
    with graph.catalog.write() as connection:
        set_state(graph, connection, [sync], HELD, "too\0many", "bo", 77, {"rows": 3})
    now = view_of(graph)
    assert (now.state, now.reason) == (HELD, "too\N{REPLACEMENT CHARACTER}many")
    (newest, *_) = graph.catalog.trail.of(sync.id)
    assert (newest.state, newest.author, newest.time) == (HELD, "bo", 77)
    assert (newest.reason, newest.details) == (now.reason, {"rows": 3})
    assert graph.branch("main").epoch != seen.epoch
    move = HeadMove(seen, graph.snapshots.at(seen.head), "reset")
    with graph.stage() as staging:
        assert CommitPoint(graph).store([], staging, [move]) is None


def test_a_state_that_is_not_committed_is_no_state(graph: Graph) -> None:
    sync = view_of(graph)
    with pytest.raises(ZeroDivisionError), graph.catalog.write() as connection:
        set_state(graph, connection, [sync], HELD, "", "bo", 77)
        raise ZeroDivisionError
    assert view_of(graph) == sync
    assert [row.state for row in graph.catalog.trail.of(sync.id)].count(HELD) == 0


def test_the_rows_of_a_composed_sync_are_one_chain(graph: Graph) -> None:
    stages = syncs_of(graph, "schema_change")
    assert len(stages) == 2
    chains = [sync_chain(graph, row) for row in stages]
    assert [row.id for row in chains[0]] == [row.id for row in chains[1]]
    first, last = chains[0]
    assert first.sources == (graph.branch("main").id,)
    assert last.target == graph.branch("new").id
    assert first.target == last.sources[0]
    assert sync_chain(graph, view_of(graph)) == [view_of(graph)]


@pytest.mark.parametrize(("state", "event"), [(HELD, "held"), (DETACHED, "detached")])
def test_stopping_a_sync_stops_all_of_its_rows_and_raises_one_alert(
    graph: Graph, state: str, event: str
) -> None:
    stages = syncs_of(graph, "schema_change")
    action = stop_sync_action(
        graph, stages[0], state, "no", "bo", 9, "critical", {"condition": "c"}, AT
    )
    assert all(row.is_active for row in syncs_of(graph, "schema_change")), "nothing happened yet"
    with graph.catalog.write() as connection:
        action(connection)
    assert {row.state for row in syncs_of(graph, "schema_change")} == {state}
    assert view_of(graph).state == ACTIVE
    (told,) = graph.catalog.alerts.all()
    assert (told.event, told.severity, told.message, told.time) == (event, "critical", "no", 9)
    assert told.details == {"condition": "c"}
    for row in stages:
        (newest, *_) = graph.catalog.trail.of(row.id)
        assert newest.details == {"condition": "c", "pair": HEX}
        assert last_pair(graph, row) == AT


def test_the_newest_pair_counts_and_steps_without_one_do_not(graph: Graph) -> None:
    sync = view_of(graph)
    with pytest.raises(TransactionConflict, match="not known since when"):
        last_pair(graph, sync)
    for pair in ({ONE: digest(b"old")}, AT, None):
        with graph.catalog.write() as connection:
            stop_sync_action(graph, sync, DETACHED, "", "bo", 9, pair=pair)(connection)
    assert last_pair(graph, sync) == AT


# --- approval ------------------------------------------------------------------------------------


def test_approvers_are_those_who_let_just_that_pass_each_once(graph: Graph) -> None:
    sync = view_of(graph)
    assert approvers(graph, sync, AT) == []
    other: dict[str, Address] = {ONE: digest(b"other"), TWO: AT[TWO]}
    step(graph, HELD)
    step(graph, APPROVED, "bo", HEX)
    step(graph, APPROVED, "cy", HEX)
    step(graph, APPROVED, "bo", HEX)
    step(graph, APPROVED, "di", {str(b): a.hex() for b, a in other.items()})
    step(graph, APPROVED, "ed")
    step(graph, HELD, "fy", HEX)
    assert sorted(approvers(graph, sync, AT)) == ["bo", "cy"]
    assert approvers(graph, sync, other) == ["di"]
    assert approvers(graph, sync, {ONE: AT[ONE]}) == []


def test_an_approval_counts_until_the_sync_is_active_again(graph: Graph) -> None:
    step(graph, HELD)
    step(graph, APPROVED, "bo", HEX)
    step(graph, ACTIVE)
    step(graph, HELD)
    assert approvers(graph, view_of(graph), AT) == []


# --- failures ------------------------------------------------------------------------------------


def test_what_cannot_be_carried_detaches_at_once(graph: Graph) -> None:
    record_failure(graph, view_of(graph), InvalidData("no such column"), began=10, spent=3)
    now = view_of(graph)
    assert (now.state, now.reason) == (DETACHED, "no such column")
    (run,) = graph.catalog.runs.of(now.id, 1)
    assert (run.outcome, run.time, run.duration, run.snapshot) == ("failed", 10, 3, None)
    assert run.details == {"error": "no such column"}
    (told,) = graph.catalog.alerts.all()
    assert (told.event, told.severity) == ("detached", "error")


def test_a_function_that_fails_is_tried_again_and_the_third_time_is_an_error(
    graph: Graph,
) -> None:
    states = []
    for number in range(3):
        record_failure(graph, view_of(graph), FunctionFailed(f"no {number}"), number, 1)
        states.append(view_of(graph).state)
    assert states == [ACTIVE, ACTIVE, ERROR]
    events = [row.event for row in reversed(graph.catalog.alerts.all())]
    assert events == ["failed", "failed", "error"]
    (newest, *_) = graph.catalog.trail.of(view_of(graph).id)
    assert (newest.state, newest.author, newest.reason) == (ERROR, "livingdb", "no 2")


def test_a_run_that_went_well_ends_the_count(graph: Graph) -> None:
    sync = view_of(graph)
    for number, outcome in enumerate(["failed", "failed", "done", "failed", "failed"]):
        if outcome == "done":
            with graph.catalog.write() as connection:
                graph.catalog.runs.add(connection, sync.id, None, number, 1, "done", {})
        else:
            record_failure(graph, sync, FunctionFailed("no"), number, 1)
        assert view_of(graph).state == ACTIVE
