"""Progress in the terminal: a line a step, with a bar where it is known how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["bars"]

Report = Callable[[int, int], object]


def bars(console: Console) -> Callable[[str], AbstractContextManager[Report]]:
    """Shows steps on a console; a step gives a function to call with `done` and `total`."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    @contextmanager
    def step(text: str) -> Iterator[Report]:
        if not console.file.isatty():
            yield lambda done, total: None
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(24))
        shown = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
        with shown as progress:
            task = progress.add_task(text, total=None)

            def report(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            yield report

    return step
