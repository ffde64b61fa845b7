"""What a plan is made of: inputs, prepared queries, stages, and how a stage reads its world."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.request import Source
from livingdb.tables.free_names import inner_name

if TYPE_CHECKING:
    from livingdb.derivation.arrays.kept_rows import KeptRows
    from livingdb.derivation.keyed_change import KeyedChange, TouchedGroups

__all__ = [
    "WEIGHT",
    "Ask",
    "Input",
    "NeedsFull",
    "Plan",
    "Relation",
    "Relations",
    "Side",
    "Stage",
    "Unplannable",
]

WEIGHT = inner_name("_weight")

Side: TypeAlias = Literal["old", "new"]
Relation: TypeAlias = Source | pa.Table


class NeedsFull(Exception):
    """A change that only a full recomputation can follow; says why by a code."""

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


class Unplannable(Exception):
    """A query, or a part of one, that cannot be maintained; says why by a code."""

    def __init__(self, code: str):
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Input:
    """A table that a query may read; without a key it is a bag of rows."""

    schema: pa.Schema
    key: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class Ask:
    """A query prepared when the plan was made, over relations by their names in it."""

    query: exp.Query
    relations: tuple[str, ...]


class Relations(Protocol):
    """How a stage reads tables and earlier stages, before and after a change."""

    def delta(self, name: str) -> pa.Table:
        """The weighted rows that go and come; empty if nothing changed."""
        ...

    def source(self, name: str, side: Side) -> Relation:
        """All rows."""
        ...

    def matching_rows(self, name: str, side: Side, values: pa.Table) -> pa.Table:
        """The rows that hold one of the rows of `values`; null is null here."""
        ...

    def kept_rows(self, name: str, wanted: int) -> KeptRows | None:
        """All rows of a table that did not change, to look so many up in them by its key.

        None if it changed, or is not in memory.
        """
        ...

    def findings(self, name: str) -> dict[object, Any]:
        """What is known about the rows of `delta`; who finds out more adds to it."""
        ...

    def touched_groups(self, keys: pa.Table) -> TouchedGroups:
        """The groups of rows with these keys, and what the stage that is maintained holds of them.

        Keys may be there several times.
        """
        ...

    def by_key(self, rows: pa.Table) -> KeyedChange | None:
        """Weighted rows of the stage that is maintained, by its key; None if it has none.

        None as well if several rows have a key, or values are equal that are not the same.
        """
        ...

    def keyed_delta(self, name: str) -> KeyedChange | None:
        """What changed in an earlier stage, where it is known by key."""
        ...

    def held_rows(self, keys: pa.Table | None) -> pa.Table:
        """The old rows with these keys, or all of them, of the stage that is maintained."""
        ...

    def answer(self, ask: Ask, relations: Mapping[str, Relation]) -> pa.Table:
        """The rows a prepared query gives over these relations."""
        ...


@dataclass(frozen=True, eq=False)
class Stage:
    """One result that is stored: a hidden one, or the view itself, whose name is empty."""

    name: str
    ask: Ask
    key: tuple[str, ...] | None
    reads: tuple[str, ...]
    strategy: str
    reason: str | None
    columns_used: Mapping[str, frozenset[str]]
    work: Callable[[Relations], pa.Table | KeyedChange] | None = field(repr=False)

    def maintain(self, relations: Relations) -> pa.Table:
        """The rows that go and come, each with its weight; raises `NeedsFull`."""
        found = self.change(relations)
        return found if isinstance(found, pa.Table) else found.weighted_rows

    def change(self, relations: Relations) -> pa.Table | KeyedChange:
        """The same; by key where that is known."""
        if self.work is None:
            raise NeedsFull(self.reason or "UNSUPPORTED")
        return self.work(relations)


@dataclass(frozen=True, eq=False)
class Plan:
    """How a view is maintained: its stages in order, the view last.

    `notes` say of each construct, in reading order, how it is maintained and if fully, why.
    """

    stages: tuple[Stage, ...]
    notes: tuple[tuple[str, str, str | None], ...]

    @property
    def is_incremental(self) -> bool:
        """Whether the view itself is maintained without full recomputation."""
        return self.stages[-1].strategy != "full"

    @property
    def reason(self) -> str | None:
        """The code that says why the view is recomputed in full."""
        return self.stages[-1].reason
