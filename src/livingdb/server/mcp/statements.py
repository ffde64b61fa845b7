"""Which SQL an agent may say on its branch: changes of rows, and of the branch's own schema.

What reaches further (branches, tags, views, syncs, merges) is refused by name, with what to do
instead.
"""

from __future__ import annotations

from enum import Enum

from sqlglot import exp

from livingdb.errors import Forbidden, InvalidData
from livingdb.sql.create_table_as import parse_create_table_as
from livingdb.sql.database_statements import SESSION_ACTIONS, parse_database_statement
from livingdb.sql.parse import is_definition, parse_statement
from livingdb.sql.show_statements import parse_show_statement
from livingdb.sql.table_statements import parse_schema_statement, without_sync
from livingdb.sql.view_statements import parse_view_statement

__all__ = ["ChangeKind", "change_kind"]

_QUERY = "this reads and changes nothing: the tool `query` answers it"
_INSTEAD = {
    "CREATE BRANCH": "`start_work` makes the one branch that is yours",
    "MERGE BRANCH": "`request_merge` asks people to merge your branch",
    "CREATE MERGE REQUEST": "`request_merge` does that",
    "COMMENT REQUEST": "`comment_merge_request` does that",
}
_PEOPLE = "people do this"


class ChangeKind(Enum):
    """What a statement changes."""

    ROWS = "rows"
    SCHEMA = "schema"


def change_kind(text: str) -> ChangeKind:
    """What a statement changes; `Forbidden` for one that reaches further than a branch's tables."""
    asked = parse_database_statement(text)
    if asked is not None:
        if asked.action in SESSION_ACTIONS:
            raise Forbidden(
                f"{asked.action} is not needed: the statements of one call are one transaction, on "
                "your branch"
            )
        raise Forbidden(f"{asked.action} is not for agents: {_INSTEAD.get(asked.action, _PEOPLE)}")
    if parse_create_table_as(text) is not None:
        return ChangeKind.ROWS
    if is_definition(text):
        _check_definition(text)
        return ChangeKind.SCHEMA
    if _is_query(text):
        raise InvalidData(_QUERY)
    _check_target(parse_statement(text))
    return ChangeKind.ROWS


def _is_query(text: str) -> bool:
    if parse_show_statement(text) is not None:
        return True
    return isinstance(parse_statement(text), (exp.Query, exp.Values))


def _check_target(tree: exp.Expr) -> None:
    table = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if isinstance(table, exp.Table) and table.db:
        raise Forbidden(
            f"{table.sql('spark')}: an agent writes its own branch alone; name the table without a "
            "branch, and it is the one of yours"
        )


def _check_definition(text: str) -> None:
    rest, options = without_sync(text)
    if parse_view_statement(rest, options) is not None:
        raise Forbidden(
            "views are not for agents: each is a branch of its own name; propose the query in the "
            "description of a merge request"
        )
    said = parse_schema_statement(text).options
    if said:
        words = " and ".join(sorted(name.upper() for name in said))
        raise Forbidden(
            f"{words}: an agent makes no other branch and no sync; change the schema of your own "
            "branch, and say in the merge request what is to be kept"
        )
