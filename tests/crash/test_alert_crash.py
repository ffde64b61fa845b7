"""kill -9 while alerts are raised and sent: each is a row once, and is sent at least once.

Run as a program, this file is the one whose children are killed, or, with a database and a count
named, one of several that send at the same time.

A row of the outbox is claimed in one transaction and marked in another; between them it is sent.
Who is killed there leaves a row that is sent again, under the same key.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.crash import nursery
from tests.crash.conftest import Victim
from tests.crash.nursery import Child
from tests.crash.scenarios import SCENARIOS, Done, Scenario
from tests.crash.test_evolution_crash import sample

import livingdb
from livingdb import alert
from livingdb.alerts.raise_alert import raise_alert
from livingdb.graph.graph import now

COUNT = 3
TRUST = ["tests.crash.test_alert_crash"]
SINK = alert.callback("tests.crash.test_alert_crash:take", cool_down="0")


HALT_AT = "LIVINGDB_TEST_HALT_AT"
"""A program with this variable halts when so many were sent, once, until it is given a line."""


def take(message: dict[str, object]) -> None:
    """Write down what was sent, in a file beside the database."""
    line = f"{message['id']} {message['key']}\n".encode()
    file = os.open(f"{message['database']}.got", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line)
    os.close(file)
    if HALT_AT in os.environ and len(got(Path(str(message["database"])))) >= int(
        os.environ[HALT_AT]
    ):
        del os.environ[HALT_AT]
        print("halted", flush=True)
        sys.stdin.readline()


def got(path: Path) -> list[tuple[int, str]]:
    """What was sent: the alert and the key."""
    file = Path(f"{path}.got")
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(line.split()[0]), line.split()[1]) for line in lines]


# --- what is interrupted ----------------------------------------------------------------------


def watched(path: Path) -> None:
    with livingdb.create(path) as db:
        db.set_alert_sinks([SINK, alert.log()])
        db.watch("schemas", alert.on_schema_change())


def waiting(path: Path, count: int = COUNT) -> None:
    with livingdb.create(path) as db:
        db._graph.on_alert = None
        db.set_alert_sinks([SINK])
        for number in range(count):
            with db._graph.catalog.write() as connection:
                raise_alert(db._graph, connection, f"s{number}", "lag", "error", "late", now())


def tell(path: Path, done: Done) -> None:
    with livingdb.open(path) as db:
        db._graph.on_alert = None
        db.branch("main").create_table("t", {"id": "bigint"}, key="id")
        done()


def send(path: Path, done: Done) -> None:
    with livingdb.open(path, trust=TRUST) as db:
        db.deliver_alerts()
        done()


ALERTS = {"tell": Scenario(watched, tell), "send": Scenario(waiting, send)}


def main() -> None:
    """Be the program whose children are killed, or one that sends."""
    if len(sys.argv) > 1:
        with livingdb.open(sys.argv[1], trust=TRUST) as db:
            print("ready", flush=True)
            sys.stdin.readline()
            print(len(db.deliver_alerts()), flush=True)
        return
    from tests.crash import victim

    SCENARIOS.update(ALERTS)
    names = ("database.database", "alerts.dispatcher", "alerts.watch_commits", "alerts.raise_alert")
    victim.WARM += (*(f"livingdb.{name}" for name in names), "tests.crash.test_alert_crash")
    victim.main()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    made = Victim("tests.crash.test_alert_crash")
    yield made
    made.close()


# --- what is left -----------------------------------------------------------------------------


def check_told(path: Path, acknowledged: bool) -> None:
    """The commit, its alert and what is to be sent are there together."""
    with livingdb.open(path) as db:
        is_there = db.branch("main").tables() == ["t"]
        assert is_there or not acknowledged
        assert [one.event for one in db.alerts()] == ["schema_change"] * is_there
        assert len(db._graph.catalog.outbox.all()) == 2 * is_there
        assert db.check().problems == []


def check_sent(path: Path, acknowledged: bool) -> int:
    """Everything gets out, by somebody else who comes later; how much was sent twice."""
    if acknowledged:
        assert len(got(path)) == COUNT
    before = Counter(got(path))
    assert all(count == 1 for count in before.values())
    with livingdb.open(path, trust=TRUST) as db:
        assert len(db.alerts()) == COUNT
        db._dispatcher._time = lambda: now() + 3_600_000_000
        db.deliver_alerts()
        assert {d["state"] for one in db.alerts() for d in one.deliveries} == {"sent"}
        assert db.deliver_alerts() == []
    found = Counter(got(path))
    assert len(found) == COUNT
    assert {number for number, _ in found} == set(range(1, COUNT + 1))
    twice = sum(count - 1 for count in found.values())
    assert twice <= 1, "only what was under way"
    return twice


def run(name: str, victim: Victim, folder: Path, moment: int | None) -> tuple[Path, bool]:
    path = Path(shutil.copytree(folder / "start", folder / "killed"))
    Path(f"{path}.got").unlink(missing_ok=True)
    outcome = victim.run(name, path, moment)
    assert not outcome.failed
    if moment is None:
        (folder / "moments").write_text("\n".join(outcome.moments))
    return path, outcome.acknowledged


def moments_of(name: str, victim: Victim, folder: Path) -> list[str]:
    ALERTS[name].start(folder / "start")
    path, acknowledged = run(name, victim, folder, None)
    assert acknowledged
    check_told(path, True) if name == "tell" else check_sent(path, True)
    shutil.rmtree(path)
    return (folder / "moments").read_text().splitlines()


def killed(name: str, victim: Victim, folder: Path, moments: list[int]) -> int:
    """Kill it at each moment; how often something was sent twice."""
    twice = 0
    for moment in moments:
        path, acknowledged = run(name, victim, folder, moment)
        try:
            if name == "tell":
                check_told(path, acknowledged)
            else:
                twice += check_sent(path, acknowledged)
        except BaseException as error:
            error.add_note(f"{name}, killed at moment {moment}")
            raise
        shutil.rmtree(path)
    return twice


@pytest.mark.parametrize("name", ALERTS)
def test_killed_at_some_moments(name: str, victim: Victim, folder: Path) -> None:
    moments = moments_of(name, victim, folder)
    at = set(sample(moments))
    # Between what is sent and what says so.
    at |= {n for n, words in enumerate(moments, 1) if words.startswith("before UPDATE outbox")}
    twice = killed(name, victim, folder, sorted(at))
    assert (twice > 0) == (name == "send")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ALERTS)
def test_killed_at_every_moment(name: str, victim: Victim, folder: Path) -> None:
    moments = moments_of(name, victim, folder)
    killed(name, victim, folder, list(range(1, len(moments) + 1)))


# --- several at a time ------------------------------------------------------------------------


def started(path: Path, count: int, **environment: str) -> list[Child]:
    module = "tests.crash.test_alert_crash"
    programs = [nursery.start(module, str(path), **environment) for _ in range(count)]
    for program in programs:
        assert heard(program) == "ready"
    for program in programs:
        go(program)
    return programs


def heard(program: Child) -> str:
    return program.stdout.readline().strip()


def go(program: Child) -> None:
    print("go", file=program.stdin, flush=True)


def test_two_programs_send_each_alert_once(folder: Path) -> None:
    path = folder / "db"
    waiting(path, 60)
    done = []
    for program in started(path, 2):
        done.append(int(heard(program)))
        assert program.wait(timeout=240) == 0
    assert sum(done) == 60
    assert sorted(number for number, _ in got(path)) == list(range(1, 61))
    with livingdb.open(path) as db:
        states = Counter(d["state"] for one in db.alerts() for d in one.deliveries)
    assert states == {"sent": 60}


def test_one_of_two_programs_is_killed(folder: Path) -> None:
    path = folder / "db"
    waiting(path, 200)
    first, second = started(path, 2, **{HALT_AT: "20"})
    assert heard(first) == heard(second) == "halted"
    first.kill()
    first.wait(timeout=240)
    go(second)
    assert int(heard(second)) > 0
    assert second.wait(timeout=240) == 0
    with livingdb.open(path, trust=TRUST) as db:
        assert len(db.alerts()) == 200
        db._dispatcher._time = lambda: now() + 3_600_000_000
        assert len(db.deliver_alerts()) <= 1
        states = Counter(d["state"] for one in db.alerts() for d in one.deliveries)
    assert states == {"sent": 200}
    found = Counter(got(path))
    assert {number for number, _ in found} == set(range(1, 201))
    assert len(found) == 200, "one key for each"
    assert sum(found.values()) <= 201


if __name__ == "__main__":
    main()
