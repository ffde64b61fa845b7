"""`livingdb provenance`: what made a snapshot, from what and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import refs
from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from livingdb.tracing.provenance.provenance import Node

__all__ = ["provenance"]

_COLUMNS = ("depth", "role", "snapshot", "kind", "operation", "author", "time", "message")


def provenance(
    context: typer.Context,
    ref: Annotated[
        str | None,
        typer.Argument(help="What to explain.  [default: --branch]", autocompletion=refs),
    ] = None,
    depth: Annotated[
        int | None, typer.Option("--depth", min=0, help="How far down.  [default: all of it]")
    ] = None,
) -> None:
    """What made a snapshot, as one tree down to the transactions.

    \b
    Example:
      livingdb provenance totals
      livingdb provenance main~3 --depth 2
      livingdb -o json provenance totals
    """
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        found = db.provenance(settings.branch_name(db) if ref is None else ref)
        if output.is_text:
            output.say(found.to_text(depth, None))
            return
        if output.kind == "json":
            output.write_record(_cut(found.to_dict(), depth))
            return
        output.write_list(_COLUMNS, list(_rows(found.root, 0, depth)))


def _cut(node: dict[str, Any], depth: int | None) -> dict[str, Any]:
    """The tree down to a depth."""
    if depth is None or "children" not in node:
        return node
    below = [_cut(child, depth - 1) for child in node["children"]] if depth > 0 else []
    return {**node, "children": below}


def _rows(node: Node, at: int, depth: int | None) -> list[dict[str, Any]]:
    """The nodes as they are read, each with how far down it is."""
    own = {name: getattr(node, name) for name in _COLUMNS if name != "depth"}
    rows = [{"depth": at, **own}]
    if depth is None or at < depth:
        for child in node.children:
            rows += _rows(child, at + 1, depth)
    return rows
