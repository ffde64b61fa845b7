"""`livingdb revert` and `livingdb cherry-pick`: what one snapshot changed, undone or done again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from livingdb.cli.commands.merge import Granularity, tell_conflict
from livingdb.cli.complete import refs
from livingdb.cli.conflict_policy import OnConflict, conflict_policy
from livingdb.cli.exits import DIFFERS
from livingdb.cli.open_database import Message, Settings
from livingdb.errors import MergeConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from livingdb import Branch, Snapshot

__all__ = ["cherry_pick", "revert"]

Ref = Annotated[str, typer.Argument(help="The snapshot.", autocompletion=refs)]
Level = Annotated[Granularity, typer.Option("--granularity", help="What may not be changed since.")]


def revert(
    context: typer.Context,
    ref: Ref,
    on_conflict: OnConflict = None,
    granularity: Level = Granularity.row,
    message: Message = "",
) -> None:
    """Undo what one snapshot changed, in a new one; ends with 1 if it was changed since.

    \b
    Example:
      livingdb revert main~1
      livingdb revert 4f2a9c1e --on-conflict theirs -m "not that one"
    """
    policy = conflict_policy(on_conflict or [])
    _replay(
        context,
        lambda branch: branch.revert(
            ref, on_conflict=policy, granularity=granularity.value, message=message
        ),
        "reverted",
    )


def cherry_pick(
    context: typer.Context,
    ref: Ref,
    on_conflict: OnConflict = None,
    granularity: Level = Granularity.row,
    message: Message = "",
) -> None:
    """Make the changes of one snapshot on a branch; ends with 1 if both changed the same.

    \b
    Example:
      livingdb cherry-pick dev
      livingdb --branch audit cherry-pick dev~2 --on-conflict orders=theirs
    """
    policy = conflict_policy(on_conflict or [])
    _replay(
        context,
        lambda branch: branch.cherry_pick(
            ref, on_conflict=policy, granularity=granularity.value, message=message
        ),
        "picked",
    )


def _replay(context: typer.Context, make: Callable[[Branch], Snapshot], done: str) -> None:
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        branch = settings.open_branch(db)
        try:
            made = make(branch)
        except MergeConflict as conflict:
            tell_conflict(output, branch.name, conflict, f"nothing was {done}")
            raise typer.Exit(DIFFERS) from None
        told = {"snapshot": made.id, "branch": branch.name, "message": made.message}
        output.write_record(told, f"{branch.name} stands on {made.id[:12]}: {made.message or done}")
