"""Blocks that can only be stored: what changes in them is told from the rows that are held."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.keyed_change import KeyedChange
from livingdb.derivation.operators.node import Leaf, Node, Run
from livingdb.derivation.plan import WEIGHT, Ask
from livingdb.derivation.weighted_rows import consolidate

__all__ = ["StoredNode"]


class StoredNode(ABC):
    """A block over one input that is a stage of its own; `is_global`: it has one row, always."""

    node: Node
    key: tuple[str, ...] | None
    columns: tuple[str, ...]
    types: Mapping[str, pa.DataType | None]
    strategy: str
    is_global = False

    @abstractmethod
    def full_query(self) -> exp.Query:
        """The whole answer."""

    @abstractmethod
    def delta(self, run: Run) -> pa.Table:
        """The weighted rows that go and come."""

    def change(self, run: Run) -> pa.Table | KeyedChange:
        """The same; by key where that is known."""
        return self.delta(run)

    def empty_delta(self) -> pa.Table:
        """No weighted rows."""
        return self._no_rows

    @cached_property
    def _no_rows(self) -> pa.Table:
        fields = [(name, self.types.get(name) or pa.null()) for name in self.columns]
        return pa.schema([*fields, (WEIGHT, pa.int64())]).empty_table()

    def input_delta(self, run: Run) -> pa.Table:
        """What changed in the input, each row once."""
        delta = run.delta(self.node)
        return consolidate(delta.select([*self.node.columns, WEIGHT])) if delta.num_rows else delta

    @cached_property
    def _whole(self) -> Ask:
        leaves = [part.name for part in self.node.parts() if isinstance(part, Leaf)]
        return Ask(self.full_query(), tuple(dict.fromkeys(leaves)))

    def answer_in_full(self, run: Run) -> pa.Table:
        """All rows as they are now, by one query over the tables and stages below."""
        sources = {name: run.relations.source(name, "new") for name in self._whole.relations}
        return run.relations.answer(self._whole, sources)
