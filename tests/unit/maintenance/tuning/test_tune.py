"""Tuning: advice that pays is applied one at a time, can be undone, and is undone if it must be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.maintenance.tuning.lab import ROWS, column_ids, made, observe, table_id

import livingdb
from livingdb import (
    Database,
    Forbidden,
    InvalidData,
    Layout,
    LivingDBError,
    NotFound,
    RuleViolation,
)
from livingdb.catalog import tuning as catalog_tuning
from livingdb.catalog.tuning import TuningRow
from livingdb.commit.deriving.runner import refresh_shares
from livingdb.evolution import AddColumn, RetypeColumn
from livingdb.graph.graph import Graph, now
from livingdb.maintenance.tuning import tune as tune_module
from livingdb.maintenance.tuning.actions.make_index import MakeIndex
from livingdb.maintenance.tuning.actions.refresh_time import RefreshTime
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.actions.store import storing_choices
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.advisors.eviction import _Trees
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, OutOfTime, Price
from livingdb.maintenance.tuning.records import new_record, save_records
from livingdb.maintenance.tuning.tune import Tuned, tune
from livingdb.maintenance.tuning.workload import has_stored_tree
from livingdb.maintenance.upkeep import tuning_jobs
from livingdb.tables.layout import layout_of

DAY = 86_400_000_000
SCANS: Mapping[str, Mapping[str, float]] = {
    "read": {"whole": 100.0},
    "rows": {"whole": 100.0 * ROWS},
    "microseconds": {"whole": 1e6},
}
"""What large leaves are for."""


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """A trial finds what is set here, and no clock decides anything."""
    for action in (Relayout, MakeIndex):
        monkeypatch.setattr(action, "measure", lambda self, evidence, seconds: Gain(1.0, 0.5))
    with made(tmp_path / "db") as db:
        yield db


def run(db: Database, moment: int, apply: bool = True) -> Tuned:
    return tune(db._graph, apply, 60.0, moment)


def states(db: Database) -> list[tuple[str, str]]:
    """What is written down, as SQL tells it."""
    told = db.branch("main").sql("SELECT action, state FROM livingdb.tuning ORDER BY number")
    return [(row["action"], row["state"]) for row in told.to_arrow().to_pylist()]


def lying(db: Database) -> Layout:
    """The layout that the tree lies in which the table is read from."""
    graph = db._graph
    version = graph.version(db.branch("main").head._row, "t")
    return layout_of(graph.versions.tree_rows(version).forest.grouping)


LARGE = "relayout t: leaves of 32,768 rows"


def test_an_empty_database_gets_no_advice(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "empty") as db:
        assert db.tune() == db.tune(apply=True) == []
        assert db.branch("main").sql("SELECT * FROM livingdb.tuning").to_arrow().num_rows == 0


def test_advice_says_what_why_how_much_and_who_notices(db: Database) -> None:
    observe(db, SCANS)
    (advice,) = db.tune()
    assert (advice.action, advice.kind, advice.state) == (LARGE, "relayout", "advised")
    assert "100 reads of all rows" in advice.reason
    assert advice.predicted.share > 0.3
    assert advice.measured == Gain(1.0, 0.5)
    assert advice.price.bytes > 0
    assert advice.noticed_by == "nobody"
    assert str(advice).startswith(f"{LARGE}: 100 reads")
    assert db.advice(advice.number).action == LARGE
    assert db.branch("main").table("t").layout == Layout(), "nothing was done"
    (again,) = db.tune()
    assert states(db) == [(LARGE, "advised")], "what nobody took is forgotten"
    with pytest.raises(NotFound, match="there is no advice"):
        advice.apply()
    assert again.apply().state == "applied"


def test_one_change_at_a_time_which_can_be_undone(db: Database) -> None:
    before = db.branch("main").table("t").to_arrow()
    head = db.branch("main").head.id
    price, state = column_ids(db, "price"), column_ids(db, "state")
    observe(db, {**SCANS, "read columns": {f"whole {price}": 100.0},
                 "write": {"commits": 100.0, "rows": 1e6},
                 "written columns": {state: 100.0}})  # fmt: skip
    found = db.tune(apply=True)
    assert [advice.state for advice in found].count("applied") == 1
    assert len(found) > 1
    (applied,) = (advice for advice in found if advice.state == "applied")
    assert lying(db) == db.branch("main").table("t").layout != Layout()
    with pytest.raises(RuleViolation, match="is applied, and cannot be applied"):
        applied.apply()
    again = db.tune(apply=True)
    assert [advice.number for advice in again] == [applied.number], "too soon for another one"
    assert applied.undo().state == "undone"
    assert (applied.outcome, lying(db)) == ("by hand", Layout())
    assert db._graph.catalog.table_layouts.all() == {}
    with pytest.raises(RuleViolation, match="nothing to undo"):
        applied.undo()
    assert applied.action not in [advice.action for advice in db.tune()], "it is remembered"
    assert db.branch("main").head.id == head
    assert db.branch("main").table("t").to_arrow().equals(before)
    assert db.check().problems == []


def test_what_does_not_pay_is_dropped_and_remembered(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Relayout, "measure", lambda self, evidence, seconds: Gain(1.0, 0.99))
    observe(db, SCANS)
    moment = now()
    assert run(db, moment).rows == ()
    assert states(db) == [(LARGE, "dropped")]
    monkeypatch.setattr(Relayout, "measure", lambda *given: pytest.fail("it was tried already"))
    assert run(db, moment).rows == ()
    monkeypatch.setattr(Relayout, "measure", lambda self, evidence, seconds: Gain(1.0, 0.5))
    observe(db, {"read": {"whole": 700.0}, "rows": {"whole": 700.0 * ROWS}})
    assert len(run(db, moment, apply=False).rows) == 1, "there is far more to be gained now"
    assert len(run(db, moment + 15 * DAY, apply=False).rows) == 1, "that was long ago"


def test_there_has_to_be_time_to_try(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(self: Relayout, evidence: Evidence, seconds: float) -> Gain:
        raise OutOfTime

    observe(db, SCANS)
    monkeypatch.setattr(Relayout, "measure", give_up)
    (row,) = run(db, now()).rows
    assert (row.state, row.details["measured"]) == ("advised", None), "and is not applied"


def test_a_layout_that_somebody_gave_meanwhile_stays(db: Database) -> None:
    observe(db, SCANS)
    (advice,) = db.tune()
    db.branch("main").relayout("t", Layout(target_rows=512))
    with pytest.raises(RuleViolation, match="was given another layout since"):
        advice.apply()
    assert states(db) == [(LARGE, "advised")]
    (advice,) = db.tune(apply=True)
    db.branch("main").relayout("t", Layout(target_rows=512))
    with pytest.raises(RuleViolation, match="was given another layout since"):
        advice.undo()
    assert advice.state == "applied"
    observe(db, {**SCANS, "microseconds": {"whole": 1e7}})
    assert run(db, now(), apply=False).undone == (), "that it got slower is none of our doing"
    assert "was given another layout since" in db.advice(advice.number).outcome
    assert db.branch("main").table("t").layout == Layout(target_rows=512)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_later_work_judges_what_was_done(db: Database, factor: float) -> None:
    observe(db, SCANS)
    moment = now()
    (applied,) = run(db, moment).applied
    assert run(db, moment).undone == (), "nothing was done with it since"
    later = {**SCANS, "microseconds": {"whole": 1e6 * factor}}
    observe(db, later)
    done = run(db, moment)
    (told,) = (row for row in db._graph.catalog.tuning.all() if row.number == applied.number)
    if factor > 1:
        assert [row.number for row in done.undone] == [applied.number]
        assert told.details["why"] == "later work got slower: what took 1 s takes 2 s"
        assert lying(db) == Layout()
    else:
        assert (done.undone, told.state) == ((), "applied")
        assert told.details["verdict"] == "what took 1 s takes 0.5 s"
        assert lying(db).target_rows == 32_768


def test_off_and_readers(db: Database, tmp_path: Path) -> None:
    observe(db, SCANS)
    with livingdb.open(tmp_path / "db", read_only=True) as reader:
        (advice,) = reader.tune()
        assert (advice.number, advice.action) == (0, LARGE)
        with pytest.raises(LivingDBError, match="read"):
            reader.tune(apply=True)
        with pytest.raises(LivingDBError, match="read"):
            reader.budget(bytes=1)
    assert states(db) == []
    db.tuning = "off"
    assert db.tune(apply=True) == []
    with pytest.raises(InvalidData, match="seconds=0"):
        db.tune(seconds=0)


@pytest.mark.parametrize("number", [0, -1, 1 << 70, 1.0, True, "1", None])
def test_advice_has_a_number(db: Database, number: Any) -> None:
    observe(db, SCANS)
    assert db.tune()[0].number == 1
    with pytest.raises(NotFound, match="there is no advice"):
        db.advice(number)


@pytest.mark.parametrize("apply", ["no", 1, None])
def test_to_apply_is_true_or_false(db: Database, apply: Any) -> None:
    observe(db, SCANS)
    with pytest.raises(InvalidData, match="True or False"):
        db.tune(apply=apply)
    assert states(db) == []


def test_advice_is_done_by_who_may_and_written_down(db: Database) -> None:
    """Also if somebody who may no more has held it since."""
    observe(db, SCANS)
    db.people.add("may", "maintainer", "*")
    db.people.add("not", "writer", "*")
    with db.acting_as("may"):
        (advice,) = db.tune()
        advice.apply()
    with db.acting_as("not"), pytest.raises(Forbidden, match="undo advice"):
        advice.undo()
    assert states(db) == [(LARGE, "applied")]
    with db.acting_as("may"):
        db.advice(advice.number).undo()
    trail = [(row["person"], row["action"]) for row in db.people.audit().to_pylist()]
    assert {("may", "apply advice"), ("may", "undo advice")} <= set(trail)


def test_the_runner_tunes_what_tunes_itself(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    observe(db, SCANS)
    db.upkeep(seconds=60)
    assert states(db) == []
    db.tuning = "auto"
    assert "tune" in {item.name for item in db.status().due}
    report = db.upkeep(seconds=60)
    assert not report.failed
    assert [run.did for run in report.runs if run.name == "tune"] == [1]
    assert states(db) == [(LARGE, "applied")]
    assert lying(db).target_rows == 32_768
    assert "tune" not in {item.name for item in db.status().due}, "once an hour"
    monkeypatch.setattr(tuning_jobs, "_HOUR", 0)
    db.upkeep(seconds=1)
    assert states(db) == [(LARGE, "applied")]


def test_what_is_computed_is_stored_and_stays_so(db: Database) -> None:
    main, graph = db.branch("main"), db._graph
    main.derive("v", sql="SELECT state, count(*) AS n FROM t GROUP BY state", key="state",
                materialize="none", when="deferred", engine="embedded")  # fmt: skip
    before = db.at("v").table("v").to_arrow()
    observe(db, {"evaluate": {"times": 100.0, "microseconds": 5e7}}, table_id(db, "v", "v"))
    (advice,) = db.tune(apply=True)
    assert (advice.action, advice.state) == ("store v whole", "applied")

    def is_stored() -> bool:
        return has_stored_tree(graph, graph.version(db.at("v")._row, "v"))

    assert is_stored()
    main.delete("t", [1, 2, 3])
    db.propagate()
    assert not is_stored()
    db.upkeep(seconds=60)
    assert is_stored(), "the runner goes on with it"
    advice.undo()
    assert not is_stored()
    assert db.at("v~1").table("v").to_arrow().equals(before)
    assert db.check(deep=True).problems == []


def test_what_two_tune_at_once_is_done_once(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one is done between what one proposes and does."""
    main = db.branch("main")
    main.derive("v", sql="SELECT state, count(*) AS n FROM t GROUP BY state", key="state",
                materialize="none", when="deferred", engine="embedded")  # fmt: skip
    observe(db, {"evaluate": {"times": 100.0, "microseconds": 5e7}}, table_id(db, "v", "v"))

    def save_after_another(graph: Graph, rows: Sequence[TuningRow]) -> list[TuningRow]:
        monkeypatch.setattr(tune_module, "save_records", save_records)
        with livingdb.open(tmp_path / "db", engine="embedded") as other:
            assert [advice.state for advice in other.tune(apply=True)] == ["applied"]
        return save_records(graph, rows)

    monkeypatch.setattr(tune_module, "save_records", save_after_another)
    db.tune(apply=True)
    applied = [one for one in db.advices() if one.state == "applied"]
    assert [one.action for one in applied] == ["store v whole"]
    (advised,) = (one for one in db.advices() if one.state == "advised")
    with pytest.raises(RuleViolation, match="somebody else has done that since"):
        advised.apply()
    applied[0].undo()
    assert storing_choices(db._graph) == {}


