"""kill -9 while conditions stop a sync, and while it goes on; and several runners at once.

Run as a program, this file is the one whose children are killed, or, with a database named, one
of several runners.  Whatever happens, a stop is one step of the trail and one alert, together
with what the source's transaction did, or neither is there.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash import nursery
from tests.crash.conftest import Victim
from tests.crash.moments import killing_moments
from tests.crash.scenarios import SCENARIOS, Done, Scenario
from tests.crash.test_evolution_crash import sample
from tests.thinned import thinned

import livingdb
from livingdb.evolution import AddColumn, RenameColumn
from livingdb.guard.conditions.kinds.volume import max_changed

ROWS = [{"id": n, "city": "Oslo", "amount": n} for n in range(10)]
MANY = {"id": [1, 2, 3], "city": ["Rome"] * 3}
QUERY = "SELECT id, city FROM orders"
KILLS = 30


def guarded(path: Path) -> None:
    """A view kept at once, one kept later, and another schema, all of them guarded."""
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string", "amount": "int"}, "id")
        main.insert("orders", ROWS)
        guard = [max_changed(2, action="hold")]
        main.derive("now", QUERY, when="immediate", conditions=guard)
        main.derive("later", QUERY, when="deferred", conditions=guard)
        changes = [AddColumn("orders", "note", "string"), RenameColumn("orders", "city", "town")]
        main.evolve(changes, to="next", sync="forward", conditions=guard)


def stopped(path: Path) -> None:
    guarded(path)
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").update("orders", MANY)
        db.propagate()


def commit(path: Path, done: Done) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").update("orders", MANY)
        done()


def propagate(path: Path, done: Done) -> None:
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").update("orders", MANY)
        db.propagate()
        done()


def go_on(path: Path, done: Done) -> None:
    with livingdb.open(path, engine="embedded") as db:
        for name in ("now", "later", "next"):
            db.sync(name).approve(by="bob")
        done()


GUARDS = {
    "stop": Scenario(guarded, commit),
    "run": Scenario(guarded, propagate),
    "approve": Scenario(stopped, go_on),
}


def main() -> None:
    """Be the program whose children are killed, or a runner."""
    if len(sys.argv) > 1:
        with livingdb.open(sys.argv[1], engine="embedded") as db:
            print("ready", flush=True)
            sys.stdin.readline()
            db.propagate()
        return
    from tests.crash import victim

    SCENARIOS.update(GUARDS)
    names = (
        "database.database",
        "commit.stopping.resume",
        "guard.judge",
        "commit.deriving.runner",
        "commit.carrying.carry_view",
    )
    victim.WARM += (*(f"livingdb.{name}" for name in names), "tests.crash.test_guard_crash")
    victim.main()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    made = Victim("tests.crash.test_guard_crash")
    yield made
    made.close()


# --- what is left -----------------------------------------------------------------------------


def held(db: livingdb.Database, name: str) -> bool:
    """Whether a sync is held; its trail and its alerts say the same, each once."""
    sync = db.sync(name)
    steps = [step["state"] for step in sync.trail]
    alerts = [one for one in db.alerts(state=None) if one.sync == sync.name]
    stops = steps.count("held")
    assert len(alerts) == stops <= 1
    assert (sync.state == "held") == (stops > steps.count("active"))
    assert {one.state for one in alerts} <= {"open" if sync.state == "held" else "resolved"}
    return sync.state == "held"


def rows(db: livingdb.Database, name: str) -> list[str]:
    table = "orders" if name in ("next", "main") else name
    column = "town" if name == "next" else "city"
    return db.branch(name).table(table).to_arrow().column(column).to_pylist()


def check(path: Path, name: str, acknowledged: bool) -> None:
    """Each target is as it was or in step, and held if there is something it has not seen."""
    with livingdb.open(path, engine="embedded") as db:
        source = rows(db, "main")
        is_done = "Rome" in source
        assert is_done or not acknowledged
        for target in ("now", "later", "next"):
            is_held = held(db, target)
            is_behind = rows(db, target) != source
            if is_held and name != "approve":
                assert is_behind
            if is_behind and target != "later":
                assert is_held
        if acknowledged and name == "approve":
            assert [db.sync(n).state for n in ("now", "later", "next")] == ["active"] * 3
        assert db.check(deep=True).problems == []
        if name == "approve":
            for target in ("now", "later", "next"):
                if db.sync(target).state == "held":
                    assert db.sync(target).approve(by="eve")
                assert rows(db, target) == source
        else:
            db.propagate()
            assert held(db, "later") == is_done


def run(name: str, victim: Victim, folder: Path, moment: int | None) -> list[str]:
    path = Path(shutil.copytree(folder / "start", folder / "killed"))
    outcome = victim.run(name, path, moment)
    assert not outcome.failed
    try:
        check(path, name, outcome.acknowledged)
    except BaseException as error:
        error.add_note(f"{name}, killed at moment {moment}")
        raise
    shutil.rmtree(path)
    return outcome.moments


@pytest.mark.parametrize("name", thinned(GUARDS))
def test_killed_at_some_moments(name: str, victim: Victim, folder: Path) -> None:
    GUARDS[name].start(folder / "start")
    for moment in sample(run(name, victim, folder, None)):
        run(name, victim, folder, moment)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", GUARDS)
def test_killed_at_many_moments(name: str, victim: Victim, folder: Path) -> None:
    GUARDS[name].start(folder / "start")
    for moment in killing_moments(run(name, victim, folder, None), KILLS, name):
        run(name, victim, folder, moment)


def test_several_runners_stop_once(folder: Path) -> None:
    """Whoever is first holds the view; the others find it held."""
    path = folder / "start"
    guarded(path)
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").update("orders", MANY)
    runners = [nursery.start("tests.crash.test_guard_crash", str(path)) for _ in range(3)]
    for runner in runners:
        assert runner.stdout.readline() == "ready\n"
    for runner in runners:
        runner.stdin.write("\n")
        runner.stdin.flush()
    for runner in runners:
        assert runner.wait(240) == 0
    with livingdb.open(path, engine="embedded") as db:
        assert held(db, "later")
        assert len([r for r in db.sync("later").runs if r["outcome"] == "stopped"]) == 1


if __name__ == "__main__":
    main()
