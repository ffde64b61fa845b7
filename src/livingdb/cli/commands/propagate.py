"""`livingdb propagate`: bring derived objects up to date, once or from now on."""

from __future__ import annotations

import os
import select
import signal
import time as clock
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from livingdb.cli.exits import BAD_DATA
from livingdb.cli.open_database import Engine, Settings, Trust
from livingdb.errors import LivingDBError

if TYPE_CHECKING:
    from livingdb import Database
    from livingdb.cli.output import Output
    from livingdb.database.run import Run

__all__ = ["propagate"]

_PAUSE_SECONDS = 1.0
_REST_SECONDS = 15.0
"""How long upkeep rests where nothing was due."""


def propagate(
    context: typer.Context,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until told to end (SIGINT, SIGTERM).")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(min=0.01, help="Seconds between looks, with --watch. [default: 1]"),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once; so it is anyway.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.01, help="End after so many seconds, with --watch."),
    ] = None,
    upkeep: Annotated[
        bool | None,
        typer.Option(
            "--upkeep/--no-upkeep",
            help="Between looks, fold, drain, migrate, compact and check, with --watch. "
            "[default: --upkeep]",
        ),
    ] = None,
    engine: Engine = None,
    trust: Trust = None,
) -> None:
    """Bring everything up to date that is due: deferred views, and those whose time has come.

    With --watch this is the runner: between looks it does the upkeep of the database.

    \b
    Example:
      livingdb propagate
      livingdb propagate --watch --every 5
      livingdb propagate --watch --seconds 600 --no-upkeep
    """
    if watch and once:
        raise typer.BadParameter("once, or for as long as it takes?", param_hint="--watch --once")
    for name, given in (("--every", every), ("--seconds", seconds), ("--upkeep", upkeep)):
        if given is not None and not watch:
            raise typer.BadParameter("goes with --watch", param_hint=name)
    from livingdb.cli.runs import tell_runs

    settings = Settings.of(context)
    output = settings.output()
    with settings.open(trust, engine) as db:
        if watch:
            pause = every or _PAUSE_SECONDS
            keep_up = None if upkeep is False else _Upkeep(db, pause)
            _watch(db, output, pause, seconds, keep_up)
            return
        runs = _round(db, True)
        tell_runs(output, runs, "nothing is due")
        if any(run.error for run in runs):
            raise typer.Exit(BAD_DATA)


def _round(db: Database, is_shown: bool) -> list[Run]:
    """Run what is due; terminals may show how far it is."""
    if not is_shown:
        return db.propagate()
    from rich.console import Console

    from livingdb.cli.progress import bars

    with bars(Console(stderr=True))("propagating") as report:
        return db.propagate(progress=lambda done, total, _name: report(done, total))


def _watch(
    db: Database,
    output: Output,
    pause_seconds: float,
    seconds: float | None,
    upkeep: _Upkeep | None,
) -> None:
    """Run what is due, again and again, for so many seconds; and upkeep between.

    What fails is told and tried again with the next look; as long as it fails in the same way,
    it is told once.
    """
    from livingdb.cli.runs import tell_runs

    told: dict[str, str | None] = {}
    is_first = True
    end = None if seconds is None else clock.monotonic() + seconds
    with StopSignal() as ending:
        while not ending.is_requested and (end is None or clock.monotonic() < end):
            began = clock.monotonic()
            try:
                runs = _round(db, is_first)
                is_first = False
                tell_runs(output, [r for r in runs if not r.error or told.get(r.name) != r.error])
                told = {run.name: run.error for run in runs}
                ending.listen()
                if upkeep is not None and not ending.is_requested:
                    with ending.interrupting():
                        upkeep.run()
            except LivingDBError as error:
                if told.get("") != str(error):
                    typer.echo(f"livingdb: {error}", err=True)
                told[""] = str(error)
            except KeyboardInterrupt:
                ending.ask()
            ending.listen()
            left = pause_seconds - (clock.monotonic() - began)
            ending.wait(max(0.0, left if end is None else min(left, end - clock.monotonic())))


class _Upkeep:
    """What is done between looks: as much as fits, and after a look in vain nothing for a while.

    A job that fails is told, once for each way in which it does.
    """

    def __init__(self, db: Database, seconds: float):
        self._db = db
        self._seconds = max(_PAUSE_SECONDS, seconds)
        self._rests_until = 0.0
        self._told: dict[str, str] = {}

    def run(self) -> None:
        """Do some of what is due."""
        if clock.monotonic() < self._rests_until:
            return
        report = self._db.upkeep(self._seconds, propagate=False)
        for run in report.runs:
            if run.error and self._told.get(run.name) != run.error:
                typer.echo(f"livingdb: upkeep: {run.name}: {run.error}", err=True)
            self._told[run.name] = run.error
        if not report.runs:
            self._rests_until = clock.monotonic() + _REST_SECONDS


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Takes the first signal as a request to end when it suits; the next one ends at once.

    For use as a context manager, by the main thread.
    """

    def __init__(self) -> None:
        self.is_requested = False
        self._interrupts = False

    def __enter__(self) -> Self:
        # A pipe, not a lock: a signal comes at any moment, also while a lock is being taken.
        self._reading, self._writing = os.pipe()
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reading)
        os.close(self._writing)

    def listen(self) -> None:
        """Take signals from now on, whoever took them meanwhile: Spark does as it starts."""
        if not self.is_requested:
            for number in _SIGNALS:
                signal.signal(number, self._handle_signal)

    def ask(self) -> None:
        """Ask for the end."""
        self.is_requested = True
        os.write(self._writing, b".")

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """What runs inside is left at once when the end is asked for: `KeyboardInterrupt`."""
        self._interrupts = True
        try:
            yield
        finally:
            self._interrupts = False

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the end is asked for."""
        select.select([self._reading], [], [], seconds)

    def _handle_signal(self, _number: int, _frame: Any) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self.ask()
        if self._interrupts:
            raise KeyboardInterrupt
