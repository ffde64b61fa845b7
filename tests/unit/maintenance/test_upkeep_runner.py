"""The runner: what comes first, what fails, who does what, and how it ends."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.files.test_processes import ended_process

import livingdb
from livingdb import Corruption, Database, InvalidData
from livingdb.catalog.jobs import FAILED, IDLE, RUNNING, JobRow
from livingdb.files.processes import process_name
from livingdb.graph.graph import now
from livingdb.maintenance.upkeep import pace, runner
from livingdb.maintenance.upkeep.job import Estimate, Job, Memory, Step, Work
from livingdb.maintenance.upkeep.runner import UpkeepReport, run_jobs

HOUR = 3_600_000_000


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as made:
        yield made


def job(
    name: str,
    steps: Callable[[Work, Memory], Iterator[Step]] | None = None,
    estimate: Estimate | None = None,
    **more: Any,
) -> Job:
    """A job that counts how often it was done, unless it does something else."""

    def count(work: Work, memory: Memory) -> Iterator[Step]:
        yield Step({"times": memory.get("times", 0) + 1}, 1, is_last=True)

    found = Estimate("asked for") if estimate is None else estimate
    return Job(name, "things done", lambda work, memory: found, steps or count, **more)


def do(db: Database, *jobs: Job, seconds: float = 30.0) -> UpkeepReport:
    return run_jobs(db._upkeep_work(), jobs, seconds)


def row(db: Database, name: str) -> JobRow:
    return db._graph.catalog.jobs.all()[name]


def put(db: Database, name: str, **values: Any) -> None:
    """Let a job be otherwise than it is."""
    jobs = db._graph.catalog.jobs
    seen = jobs.all().get(name)
    with db._graph.catalog.write() as connection:
        assert jobs.swap(connection, seen, replace(seen or JobRow(name), **values))


# --- what comes first ----------------------------------------------------------------------------


def test_what_brings_most_for_a_second_comes_first(db: Database) -> None:
    """What a unit costs is measured: a job that turns out to be dear comes later the next time."""
    jobs = [
        job("cheap", estimate=Estimate("", 1, 1.0), unit_seconds=0.01),
        job("dear", estimate=Estimate("", 100, 5.0), unit_seconds=1.0),
        job("best", estimate=Estimate("", 10, 90.0), unit_seconds=0.01),
        job("later", estimate=Estimate("", 1, 1e6, due=now() + HOUR)),
    ]
    assert [run.name for run in do(db, *jobs).runs] == ["best", "cheap", "dear"]
    put(db, "best", details={"unit_seconds": 100.0})
    assert [run.name for run in do(db, *jobs).runs][-1] == "best"


def test_what_is_one_step_is_begun_only_if_there_is_time_for_it(db: Database) -> None:
    whole = job("whole", estimate=Estimate("", 100, 1.0, is_whole=True), unit_seconds=1.0)
    assert do(db, whole, seconds=20).runs == ()
    assert [run.name for run in do(db, whole, seconds=200).runs] == ["whole"]


def test_time_is_bounded_and_the_rest_is_done_the_next_time(db: Database) -> None:
    def steps(work: Work, memory: Memory) -> Iterator[Step]:
        for number in range(memory.get("at", 0), 10):
            clock[0] += 1.0
            yield Step({"at": number + 1}, 1, f"{number + 1} of 10", is_last=number == 9)

    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.clock, "monotonic", lambda: clock[0])
        long = job("long", steps)
        done = do(db, long, job("never", share=0.0), seconds=4)
        assert [(run.did, run.is_finished) for run in done.runs] == [(4, False)]
        assert "there is more to do" in str(done)
        assert row(db, "long").progress == "4 of 10"
        assert row(db, "long").details["memory"] == {"at": 4}
        assert [(run.did, run.is_finished) for run in do(db, long, seconds=50).runs] == [(6, True)]
        assert row(db, "long").progress == ""


def test_what_is_read_and_written_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    moved, clock, waits = [0], [0.0], list[float]()
    monkeypatch.setattr(pace, "_moved_bytes", lambda: moved[0])
    monkeypatch.setattr(pace.clock, "monotonic", lambda: clock[0])
    monkeypatch.setattr(pace.clock, "sleep", waits.append)
    limit = pace.Pace(1_000)
    moved[0], clock[0] = 5_000, 2.0
    limit.wait(60)
    limit.wait(0.5)
    clock[0] = 9.0
    limit.wait(60)
    pace.Pace(None).wait(60)
    assert waits == [3.0, 0.5]


# --- what fails ----------------------------------------------------------------------------------


def failing(error: BaseException, memory: Memory | None = None) -> Job:
    def steps(work: Work, before: Memory) -> Iterator[Step]:
        yield Step(memory or {}, 1)
        raise error

    return job("broken", steps, Estimate("", 1, 1e9))


def test_a_job_that_fails_stops_no_other_and_is_tried_later(db: Database) -> None:
    broken = failing(Corruption("the pack is gone"), {"at": 7})
    done = do(db, broken, job("other"))
    assert [(run.name, run.error) for run in done.runs] == [
        ("broken", "the pack is gone"),
        ("other", ""),
    ]
    assert [run.name for run in done.failed] == ["broken"]
    found = row(db, "broken")
    assert (found.state, found.failures, found.error) == (FAILED, 1, "the pack is gone")
    assert 20e6 < found.due - now() <= 30e6
    assert found.details["memory"] == {"at": 7}, "it goes on where it stopped"
    assert [run.name for run in do(db, broken, job("other")).runs] == ["other"]


def test_somebody_is_told_after_three_failures_and_when_it_works_again(db: Database) -> None:
    for times in range(1, 5):
        do(db, failing(Corruption("gone")))
        assert row(db, "broken").failures == times
        put(db, "broken", due=0)
        assert len(db.alerts(state="open")) == int(times >= 3)
    (alert,) = db.alerts()
    assert (alert.event, alert.severity, alert.sync) == ("upkeep_failed", "error", "upkeep/broken")
    assert {item.kind for item in db.status().failed} == {"alert", "job"}
    do(db, job("broken"))
    assert row(db, "broken").failures == 0
    assert db.alerts(state="open") == []
    assert db.status().ok


def test_values_of_rows_are_not_written_down(db: Database) -> None:
    do(db, failing(InvalidData("'hunter2' is no number")))
    assert "hunter2" not in row(db, "broken").error
    assert row(db, "broken").error.startswith("InvalidData")
    put(db, "broken", due=0)
    do(db, failing(ZeroDivisionError("hunter2")))
    assert "hunter2" not in row(db, "broken").error


def test_what_a_job_passes_over_is_told_and_it_goes_on(db: Database) -> None:
    def steps(work: Work, memory: Memory) -> Iterator[Step]:
        yield Step({"at": 1}, 0, problems=["main.a: it is damaged"])
        yield Step({"at": 2}, 5, is_last=True)

    (run,) = do(db, job("fold", steps)).runs
    assert (run.did, run.error) == (5, "main.a: it is damaged")
    assert row(db, "fold").details["memory"] == {"at": 2}


def test_an_estimate_that_fails_is_a_failure_of_its_job(db: Database) -> None:
    def estimate(work: Work, memory: Memory) -> Estimate:
        raise Corruption("nobody knows")

    lost = Job("lost", "things", estimate, job("x").steps)
    done = do(db, lost, job("other"))
    assert {run.name: run.error for run in done.runs} == {"lost": "nobody knows", "other": ""}


def test_an_interrupted_job_is_free(db: Database) -> None:
    with pytest.raises(KeyboardInterrupt):
        do(db, failing(KeyboardInterrupt(), {"at": 3}))
    found = row(db, "broken")
    assert (found.state, found.error, found.details["memory"]) == (IDLE, "", {"at": 3})
    assert [run.error for run in do(db, job("broken")).runs] == [""]


# --- several runners -----------------------------------------------------------------------------


def test_what_somebody_does_is_left_to_them_while_they_are_heard_of(db: Database) -> None:
    until = now() + HOUR
    put(db, "a", state=RUNNING, holder="elsewhere:1:2:3 x", until=until)
    put(db, "b", state=RUNNING, holder=f"{process_name()} x", until=until)
    put(db, "c", state=RUNNING, holder="elsewhere:1:2:3 x", until=now() - 1)
    put(db, "d", state=RUNNING, holder=f"{ended_process()} x", until=until)
    done = do(db, *map(job, "abcd"))
    assert {run.name for run in done.runs} == {"c", "d"}


def test_who_lost_a_job_writes_nothing_about_it(db: Database) -> None:
    def steps(work: Work, memory: Memory) -> Iterator[Step]:
        yield Step({"mine": True}, 1)
        put(db, "slow", state=RUNNING, holder="another", details={"memory": {"theirs": True}})

    assert [run.did for run in do(db, job("slow", steps)).runs] == [1]
    found = row(db, "slow")
    assert (found.holder, found.details["memory"]) == ("another", {"theirs": True})


def _keep_up(path: str, go: Any) -> None:
    with livingdb.open(path, engine="embedded") as db:
        go.wait()
        for _ in range(5):
            assert not db.upkeep(seconds=30).failed


@pytest.mark.slow
def test_two_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("a", {"id": "bigint", "v": "bigint"}, "id")
        main.insert("a", {"id": range(500), "v": [0] * 500})
        main.derive("few", sql="SELECT id FROM a WHERE v > 10", engine="embedded")
    context = multiprocessing.get_context("spawn")
    go = context.Barrier(3)
    runners = [context.Process(target=_keep_up, args=(str(path), go)) for _ in range(2)]
    for each in runners:
        each.start()
    with livingdb.open(path, author="ann", engine="embedded") as db:
        go.wait()
        for number in range(30):
            db.branch("main").upsert("a", {"id": [number], "v": [number]})
        for each in runners:
            each.join(120)
            assert each.exitcode == 0
        db.upkeep(seconds=60)
        assert len(db.branch("few").table("few")) == 19
        assert db.branch("main").table("a").to_arrow()["v"].to_pylist()[:30] == [*range(30)]
        assert db.check().ok
        assert db.status().ok
        assert {found.state for found in db._graph.catalog.jobs.all().values()} == {IDLE}
