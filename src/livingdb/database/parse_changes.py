"""Schema changes as users write them down: statements of SQL, or JSON."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from livingdb.errors import Corruption, InvalidData

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.evolution import SchemaChange

__all__ = ["parse_changes"]


def parse_changes(
    branch: Branch, given: Sequence[str | Mapping[str, Any]]
) -> tuple[list[SchemaChange], dict[str, Any]]:
    """The changes, and what the statements among them say about the sync.

    Each is a statement that changes a schema, or an object with `change`, also as a text in JSON.
    """
    found: list[SchemaChange] = []
    options: dict[str, Any] = {}
    for one in given:
        if not isinstance(one, str):
            found.append(_change_of(one))
        elif one.lstrip()[:1] in ("[", "{"):
            found += _changes_from_json(one)
        else:
            changes, said = _changes_from_sql(branch, found, one)
            found += changes
            options |= said
    return found, options


def _changes_from_json(text: str) -> list[SchemaChange]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidData(f"the changes are no JSON: {error}") from None
    return [_change_of(item) for item in (given if isinstance(given, list) else [given])]


def _change_of(item: Any) -> SchemaChange:
    from livingdb.evolution import SchemaChange

    if not isinstance(item, Mapping) or "change" not in item:
        raise InvalidData('a change in JSON is an object: {"change": "DropColumn", …}')
    kind = str(item["change"])
    try:
        return SchemaChange.from_json(item)
    except Corruption as error:
        near = difflib.get_close_matches(kind, SchemaChange.kinds, 1)
        hint = f"; did you mean {near[0]!r}?" if near and kind not in SchemaChange.kinds else ""
        called = re.match(r"\w+\.__init__\(\) (.*)", str(error.__context__))
        said = f"{kind}: {called[1]}" if called else f"{error}{hint}"
        raise InvalidData(said) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidData(f"{kind}: {error}") from None


def _changes_from_sql(
    branch: Branch, before: list[SchemaChange], text: str
) -> tuple[list[SchemaChange], dict[str, Any]]:
    """What a statement changes after other changes, and what it says about the sync."""
    from livingdb.evolution.plan import definitions_of, plan_changes
    from livingdb.evolution.schema_statement import changes_of
    from livingdb.graph.graph import tables_of
    from livingdb.sql.parse import is_definition
    from livingdb.sql.table_statements import parse_schema_statement

    if not is_definition(text):
        raise InvalidData("a schema is changed by ALTER, CREATE or DROP TABLE")
    statement = parse_schema_statement(text)
    graph = branch._graph
    tables = definitions_of(graph, tables_of(graph, branch._head()))
    if before:
        tables = dict(plan_changes(tables, before).tables)
    changes = changes_of(statement, tables)
    return changes, dict(statement.options) if changes else {}
