"""`livingdb tag`: list, make and drop tags."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.complete import refs, tags
from livingdb.cli.open_database import Settings

__all__ = ["tag"]

tag = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="""List, make and drop tags: names of snapshots that stay.

    \b
    Example:
      livingdb tag
      livingdb tag create v1
      livingdb tag create before-audit main~3
      livingdb tag drop v1
    """,
)
_COLUMNS = ("tag", "snapshot", "time", "author", "message")


@tag.callback()
def default(context: typer.Context) -> None:
    """List the tags unless another thing is asked for."""
    if context.invoked_subcommand is None:
        list_tags(context)


@tag.command("list")
def list_tags(context: typer.Context) -> None:
    """Every tag and its snapshot.

    \b
    Example:
      livingdb tag list
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = [
            {
                "tag": name,
                "snapshot": each.id,
                "time": each.time,
                "author": each.author,
                "message": each.message,
            }
            for name, each in db.tags().items()
        ]
        settings.output().write_list(_COLUMNS, rows, ("snapshot",), "there are no tags")


@tag.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The new tag.")],
    ref: Annotated[
        str | None, typer.Argument(help="What it names.  [default: --branch]", autocompletion=refs)
    ] = None,
) -> None:
    """Give a snapshot a name that stays.

    \b
    Example:
      livingdb tag create v1 main
    """
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.tag(name, settings.branch_name(db) if ref is None else ref)
        told = {"tag": name, "snapshot": found.id}
        settings.output().write_record(told, f"{name} names {found.id[:12]}")


@tag.command()
def drop(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="The tag.", autocompletion=tags)],
) -> None:
    """Forget a tag.

    \b
    Example:
      livingdb tag drop v1
    """
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.tags().get(name)
        db.drop_tag(name)
        told = {"tag": name, "snapshot": None if found is None else found.id}
        settings.output().write_record(told, f"dropped {name}")
