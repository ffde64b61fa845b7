"""`livingdb request`: ask for a merge, look at what others ask for, approve and merge it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import branches
from livingdb.cli.conflict_policy import OnConflict, conflict_policy
from livingdb.cli.exits import DIFFERS
from livingdb.cli.open_database import Settings
from livingdb.errors import MergeConflict

if TYPE_CHECKING:
    from livingdb.database.merge_request import MergeRequest

__all__ = ["request"]

request = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="""Merge requests: what others look at before it is merged.

    \b
    Example:
      livingdb request
      livingdb request create dev --into main --title "two orders"
      livingdb request show 1
      livingdb request approve 1
      livingdb request merge 1
    """,
)
_COLUMNS = ("number", "state", "source", "target", "title", "author", "time")

Number = Annotated[int, typer.Argument(help="The number of the request.")]
By = Annotated[str | None, typer.Option("--by", help="Who.  [default: $LIVINGDB_AUTHOR]")]


@request.callback()
def default(context: typer.Context) -> None:
    """List those that are open unless another thing is asked for."""
    if context.invoked_subcommand is None:
        list_requests(context, "open")


@request.command("list")
def list_requests(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option("--state", help="open, merged or closed.  [default: all]")
    ] = None,
) -> None:
    """Merge requests, newest first.

    \b
    Example:
      livingdb request list --state merged
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = [_row(one) for one in db.merge_requests(state)]
        settings.output().write_list(_COLUMNS, rows, (), "there are no merge requests")


@request.command()
def create(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="What to merge.", autocompletion=branches)],
    into: Annotated[
        str | None,
        typer.Option("--into", help="Where to.  [default: --branch]", autocompletion=branches),
    ] = None,
    title: Annotated[str, typer.Option("--title", help="What it is about, in a line.")] = "",
    description: Annotated[str, typer.Option("--description", help="The same at length.")] = "",
) -> None:
    """Ask others to look at a branch before it is merged into another.

    \b
    Example:
      livingdb request create dev --into main --title "two orders"
    """
    settings = Settings.of(context)
    with settings.open() as db:
        target = settings.branch_name(db) if into is None else into
        made = db.request_merge(source, target, title, description)
        settings.output().write_record(
            _row(made), f"merge request {made.number}: {made.source} into {made.target}"
        )


@request.command()
def show(context: typer.Context, number: Number) -> None:
    """What a request would change, what was said, and what stands in its way; ends with 1 if so.

    \b
    Example:
      livingdb request show 1
    """
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.merge_request(number)
        problems = found.problems() if found.state == "open" else []
        changes = found.preview().changes if found.state == "open" else {}
        told = {
            **_row(found),
            "description": found.description,
            "changes": [{"table": name, **dict(counts)} for name, counts in changes.items()],
            "problems": problems,
            "notes": [
                {"time": note.time, "author": note.author, "kind": note.kind, "text": note.text}
                for note in found.notes
            ],
        }
        settings.output().write_record(told, _text(found, told))
        if problems:
            raise typer.Exit(DIFFERS)


@request.command()
def approve(context: typer.Context, number: Number, by: By = None) -> None:
    """Agree with what the branch is now.

    \b
    Example:
      livingdb request approve 1 --by bob
    """
    _act(context, number, lambda found: found.approve(by=by), "approved")


@request.command()
def comment(
    context: typer.Context,
    number: Number,
    text: Annotated[str, typer.Argument(help="What is to be said.")],
    by: By = None,
) -> None:
    """Say something about it.

    \b
    Example:
      livingdb request comment 1 "what of Bergen?"
    """
    _act(context, number, lambda found: found.comment(text, by=by), "commented")


@request.command()
def close(context: typer.Context, number: Number, by: By = None) -> None:
    """End it without a merge.

    \b
    Example:
      livingdb request close 1
    """
    _act(context, number, lambda found: found.close(by=by), "closed")


@request.command()
def reopen(context: typer.Context, number: Number, by: By = None) -> None:
    """Ask again, after it was closed.

    \b
    Example:
      livingdb request reopen 1
    """
    _act(context, number, lambda found: found.reopen(by=by), "open again")


@request.command()
def merge(
    context: typer.Context, number: Number, by: By = None, on_conflict: OnConflict = None
) -> None:
    """Merge it, if the rule of its target allows; ends with 1 if both changed the same.

    \b
    Example:
      livingdb request merge 1
      livingdb request merge 1 --on-conflict theirs
    """
    from livingdb.cli.commands.merge import tell_conflict

    policy = conflict_policy(on_conflict or [])
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        found = db.merge_request(number)
        try:
            made = found.merge(by=by, on_conflict=policy)
        except MergeConflict as conflict:
            tell_conflict(output, found.target, conflict, "nothing was merged")
            raise typer.Exit(DIFFERS) from None
        said = f"{found.target} stands on {made.id[:12]}: {made.message}"
        output.write_record({**_row(found), "snapshot": made.id}, said)


def _act(
    context: typer.Context, number: int, act: Callable[[MergeRequest], None], done: str
) -> None:
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.merge_request(number)
        act(found)
        settings.output().write_record(_row(found), f"merge request {number} is {done}")


def _row(one: MergeRequest) -> dict[str, Any]:
    return {
        "number": one.number,
        "state": one.state,
        "source": one.source,
        "target": one.target,
        "title": one.title,
        "author": one.author,
        "time": one.time,
    }


def _text(one: MergeRequest, told: dict[str, Any]) -> str:
    """A request for people to read."""
    lines = [
        f"{one.number}  {one.title} ({one.state})",
        f"{one.source} into {one.target}, asked for by {one.author}",
    ]
    if one.description:
        lines += ["", one.description]
    counted = [
        f"{row['table']}: {row['inserted']} inserted, {row['updated']} updated, "
        f"{row['deleted']} deleted"
        for row in told["changes"]
    ]
    lines += [""] * bool(counted) + counted
    said = [
        f"{note.author} {note.kind}s{': ' + note.text if note.text else ''}" for note in one.notes
    ]
    lines += [""] * bool(said) + said
    problems = [f"not yet: {problem}" for problem in told["problems"]]
    return "\n".join([*lines, *([""] * bool(problems)), *problems])