def test_a_budget_evicts_what_can_be_made_again(db: Database) -> None:
    main = db.branch("main")
    assert db.budget().bytes is None
    with pytest.raises(InvalidData, match="above 0"):
        db.budget(bytes=0)
    main.evolve([AddColumn("t", "vat", "double", default=0.5), RetypeColumn("t", "id", "bigint")])
    main.migrate()
    rows = main.table("t").to_arrow()
    assert db.budget(bytes=10**9).over_bytes == 0
    assert db.tune(apply=True) == []
    found = db.budget(bytes=10_000)
    assert str(found).endswith("too many")
    (advice,) = db.tune(apply=True)
    assert (advice.kind, advice.state) == ("evict", "applied")
    assert advice.price.bytes < 0
    assert "of 10,000 bytes are used" in advice.reason
    assert db.budget().used_bytes < found.used_bytes
    assert main.table("t").to_arrow().equals(rows)
    again = db.tune(apply=True)
    assert [each.action for each in again] == [advice.action], "the rest is data"
    assert not db.upkeep(seconds=60).failed
    version = db._graph.version(main.head._row, "t")
    assert not has_stored_tree(db._graph, version), "the runner keeps to the budget, too"
    advice.undo()
    assert main.table("t").to_arrow().equals(rows)
    assert db.budget(bytes=None).bytes is None
    assert db.check(deep=True).problems == []


