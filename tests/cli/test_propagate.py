"""`livingdb propagate` and `livingdb refresh`: what they tell, and how a watch ends."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import IO, Any

import pytest
from tests.unit.commit.derived.oracle import assert_in_order

import livingdb
from livingdb import Branch
from livingdb.cli.app import run
from livingdb.maintenance.upkeep.job import Estimate, Job, Memory, Step, Work

TOTALS = "SELECT city, sum(amount) AS total, count(*) AS orders FROM orders GROUP BY city"
PATIENCE_SECONDS = 240


def order(number: int) -> dict[str, Any]:
    return {"id": number, "city": ["Oslo", "Rome", None][number % 3], "amount": number}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A shop with two views that are due, one that waits to be asked, and one by a function."""
    made = tmp_path / "shop.ldb"
    with livingdb.create(made, trust=["tests.*"]) as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string", "amount": "bigint"}, "id")
        main.insert("orders", [order(number) for number in range(12)])
        main.derive("totals", sql=TOTALS, engine="embedded")
        main.derive("large", sql="SELECT * FROM orders WHERE amount > 5", engine="embedded")
        main.derive(
            "asked", sql="SELECT id FROM orders WHERE amount > 9", when="on demand", engine="auto"
        )
        main.insert("orders", [order(12), order(13)])
    return made


@pytest.fixture
def counted(path: Path) -> Path:
    """The shop with an object that a function makes, which is due as well."""
    with livingdb.open(path, trust=["tests.*"]) as db:
        main = db.branch("main")
        main.derive("counted", model="tests.cli.functions:count", tables=["orders"])
        main.insert("orders", [order(14)])
    return path


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- once -------------------------------------------------------------------------------------


def test_it_tells_what_was_done(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(path), "propagate"]) == 0
    told = capsys.readouterr()
    assert told.err == "", "progress is for terminals"
    lines = [line.split() for line in told.out.splitlines() if line.strip()]
    assert lines[0] == ["name", "strategy", "reason", "rows", "seconds", "snapshot"]
    with livingdb.open(path) as db:
        heads = {name: db.branch(name).head.id[:12] for name in ("totals", "large")}
        assert_in_order(db)
    found = {line[0]: (line[1], line[2], line[-1]) for line in lines[2:]}
    assert found == {
        "totals": ("additive", "2", heads["totals"]),
        "large": ("linear", "2", heads["large"]),
    }


def test_nothing_is_due(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(path), "-o", "json", "propagate"]) == 0
    capsys.readouterr()
    assert run(["--db", str(path), "propagate", "--once"]) == 0
    assert capsys.readouterr().out == "nothing is due\n"
    assert run(["--db", str(path), "-o", "json", "propagate"]) == 0
    assert capsys.readouterr().out == ""


def test_json_has_one_object_a_run(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVINGDB", str(path))
    assert run(["-o", "json", "propagate"]) == 0
    told = {one["name"]: one for one in objects(capsys.readouterr().out)}
    with livingdb.open(path) as db:
        for name, strategy in (("totals", "additive"), ("large", "linear")):
            seconds = told[name].pop("seconds")
            assert seconds > 0
            assert told.pop(name) == {
                "name": name,
                "strategy": strategy,
                "reason": None,
                "rows": 2,
                "snapshot": db.branch(name).head.id,
                "engine": "embedded",
                "error": None,
            }
    assert told == {}


def test_csv(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(path), "-o", "csv", "propagate"]) == 0
    rows = list(csv.DictReader(StringIO(capsys.readouterr().out)))
    assert {(row["name"], row["strategy"], row["rows"]) for row in rows} == {
        ("totals", "additive", "2"),
        ("large", "linear", "2"),
    }


