"""Rows that are written: how a request says them, and on which head."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError

from livingdb.errors import InvalidData, TransactionConflict
from livingdb.server.http.failures import Refusal
from livingdb.server.http.json_values import rows_to_tabular
from livingdb.server.http.models import Asked

if TYPE_CHECKING:
    from livingdb import Branch, Snapshot
    from livingdb.tables.tabular import Tabular

__all__ = ["Operation", "RowWrite", "Rows", "read_rows_body"]

Operation = Literal["insert", "upsert", "update", "delete"]
_SNAPSHOT = re.compile(r'"?([0-9a-f]{64})"?')


class Rows(Asked):
    """Rows to write, each an object of some of the table's columns."""

    rows: list[dict[str, Any]] = Field(examples=[[{"id": 42, "city": "Oslo", "amount": "9.50"}]])


def read_rows_body(body: bytes, schema: pa.Schema) -> Tabular:
    """The rows of a body in JSON, as values of a table's columns."""
    try:
        given = Rows.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidData(f"body {where}: {first['msg']}") from None
    return rows_to_tabular(given.rows, schema)


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