def test_nothing_is_evicted_where_compacting_is_enough(db: Database) -> None:
    main = db.branch("main")
    main.evolve(RetypeColumn("t", "id", "bigint"))
    main.migrate()
    for number in range(100):
        some = {"id": range(10 * number, 10 * number + 200), "note": [f"x{number}"] * 200}
        main.update("t", some)
    used = db.budget().used_bytes
    db.budget(bytes=round(0.8 * used))
    assert [advice.kind for advice in db.tune()] == ["evict"]
    assert db.tune(apply=True) == []
    assert db.budget().over_bytes == 0
    assert has_stored_tree(db._graph, db._graph.version(main.head._row, "t"))


def test_evictions_that_come_again_and_again_are_history(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog_tuning, "_MOST", 2)
    main = db.branch("main")
    main.relayout("t", Layout(fold="always"))
    db.budget(bytes=1)
    for number in range(4):
        main.update("t", {"id": [1, 2], "price": [0.5, float(number)]})
        main.update("t", {"id": [3], "price": [float(number)]})
        shown = db.tune(apply=True)
        assert [(one.kind, one.state) for one in shown] == [("evict", "applied")]
    assert [one.number for one in db.advices()] == [3, 4]
    assert main.table("t").get(3)["price"] == 3.0  # type: ignore[index]


