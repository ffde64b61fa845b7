"""CREATE INDEX and DROP INDEX: names are taken in any case.

What a table has unique is found by an index, too, and is dropped as one by the constraint's name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.errors import AlreadyExists, NotFound
from livingdb.evolution.changes.uniques import DropUnique
from livingdb.sql.index_statements import IndexStatement
from livingdb.tables.letter_case import check_clear, find_alike

if TYPE_CHECKING:
    from livingdb.database.branch import Branch

__all__ = ["define_index"]


def define_index(branch: Branch, statement: IndexStatement) -> None:
    """Make or drop an index of a table of a branch."""
    table = statement.table and _own_name("table", statement.table, branch.tables())
    try:
        if statement.is_drop:
            assert statement.name is not None
            constraint = _unique_constraint(branch, table, statement.name)
            if table is not None and constraint is not None:
                branch.evolve(DropUnique(table, name=constraint))
            else:
                branch.drop_index(statement.name, table)
            return
        assert table is not None
        names = branch.table(table).schema.names
        columns = [_own_name("column", name, names) for name in statement.columns]
        branch.create_index(table, columns, name=statement.name)
    except (AlreadyExists, NotFound) as error:
        expected = NotFound if statement.is_drop else AlreadyExists
        if not (statement.is_lenient and isinstance(error, expected)):
            raise


def _unique_constraint(branch: Branch, table: str | None, name: str) -> str | None:
    """The unique constraint of a table that is called so."""
    if table is None or table not in branch.tables():
        return None
    alike = find_alike(name, branch.table(table).unique)
    return alike[0] if alike else None


def _own_name(what: str, name: str, known: list[str]) -> str:
    """What a thing is called itself; the name as it is, if there is none."""
    if name in known:
        return name
    check_clear(what, name, known)
    alike = find_alike(name, known)
    return alike[0] if alike else name
