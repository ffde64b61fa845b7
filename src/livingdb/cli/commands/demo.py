"""`livingdb demo`: a guided session in a throw-away database."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from livingdb.cli.story import Chapter, Code, Listing

__all__ = ["demo"]

_WIDTH = 100
_INDENT = 3


def demo(
    context: typer.Context,
    rows: Annotated[
        int, typer.Option(min=2_000, max=5_000_000, help="Orders the shop begins with.")
    ] = 200_000,
    keep: Annotated[
        Path | None,
        typer.Option(
            file_okay=False, help="A folder that keeps the database and the picture of its graph."
        ),
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="A file for the picture of the graph, as HTML."),
    ] = None,
) -> None:
    """A shop's story: load, evolve, derive, mask, merge, guard, trace, travel in time.

    \b
    Example:
      livingdb demo
      livingdb demo --keep shop
      livingdb demo --graph graph.html
    """
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from livingdb.cli import story
    from livingdb.cli.progress import bars

    if graph is not None and not graph.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {graph.parent}", param_hint="--graph")
    if keep is not None and (keep / "shop.ldb").exists():
        raise typer.BadParameter(f"{keep} has a shop.ldb; choose another one", param_hint="--keep")
    settings = Settings.of(context)
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="livingdb-demo-")))
        else:
            folder = keep
            folder.mkdir(parents=True, exist_ok=True)
            graph = graph or folder / "graph.html"
        chapters = story.tell(folder, rows, bars(Console(stderr=True)), graph)
        if settings.output().is_text:
            show(chapters, page_console())
            typer.echo(_next_steps_text(keep, graph))
        else:
            facts = [_row(chapter) for chapter in chapters]
            settings.output().write_list(("chapter", "title", "seconds", "facts"), facts)


def page_console() -> Console:
    """Where people read: no wider than is good to read."""
    from rich.console import Console

    console = Console(highlight=False)
    is_known = sys.stdout.isatty() or "COLUMNS" in os.environ
    console.width = min(console.width, _WIDTH) if is_known else _WIDTH
    return console


def show(chapters: Iterable[Chapter], console: Console) -> None:
    """Print chapters as they come."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    for chapter in chapters:
        head = Table.grid(expand=True)
        head.add_column()
        head.add_column(justify="right", no_wrap=True)
        title = Text(f"{chapter.number}  {chapter.title}", style="bold")
        head.add_row(title, Text(f"{chapter.seconds:.1f} s", style="dim"))
        console.print(head)
        for part in _parts(chapter, console.width - _INDENT):
            console.print(Padding(part, (0, 0, 0, _INDENT), expand=False))
        console.print()


def _parts(chapter: Chapter, width: int) -> Iterable[RenderableType]:
    from rich.text import Text

    from livingdb.cli.story import Code, Sentence

    for part in chapter.parts:
        if isinstance(part, Code):
            yield _code(part, width)
        elif isinstance(part, Sentence):
            yield Text(part.text)
        else:
            yield _listing(part)


def _code(code: Code, width: int) -> RenderableType:
    """Lines as a prompt shows them, and the time at the right of the last one."""
    from rich.text import Text

    shown = Text(overflow="fold")
    for number, line in enumerate(code.text.splitlines()):
        shown.append("\n... " if number else ">>> ", "dim")
        shown.append(line, "cyan")
    took = _duration_text(code.seconds)
    if took:
        room = width - len(shown.plain.splitlines()[-1]) - len(took)
        space = " " * room if room >= 2 else "\n" + " " * (width - len(took))
        shown.append(space + took, "dim")
    return shown


def _duration_text(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1000:,.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _listing(listing: Listing) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    if not listing.columns:
        return Text(listing.text, no_wrap=True, overflow="ellipsis")
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, header_style="dim")
    for place, name in enumerate(listing.columns):
        is_number = all(isinstance(row[place], (int, float, Decimal)) for row in listing.rows)
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in listing.rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def _row(chapter: Chapter) -> dict[str, Any]:
    return {
        "chapter": chapter.number,
        "title": chapter.title,
        "seconds": round(chapter.seconds, 3),
        "facts": dict(chapter.facts),
    }


def _next_steps_text(keep: Path | None, graph: Path | None) -> str:
    """What to try now."""
    import shlex

    if keep is None:
        picture = "" if graph else "; --graph FILE draws the graph as a page"
        return (
            f"The database was in a folder that is gone now. --keep FOLDER keeps it{picture}.\n"
            "Next: examples/ has the chapters as short scripts, the README a session to paste."
        )
    program = f"livingdb --db {shlex.quote(str(keep / 'shop.ldb'))}"
    asked = ("sql", "syncs", "alerts", "graph", "branch list", "storage")
    return "\n".join(["Next:", *(f"  {program} {command}" for command in asked)])
