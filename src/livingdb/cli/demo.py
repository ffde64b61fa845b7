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
    """Load, change, branch, merge and question a shop, and show what was stored and shared."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from rich.console import Console

    from livingdb.cli.bars import bars
    from livingdb.cli.story import tell

    with TemporaryDirectory(prefix="livingdb-demo-") as folder:
        story = tell(Path(folder), rows, bars(Console(stderr=True)))
    show(story, Console(highlight=False))


def show(story: Story, console: Console) -> None:
    """Print what the demonstration found."""
    console.print(_snapshots(story))
    _copies(story, console)
    _merge(story, console)
    _origin(story, console)
    _answers(story, console)
    _weight(story, console)


def _snapshots(story: Story) -> Table:
    from livingdb.cli.output import plain_table

    table = plain_table("Every change is a snapshot")
    for title in ("snapshot", "branch", "author", "message"):
        table.add_column(title)
    for title in ("orders", "changed", "ms"):
        table.add_column(title, justify="right")
    for made in story.made:
        table.add_row(
            made.id[:8],
            made.branch,
            made.author,
            made.message,
            f"{made.rows:,}",
            _changed(made.changed),
            f"{made.seconds * 1000:.1f}",
        )
    return table


def _changed(counts: dict[str, int]) -> str:
    signs = (("+", "inserted"), ("~", "updated"), ("-", "deleted"))
    return " ".join(f"{sign}{counts[what]:,}" for sign, what in signs if counts[what])


def _copies(story: Story, console: Console) -> None:
    first: Made = story.made[0]
    console.print(
        f"Spark read {first.rows:,} orders from {_size(story.raw_bytes)} of text, cleaned and "
        f"loaded them in {story.load_seconds:.1f} s; they take {_size(story.load_bytes)}. "
        f"{story.daily_rows:,} daily medians took Spark {story.daily_seconds:.1f} s. "
        f"The branch took {story.clone_seconds * 1000:.1f} ms; it copies nothing.\n"
    )


def _merge(story: Story, console: Console) -> None:
    both = story.conflicts[0]
    console.print(
        f"Merging the audit stopped at {len(story.conflicts)} orders that both sides changed. "
        f"Order {both['id']} in {both['shop']} was {both['_base']['amount']:,.2f}; main made it "
        f"{both['_ours']['amount']:,.2f}, the audit {both['_theirs']['amount']:,.2f}. With "
        '{"orders.amount": "theirs"} the audit wins: '
        f"{_changed(story.merged_rows)} rows.\n"
    )


def _origin(story: Story, console: Console) -> None:
    blamed = story.blamed
    console.print(
        f"Who wrote that order? {blamed['author']}, in {blamed['snapshot'][:8]} "
        f"({blamed['message']}). Every value it has had:"
    )
    for row in story.history:
        console.print(
            f"  {row['snapshot'][:8]}  {row['_change_type']:<6}  {row['amount']:>10,.2f}  "
            f"{row['status']:<9}  {row['author']}: {row['message']}"
        )
    console.print()


def _answers(story: Story, console: Console) -> None:
    for asked in story.asked:
        console.print(f"[bold]{asked.text}[/bold]", soft_wrap=True)
        for row in asked.answer:
            console.print("  " + ", ".join(f"{name} {value}" for name, value in row.items()))
        console.print(f"  [dim]{asked.seconds * 1000:.0f} ms[/dim]")
    console.print()


def _weight(story: Story, console: Console) -> None:
    verdict = "Every byte was checked." if story.is_sound else "A CHECK FOUND PROBLEMS."
    console.print(
        f"On disk: {story.snapshots} snapshots in {_size(story.bytes)}, "
        f"{_size(story.compact_bytes)} after compacting; the two branches share what they have in "
        f"common {story.sharing:.2f} times. {verdict} The folder is now removed.\n"
        "Next: open a Python prompt and `import livingdb`; the README has a session to paste."
    )


def _size(size_bytes: int) -> str:
    if size_bytes < 10_000:
        return f"{size_bytes:,} B"
    if size_bytes < 10_000_000:
        return f"{size_bytes / 1000:,.0f} kB"
    return f"{size_bytes / 1_000_000:,.1f} MB"
