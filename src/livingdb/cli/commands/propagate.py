"""`livingdb propagate`: bring derived objects up to date, once or from now on."""

from __future__ import annotations

import os
import select
import signal
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
    engine: Engine = None,
    trust: Trust = None,
) -> None:
    """Bring everything up to date that is due: deferred views, and those whose time has come.

    \b
    Example:
      livingdb propagate
      livingdb propagate --watch --every 5
    """
    if watch and once:
        raise typer.BadParameter("once, or for as long as it takes?", param_hint="--watch --once")
    if every is not None and not watch:
        raise typer.BadParameter("goes with --watch", param_hint="--every")
    from livingdb.cli.runs import tell_runs

    settings = Settings.of(context)
    output = settings.output()
    with settings.open(trust, engine) as db:
        if watch:
            _watch(db, output, every or _PAUSE_SECONDS)
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


def _watch(db: Database, output: Output, pause_seconds: float) -> None:
    """Run what is due, again and again.

    What fails is told and tried again with the next look; as long as it fails in the same way,
    it is told once.
    """
    from livingdb.cli.runs import tell_runs

    told: dict[str, str | None] = {}
    is_first = True
    with StopSignal() as ending:
        while not ending.is_requested:
            try:
                runs = _round(db, is_first)
                is_first = False
                tell_runs(output, [r for r in runs if not r.error or told.get(r.name) != r.error])
                told = {run.name: run.error for run in runs}
            except LivingDBError as error:
                if told.get("") != str(error):
                    typer.echo(f"livingdb: {error}", err=True)
                told[""] = str(error)
            except KeyboardInterrupt:
                ending.ask()
            ending.listen()
            ending.wait(pause_seconds)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Takes the first signal as a request to end when it suits; the next one ends at once.

    For use as a context manager, by the main thread.
    """

    def __init__(self) -> None:
        self.is_requested = False

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

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the end is asked for."""
        select.select([self._reading], [], [], seconds)

    def _handle_signal(self, _number: int, _frame: Any) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self.ask()
