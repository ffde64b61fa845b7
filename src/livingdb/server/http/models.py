"""What several operations take and give."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from livingdb.server.http.json_values import plain_value

if TYPE_CHECKING:
    from livingdb import Snapshot

__all__ = [
    "Answer",
    "Asked",
    "ColumnInfo",
    "Done",
    "Granularity",
    "OnConflict",
    "Page",
    "RoleName",
    "RowsAnswer",
    "SnapshotInfo",
    "snapshot_info",
]

OnConflict = Literal["fail", "ours", "theirs"] | dict[str, Literal["fail", "ours", "theirs"]]
"""Who wins what both sides changed: one word for everything, or one for each table or column."""
Granularity = Literal["row", "cell"]
RoleName = Literal["reader", "writer", "maintainer", "owner"]


class Asked(BaseModel):
    """The body of a request; what it says that no operation knows is refused by name."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """The body of an answer."""


class Done(Answer):
    """It was done, and there is nothing more to say."""

    done: bool = True


class SnapshotInfo(Answer):
    """An immutable state of the whole database."""

    id: str = Field(description="Its address.", examples=["9f2c…"])
    time: datetime
    author: str
    message: str
    kind: str = Field(description="What made it: transaction, merge, schema_change, …")
    operation: str
    parents: list[str]
    sources: dict[str, str] = Field(description="What it was made from beside its parents.")
    metrics: dict[str, Any] = Field(description="What a model's function reported; else empty.")
    refresh: dict[str, Any] = Field(
        description="How a view was refreshed: strategy, rows, engine, reason; else empty."
    )


def _refresh(details: Mapping[str, Any]) -> dict[str, Any]:
    """How a derived object was refreshed, of what its edge remembers."""
    told = ("strategy", "reason", "rows", "engine") if "strategy" in details else ()
    return {name: details[name] for name in told if name in details}


def snapshot_info(snapshot: Snapshot) -> SnapshotInfo:
    """What is told of a snapshot."""
    edge = snapshot.edge
    return SnapshotInfo(
        id=snapshot.id,
        time=snapshot.time,
        author=snapshot.author,
        message=snapshot.message,
        kind=edge.kind,
        operation=edge.operation,
        parents=list(snapshot.parents),
        sources=snapshot.sources,
        metrics=plain_value(snapshot.metrics),
        refresh=_refresh(edge.details),
    )


class ColumnInfo(Answer):
    """A column, in the words of SQL."""

    name: str = Field(examples=["amount"])
    type: str = Field(examples=["decimal(10,2)"])
    nullable: bool


class RowsAnswer(Answer):
    """Rows, each an object of its columns' values; see the rules for values in JSON."""

    columns: list[ColumnInfo]
    rows: list[dict[str, Any]]


class Page(RowsAnswer):
    """A page of rows, all of one snapshot."""

    snapshot: str
    next: str | None = Field(
        description="What `after` of the next request says; null after the last page."
    )