def test_what_fails_is_told_and_stops_nothing(
    counted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--db", str(counted), "-o", "json", "propagate"]) == 5
    told = {one["name"]: one for one in objects(capsys.readouterr().out)}
    assert set(told) == {"counted", "totals", "large"}
    assert told["counted"]["strategy"] == "failed"
    assert "does not trust" in told["counted"]["error"]
    assert told["counted"]["snapshot"] is None
    assert told["totals"]["error"] is None
    assert run(["--db", str(counted), "propagate", "--trust", "tests.*"]) == 0
    assert "FUNCTION" in capsys.readouterr().out
    with livingdb.open(counted) as db:
        assert db.at("counted").artifact() == b"15"


# --- one ----------------------------------------------------------------------------------------


def test_refresh(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["--db", str(path), "-o", "json", "refresh", "asked"]
    assert run(ask) == 0
    assert run(ask) == 0
    assert run([*ask, "--full"]) == 0
    first, again, full = objects(capsys.readouterr().out)
    assert (first["strategy"], first["rows"]) == ("linear", 2)
    assert (again["strategy"], again["snapshot"]) == ("none", None)
    assert (full["strategy"], full["reason"]) == ("full", "ASKED_FOR")
    with livingdb.open(path) as db:
        assert db.branch("asked").head.id == full["snapshot"]
        assert [s.id for s in db.branch("asked").log()][1] == first["snapshot"]
        assert_in_order(db)


def test_refresh_of_what_is_not_there(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(path), "refresh", "nothing"]) == 3
    assert "there are: asked, large, totals" in capsys.readouterr().err


def test_refresh_of_what_was_detached(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with livingdb.open(path) as db:
        db.sync("totals").detach(reason="for repairs")
    assert run(["--db", str(path), "refresh", "totals"]) == 4
    assert "for repairs" in capsys.readouterr().err


# --- bad usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--db", "shop", "propagate", "--watch", "--once"], "--once"),
        (["--db", "shop", "propagate", "--every", "3"], "--watch"),
        (["--db", "shop", "propagate", "--watch", "--every", "0"], "--every"),
        (["--db", "shop", "propagate", "--seconds", "3"], "--watch"),
        (["--db", "shop", "propagate", "--no-upkeep"], "--watch"),
        (["--db", "shop", "propagate", "--engine", "steam"], "--engine"),
        (["--db", "shop", "-o", "xml", "propagate"], "-o"),
        (["--db", "shop", "refresh"], "NAME"),
        (["propagate"], "--db"),
        (["refresh", "totals"], "--db"),
    ],
)
def test_bad_usage(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LIVINGDB", raising=False)
    assert run(arguments) == 2
    assert says.lower() in capsys.readouterr().err.lower()


def test_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(tmp_path / "none"), "propagate", "--watch"]) == 3
    assert "there is no database" in capsys.readouterr().err


# --- watching -----------------------------------------------------------------------------------