def test_old_trees_go_that_spare_least(db: Database) -> None:
    """Of trees along a line those go between which little was written."""
    main = db.branch("main")
    main.relayout("t", Layout(fold="always", target_rows=256))
    for count in (2_000, 10, 2_000, 2_000):
        main.update("t", {"id": range(0, 9 * count, 9), "price": [float(count)] * count})
    observe(db, {"read": {"whole": 100.0}, "rows": {"whole": 100.0 * ROWS},
                 "behind": {"1": 100.0}})  # fmt: skip
    trees = _Trees(Evidence(db._graph, now()))
    order = sorted(trees.evictable, key=lambda tree: tree.benefit_seconds)
    assert order[0].version.depth == 2, "after the ten rows"
    before = {tree.version.depth: tree.benefit_seconds for tree in order}
    trees.evict(order[0])
    after = {tree.version.depth: tree.benefit_seconds for tree in trees.evictable}
    assert after[1] > before[1], "two versions are read from it now"


def test_refreshes_are_due_when_tuning_says(db: Database) -> None:
    main = db.branch("main")
    main.derive("late", sql="SELECT state, count(*) AS n FROM t GROUP BY state", key="state",
                when="lag 10 minutes", engine="embedded")  # fmt: skip
    (sync,) = db._graph.catalog.syncs.all()
    action = RefreshTime(sync.id, "late", 0.9)
    candidate = Candidate(action, "why", Gain(1.0, 0.5), Price(), "nobody")
    (row,) = save_records(db._graph, [new_record(candidate, None, True, now())])
    main.delete("t", [1])

    def due() -> float:
        """After how many seconds the view is refreshed."""
        (item,) = (item for item in db.status().next if item.name == "late")
        assert item.time is not None
        return (item.time - main.head.time).total_seconds()

    assert due() == pytest.approx(300, abs=5)
    advice = db.advice(row.number).apply()
    assert refresh_shares(db._graph) == {sync.id: 0.9}
    assert due() == pytest.approx(540, abs=5)
    advice.undo()
    assert due() == pytest.approx(300, abs=5)


