"""Rows that are written: how a request says them, and on which head."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError

from livingdb.errors import InvalidData, TransactionConflict
from livingdb.server.http.answers import ARROW, read_arrow
from livingdb.server.http.failures import Refusal
from livingdb.server.http.json_body import read_json
from livingdb.server.http.json_values import rows_to_tabular
from livingdb.server.http.models import Asked

if TYPE_CHECKING:
    from livingdb import Branch, Snapshot
    from livingdb.tables.tabular import Tabular

__all__ = ["ROWS_BODY", "Operation", "RowWrite", "Rows", "read_rows_body", "rows_kind"]

Operation = Literal["insert", "upsert", "update", "delete"]
_SNAPSHOT = re.compile(r'"?([0-9a-f]{64})"?')


class Rows(Asked):
    """Rows to write, each an object of some of the table's columns."""

    rows: list[dict[str, Any]] = Field(examples=[[{"id": 42, "city": "Oslo", "amount": "9.50"}]])


ROWS_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Rows"}},
            ARROW: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
"""How the document tells of a body with rows."""


def rows_kind(content_type: str) -> str:
    """Which of the two forms a body with rows has; a `Refusal` if it is of another type."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (ARROW, "application/json"):
        raise Refusal(415, "unsupported_media_type", f"rows come as application/json or {ARROW}")
    return kind


def read_rows_body(
    body: bytearray, kind: str, schema: Callable[[], pa.Schema]
) -> pa.Table | Tabular:
    """The rows of a body; those in JSON as values of the columns of a table's `schema`."""
    if kind == ARROW:
        return read_arrow(body)
    table_schema = schema()
    try:
        given = Rows.model_validate(read_json(body))
    except ValueError as error:
        if not isinstance(error, ValidationError):
            raise InvalidData(f"the body is no JSON: {error}") from None

        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidData(f"body {where}: {first['msg']}") from None
    return rows_to_tabular(given.rows, table_schema)


@dataclass(frozen=True)
class RowWrite:
    """What is done with rows; `if_match` names the snapshot that the branch has to stand on."""

    operation: Operation
    table: str
    message: str = ""
    strict: bool = False
    if_match: str | None = None

    def make(self, branch: Branch, rows: Any) -> Snapshot:
        """Write rows in one transaction; a `Refusal` if the branch is not where it has to be."""
        if self.strict and self.operation != "delete":
            raise InvalidData("strict= is for deletes")
        options = {"strict": self.strict} if self.operation == "delete" else {}
        if self.if_match is None or self.if_match.strip() == "*":
            write = getattr(branch, self.operation)
            made: Snapshot = write(self.table, rows, message=self.message, **options)
            return made
        seen = _SNAPSHOT.fullmatch(self.if_match.strip())
        if seen is None or branch.head.id != seen[1]:
            raise _moved(branch.name)
        try:
            with branch.transaction(self.message, at=f"id:{seen[1]}") as tx:
                getattr(tx, self.operation)(self.table, rows, **options)
        except TransactionConflict:
            raise _moved(branch.name) from None
        assert tx.snapshot is not None
        return tx.snapshot


def _moved(branch: str) -> Refusal:
    said = f"the branch {branch!r} is not where If-Match says, or was not any more at the commit"
    return Refusal(412, "precondition_failed", said)
