"""Parameters that several tools have, with what agents are told of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

if TYPE_CHECKING:
    from livingdb.database.table import Table

__all__ = ["Key", "Message", "Ref", "Rows", "TableName", "key_values"]

Ref = Annotated[
    str | None,
    Field(
        description="Where to look: a branch, a tag, a snapshot id (or its first 6 digits or "
        "more), 'main~3' or 'main@2026-11-15T10:00:00' (UTC). Left out: your own branch, if you "
        "have begun to work, or else the default branch."
    ),
]
TableName = Annotated[str, Field(description="The name of the table, as list_tables tells it.")]
Key = Annotated[
    Any,
    Field(
        description='The key of one row: a value (42 or "Oslo"), or for several key columns a '
        'list in their order (["Oslo", 42]) or an object by their names.'
    ),
]
Rows = Annotated[
    int | None,
    Field(
        description="How many rows to tell at most. Left out: as many as one answer holds.", ge=1
    ),
]
Message = Annotated[
    str,
    Field(
        description="What is changed and why, in a line for people: it stands in the log for good.",
        min_length=1,
        max_length=500,
    ),
]


def key_values(table: Table, key: Any) -> tuple[Any, ...]:
    """The values of the key columns; `InvalidData` says which part does not fit."""
    from livingdb.cli.keys import key_of

    return key_of(table, json.dumps(key))