def test_what_a_newer_version_wrote_down_is_told_and_not_touched(db: Database) -> None:
    details = {"action": {}, "words": "grow wings"}
    with db._graph.catalog.write() as connection:
        rows = [TuningRow("fly", "t", "applied", 1, details)]
        (number,) = db._graph.catalog.tuning.add(connection, rows)
    with pytest.raises(LivingDBError, match="does not know how to 'fly'"):
        db.advice(number).undo()


def looked_for(db: Database, column: str) -> dict[str, Mapping[str, float]]:
    """What an index is for."""
    return {
        "read": {"filter": 100.0},
        "rows": {"filter": 100.0 * ROWS},
        "microseconds": {"filter": 5e6},
        "filtered": {column_ids(db, column): 100.0},
    }


def test_an_index_where_few_rows_are_looked_for(db: Database) -> None:
    main = db.branch("main")
    wanted = main.table("t").to_arrow(where="price = 17.25").to_pylist()
    observe(db, looked_for(db, "price"))
    (advice,) = [one for one in db.tune() if one.kind == "index"]
    assert advice.action == "index t by price"
    assert "reads looked for rows by price" in advice.reason
    assert (advice.measured, advice.noticed_by[:10]) == (Gain(1.0, 0.5), "who writes")
    advice.apply()
    assert main.table("t").indexes() == {"tuned_t_price": ("price",)}
    assert main.table("t").to_arrow(where="price = 17.25").to_pylist() == wanted
    assert db.check(deep=True).problems == []
    with pytest.raises(RuleViolation):
        advice.apply()
    advice.undo()
    assert main.table("t").indexes() == {}
    assert main.table("t").to_arrow(where="price = 17.25").to_pylist() == wanted


def test_an_index_that_does_not_pay_is_dropped(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MakeIndex, "measure", lambda self, evidence, seconds: Gain(1.0, 0.99))
    observe(db, looked_for(db, "price"))
    assert [one for one in db.tune(apply=True) if one.kind == "index"] == []
    assert ("index t by price", "dropped") in states(db)
    assert db.branch("main").table("t").indexes() == {}


def test_no_index_where_many_rows_have_a_value(db: Database) -> None:
    observe(db, looked_for(db, "state"))
    assert [one for one in db.tune() if one.kind == "index"] == []


def test_an_index_that_somebody_made_meanwhile_is_not_made_again(db: Database) -> None:
    observe(db, looked_for(db, "price"))
    (advice,) = [one for one in db.tune() if one.kind == "index"]
    db.branch("main").create_index("t", "price", name="mine")
    with pytest.raises(RuleViolation, match="was made since"):
        advice.apply()
    assert db.branch("main").table("t").indexes() == {"mine": ("price",)}


def test_an_index_that_is_dropped_by_hand_stays_dropped(db: Database) -> None:
    observe(db, looked_for(db, "price"))
    (advice,) = [one for one in db.tune() if one.kind == "index"]
    advice.apply()
    db.branch("main").sql("DROP INDEX tuned_t_price")
    told = db.advice(advice.number)
    assert (told.state, told.outcome) == ("undone", "dropped by hand")
    run(db, now() + 2 * DAY)
    assert db.branch("main").table("t").indexes() == {}


@pytest.mark.parametrize("seconds", [0.5, 10.0])
def test_later_work_judges_an_index(db: Database, seconds: float) -> None:
    """Who read all rows that filters leave looks rows up by keys then."""
    observe(db, looked_for(db, "price"))
    moment = now()
    (advice,) = [one for one in db.tune() if one.kind == "index"]
    advice.apply()
    assert run(db, moment, apply=False).undone == ()
    observe(db, {"read": {"keys": 100.0}, "rows": {"keys": 100.0},
                 "microseconds": {"keys": 1e6 * seconds}})  # fmt: skip
    undone = [row.number for row in run(db, moment, apply=False).undone]
    told = db.advice(advice.number)
    assert f"what took 5 s takes {seconds:.3g} s" in told.outcome
    assert undone == ([advice.number] if seconds > 5 else [])
    assert bool(db.branch("main").table("t").indexes()) is (seconds < 5)