class Watch:
    """A real `livingdb propagate --watch`."""

    def __init__(self, process: subprocess.Popen[str]):
        self.process = process

    def hear(self) -> dict[str, Any]:
        """The next run it tells."""
        line = _stream(self.process.stdout).readline()
        assert line, "it ended"
        told: dict[str, Any] = json.loads(line)
        return told

    def hear_of(self, *names: str) -> list[dict[str, Any]]:
        """The next runs, until each of the names was among them."""
        told: list[dict[str, Any]] = []
        while not {*names} <= {one["name"] for one in told}:
            told.append(self.hear())
        return told

    def end(self, number: int) -> tuple[int, str, str]:
        """Tell it to end; its exit code, and what it told at last."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err


def _stream(given: IO[str] | None) -> IO[str]:
    assert given is not None
    return given


@contextmanager
def watching(path: Path, *arguments: str) -> Iterator[Watch]:
    """A watch that looks often; it is gone when the block ends."""
    program = [sys.executable, "-c", "from livingdb.cli import main; main()"]
    given = ["--db", str(path), "-o", "json", "propagate", "--watch", "--every", "0.05"]
    process = subprocess.Popen(
        [*program, *given, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    with process:
        try:
            yield Watch(process)
        finally:
            process.kill()


def sell(main: Branch, number: int) -> livingdb.Snapshot:
    return main.insert("orders", [order(number)])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_watch_goes_on_until_told_to_end(path: Path, number: int) -> None:
    with watching(path) as watch, livingdb.open(path) as db:
        watch.hear_of("totals", "large")
        for each in range(20, 23):
            made = sell(db.branch("main"), each)
            for told in watch.hear_of("totals", "large"):
                assert (told["rows"], told["error"]) == (1, None)
                assert db.at(told["snapshot"]).sources == {"main": made.id}
        assert watch.end(number) == (0, "", "")
        assert {sync.target: int(sync.lag) for sync in db.syncs()} == {
            "asked": 4,
            "large": 0,
            "totals": 0,
        }
        assert_in_order(db)


WATCH = ["propagate", "--watch", "--every", "0.05", "--seconds", "0.2"]


def test_upkeep_is_done_between_looks(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--db", str(path), *WATCH, "--no-upkeep"]) == 0
    assert "totals" in capsys.readouterr().out
    with livingdb.open(path) as db:
        assert db._graph.catalog.jobs.all() == {}
    assert run(["--db", str(path), *WATCH]) == 0
    assert capsys.readouterr() == ("", "")
    with livingdb.open(path) as db:
        jobs = db._graph.catalog.jobs.all()
        assert {"fold", "check"} <= set(jobs)
        assert "propagate" not in jobs, "that is what the looks are for"
        assert {job.state for job in jobs.values()} == {"idle"}


def test_the_end_does_not_wait_for_upkeep(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal in the middle of a step leaves it at once, and its job to others."""

    def steps(work: Work, memory: Memory) -> Iterator[Step]:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(PATIENCE_SECONDS)
        yield Step({})

    endless = Job("endless", "things", lambda work, memory: Estimate("always"), steps)
    monkeypatch.setattr("livingdb.maintenance.upkeep.jobs.JOBS", [endless])
    assert run(["--db", str(path), "propagate", "--watch"]) == 0
    assert capsys.readouterr().err == ""
    with livingdb.open(path) as db:
        assert db._graph.catalog.jobs.all()["endless"].state == "idle"
        assert db.check().ok


def test_upkeep_that_fails_is_told_once(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def steps(work: Work, memory: Memory) -> Iterator[Step]:
        raise livingdb.StorageFailure("the disk is full")
        yield Step({})

    broken = Job("broken", "things", lambda work, memory: Estimate("always"), steps)
    monkeypatch.setattr("livingdb.maintenance.upkeep.jobs.JOBS", [broken])
    monkeypatch.setattr("livingdb.maintenance.upkeep.runner._FIRST_PAUSE_SECONDS", 0.0)
    assert run(["--db", str(path), *WATCH]) == 0
    assert capsys.readouterr().err == "livingdb: upkeep: broken: the disk is full\n"


def test_errors_keep_it_going(counted: Path) -> None:
    with watching(counted) as watch, livingdb.open(counted) as db:
        first = watch.hear_of("counted", "totals", "large")
        assert [one["name"] for one in first if one["error"]] == ["counted"]
        sell(db.branch("main"), 30)
        again = watch.hear_of("totals", "large")
        assert len(again) == 2, "the same error is told once"
        assert watch.end(signal.SIGTERM) == (0, "", "")
        assert db.sync("counted").state == "active"


@pytest.mark.slow
def test_killed_while_propagating(path: Path) -> None:
    """What it was doing is done by the next one, and nothing twice."""
    number = 100
    for heard in (0, 1, 2):
        with watching(path) as watch, livingdb.open(path) as db:
            main = db.branch("main")
            sell(main, number)
            watch.hear_of("totals", "large")
            for each in range(number + 1, number + 8):
                sell(main, each)
            for _ in range(heard):
                watch.hear()
            watch.process.kill()
            watch.process.wait()
            sell(main, number + 8)
            assert_in_order(db)
        number += 9
    assert run(["--db", str(path), "propagate"]) == 0
    with livingdb.open(path) as db:
        for name in ("totals", "large"):
            assert db.sync(name).lag == 0
            seen = [snapshot.sources["main"] for snapshot in db.branch(name).log()]
            assert len(set(seen)) == len(seen)
        assert len(db.branch("main").table("orders")) == 14 + 27
        assert_in_order(db)
