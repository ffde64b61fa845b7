"""Names for the shell to complete: branches, tables, syncs, of the database on the line.

Whatever goes wrong, there is nothing to complete: a shell is no place for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from livingdb import Database

__all__ = ["branches", "derived_objects", "refs", "syncs", "tables", "tags"]


def branches(context: typer.Context, incomplete: str) -> list[str]:
    """Branches that begin so."""
    return _matching_names(context, incomplete, lambda db, _: map(str, db.branches()))


def tags(context: typer.Context, incomplete: str) -> list[str]:
    """Tags that begin so."""
    return _matching_names(context, incomplete, lambda db, _: db.tags())


def refs(context: typer.Context, incomplete: str) -> list[str]:
    """Branches and tags that begin so."""
    return _matching_names(
        context, incomplete, lambda db, _: [*map(str, db.branches()), *db.tags()]
    )


def tables(context: typer.Context, incomplete: str) -> list[str]:
    """Tables of the branch on the line that begin so."""
    return _matching_names(context, incomplete, lambda db, branch: db.branch(branch).tables())


def syncs(context: typer.Context, incomplete: str) -> list[str]:
    """Targets of syncs that begin so."""
    return _matching_names(context, incomplete, lambda db, _: [sync.target for sync in db.syncs()])


def derived_objects(context: typer.Context, incomplete: str) -> list[str]:
    """Derived objects that begin so."""

    def names(db: Database, _: str) -> Iterable[str]:
        return [sync.target for sync in db.syncs() if sync.kind == "derive"]

    return _matching_names(context, incomplete, names)


def _matching_names(
    context: typer.Context,
    incomplete: str,
    names: Callable[[Database, str], Iterable[str]],
) -> list[str]:
    given: dict[str, Any] = context.find_root().params
    try:
        import livingdb

        with livingdb.open(given["db"]) as db:
            found = names(db, given.get("branch") or db.default_branch.name)
            return sorted({name for name in found if name.startswith(incomplete)})
    except Exception:
        return []
