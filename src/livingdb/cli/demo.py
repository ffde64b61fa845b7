"""`livingdb demo`: a guided session in a throw-away database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from livingdb.cli.story import Made, Story

__all__ = ["demo"]


def demo(
    rows: Annotated[
        int, typer.Option(min=2_000, max=5_000_000, help="Orders the shop begins with.")
    ] = 200_000,
) -> None:
    """Load, change, branch, fold and compare a table, and show what was stored and shared."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from livingdb.cli.story import tell

    errors = Console(stderr=True)
    with TemporaryDirectory(prefix="livingdb-demo-") as folder:
        story = tell(Path(folder), rows, errors.status)
    show(story, Console(highlight=False))


def show(story: Story, console: Console) -> None:
    """Print what the demonstration found."""
    console.print(_versions(story))
    _copies(story, console)
    console.print(_folds(story))
    _history(story, console)
    _groups(story, console)
    chunks, size = story.stored_chunks, _size(story.disk_bytes)
    console.print(f"On disk: {chunks:,} chunks in {size}; the folder is now removed.")


def _versions(story: Story) -> Table:
    table = _table("Two lines of history over one table of orders")
    for title in ("version", "from", "line", "what"):
        table.add_column(title)
    for title in ("rows", "changed", "chunks", "bytes", "ms"):
        table.add_column(title, justify="right")
    for made in story.made:
        table.add_row(
            made.name,
            made.base,
            made.line,
            made.what,
            f"{made.rows:,}",
            _changed(made),
            f"{made.chunks:,}",
            _size(made.size_bytes),
            f"{made.seconds * 1000:.0f}",
        )
    return table


def _changed(made: Made) -> str:
    counts = made.counts
    signs = (("+", counts.inserted), ("~", counts.updated), ("-", counts.deleted))
    return " ".join(f"{sign}{count:,}" for sign, count in signs if count)


def _copies(story: Story, console: Console) -> None:
    first = story.made[0].size_bytes
    later = sum(made.size_bytes for made in story.made[1:])
    count = len(story.made)
    console.print(
        f"v1 takes {_size(first)}, the {count - 1} versions after it {_size(later)} together: each "
        f"is a recipe and a delta. Copies would take {_size(first * count)}.\n"
    )


def _folds(story: Story) -> Table:
    table = _table("Both heads folded: tails become trees, which share most chunks with v1")
    table.add_column("version")
    for title in ("tail rows", "chunks", "shared", "new bytes", "before ms", "after ms"):
        table.add_column(title, justify="right")
    table.add_column("same rows")
    for fold in story.folds:
        table.add_row(
            fold.name,
            f"{fold.tail_rows:,}",
            f"{fold.chunks:,}",
            f"{fold.shared:,} ({fold.shared / fold.chunks:.0%})",
            _size(fold.new_bytes),
            f"{fold.read_before_seconds * 1000:.0f}",
            f"{fold.read_after_seconds * 1000:.0f}",
            "yes" if fold.same_rows else "NO",
        )
    return table


def _history(story: Story, console: Console) -> None:
    main, audit = (fold.name for fold in story.folds)
    diff = story.diff
    console.print(
        f"Diff of {main} and {audit}: {diff.inserted:,} inserted, {diff.updated:,} updated, "
        f"{diff.deleted:,} deleted. Their trees share {story.diff_shared:,} chunks.\n"
    )
    then, now = story.order_then, story.order_now
    console.print(
        f"Looking back: v1 still has {story.first_rows:,} orders worth {story.first_total:,.2f}; "
        f"{main} has {story.last_rows:,} worth {story.last_total:,.2f}.\n"
        f"Order {then['id']} in {then['shop']} was {then['status']!r} and is {now['status']!r}.\n"
    )


def _groups(story: Story, console: Console) -> None:
    grouped, whole = story.grouped_bytes, story.ungrouped_bytes
    console.print(
        f"Attribute groups: {story.patched_rows:,} orders all over the table change status. "
        f"Folding that writes {_size(grouped)}; with all columns in one tree it would be "
        f"{_size(whole)}, {whole / grouped:.1f} times as much.\n"
    )


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _size(size_bytes: int) -> str:
    if size_bytes < 10_000:
        return f"{size_bytes:,} B"
    if size_bytes < 10_000_000:
        return f"{size_bytes / 1000:,.0f} kB"
    return f"{size_bytes / 1_000_000:,.1f} MB"
