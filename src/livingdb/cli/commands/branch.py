"""`livingdb branch`: list, make, rename, drop and move branches."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.complete import branches, refs
from livingdb.cli.open_database import Message, Settings

__all__ = ["branch"]

branch = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="""List, make, rename, drop and move branches.

    \b
    Example:
      livingdb branch
      livingdb branch create dev
      livingdb branch create audit main~3
      livingdb branch reset dev main
      livingdb branch rename dev trial
      livingdb branch default trial
      livingdb branch drop dev
    """,
)
Name = Annotated[str, typer.Argument(help="The branch.", autocompletion=branches)]
_COLUMNS = ("branch", "head", "time", "author", "message", "tables")


@branch.callback()
def default(context: typer.Context) -> None:
    """List the branches unless another thing is asked for."""
    if context.invoked_subcommand is None:
        list_branches(context)


@branch.command("list")
def list_branches(context: typer.Context) -> None:
    """Every branch and where it stands.

    \b
    Example:
      livingdb branch list
    """
    settings = Settings.of(context)
    with settings.open() as db:
        from livingdb.cli.snapshot_rows import branch_row

        rows = [branch_row(each) for each in db.branches()]
        settings.output().write_list(_COLUMNS, rows, ("head",))


@branch.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new branch.")],
    ref: Annotated[
        str | None,
        typer.Argument(help="Where it begins.  [default: --branch]", autocompletion=refs),
    ] = None,
    derived: Annotated[
        bool, typer.Option("--derived", help="Derive on it, too, what is derived on the other.")
    ] = False,
    message: Message = "",
) -> None:
    """Make a branch; nothing is copied.

    \b
    Example:
      livingdb branch create dev
      livingdb branch create audit main@2026-11-15T10:00:00 -m "for the auditors"
      livingdb branch create trial main~3 --derived
    """
    settings = Settings.of(context)
    with settings.open() as db:
        begin = settings.branch_name(db) if ref is None else ref
        if begin in db.branches():
            made = db.branch(begin).clone(name, derived=derived, message=message)
        else:
            made = db.at(begin).clone(name, derived=derived, message=message)
        _tell(settings, made.name, made.head.id, f"{made.name} stands on {made.head.id[:12]}")


@branch.command()
def drop(
    context: typer.Context,
    name: Name,
    detach: Annotated[
        bool, typer.Option("--detach", help="Let those it is in a sync with go their own ways.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also if it is the default branch.")
    ] = False,
) -> None:
    """Forget a branch; its snapshots stay reachable by id.

    \b
    Example:
      livingdb branch drop dev
    """
    settings = Settings.of(context)
    with settings.open() as db:
        head = db.branch(name).head.id
        db.drop_branch(name, detach=detach, force=force)
        _tell(settings, name, head, f"dropped {name}, which stood on {head[:12]}")


@branch.command()
def rename(
    context: typer.Context,
    name: Name,
    to: Annotated[str, typer.Argument(help="What it shall be called.")],
) -> None:
    """Give a branch another name; what follows it or reads it goes on.

    \b
    Example:
      livingdb branch rename dev trial
    """
    settings = Settings.of(context)
    with settings.open() as db:
        renamed = db.rename_branch(name, to)
        head = renamed.head.id
        _tell(settings, renamed.name, head, f"{name} is called {renamed.name} now")


@branch.command("default")
def default_branch(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(help="The branch to be it; without, say which is.", autocompletion=branches),
    ] = None,
) -> None:
    """Say or choose the branch that is meant where none is named.

    \b
    Example:
      livingdb branch default
      livingdb branch default dev
    """
    settings = Settings.of(context)
    with settings.open() as db:
        if name is not None:
            db.set_default_branch(name)
        found = db.default_branch
        _tell(settings, found.name, found.head.id, f"{found.name} is the default branch")


@branch.command()
def reset(
    context: typer.Context,
    name: Name,
    ref: Annotated[str, typer.Argument(help="Where it shall stand.", autocompletion=refs)],
) -> None:
    """Move a branch to any snapshot; what it leaves stays reachable by id and time.

    \b
    Example:
      livingdb branch reset main main~1
    """
    settings = Settings.of(context)
    with settings.open() as db:
        head = db.branch(name).reset(ref).id
        _tell(settings, name, head, f"{name} stands on {head[:12]}")


@branch.command()
def protect(
    context: typer.Context,
    name: Name,
    off: Annotated[bool, typer.Option("--off", help="Let it be written as any other.")] = False,
) -> None:
    """Let a branch take merges only, from those who use a server.

    \b
    Example:
      livingdb branch protect main
    """
    settings = Settings.of(context)
    with settings.open() as db:
        db.protect(name, merge_only=not off)
        text = f"{name} is written as any other" if off else f"{name} takes merges only"
        _tell(settings, name, db.branch(name).head.id, text)


def _tell(settings: Settings, name: str, head: str, text: str) -> None:
    settings.output().write_record({"branch": name, "head": head}, text)
