"""What a policy about conflicts names, under the names that tables and columns have in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from livingdb.errors import InvalidData
from livingdb.evolution.schema_change import Schemas
from livingdb.evolution.schema_elements import table_key

__all__ = ["policies_after"]

_Element = tuple[str, str | None]
"""A table by its key, and a column of it by its id."""


def policies_after(on_conflict: Any, before: Sequence[Schemas], after: Schemas) -> Any:
    """A policy by the names of `after`; it may say those that a side of the merge has.

    A name that is in `after` means what has it there.  What a side has and `after` has not has no
    rows that could be in conflict.
    """
    if not isinstance(on_conflict, Mapping):
        return on_conflict
    names = {element: name for name, element in _elements(after).items()}
    known = [_elements(schemas) for schemas in before]
    found: dict[str, Any] = {}
    later: dict[str, Any] = {}
    for name, policy in on_conflict.items():
        elements = {side[name] for side in known if name in side}
        if name == "*" or name in names.values() or not elements:
            found[name] = policy
            continue
        renamed = sorted(names[element] for element in elements if element in names)
        if len(renamed) > 1:
            raise InvalidData(
                f"on_conflict names {name!r}, which one side has as {renamed[0]!r} and the other "
                f"as {renamed[1]!r}: say which"
            )
        later |= dict.fromkeys(renamed, policy)
    return {**later, **found}


def _elements(schemas: Schemas) -> dict[str, _Element]:
    """Tables and columns by the names that policies give them."""
    found: dict[str, _Element] = {}
    for name, definition in schemas.items():
        key = table_key(name, definition)
        found[name] = key, None
        for column in definition.schema.columns:
            found[f"{name}.{column.name}"] = key, column.id or column.name
    return found
