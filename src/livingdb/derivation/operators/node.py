"""Nodes: the blocks of a query, each able to say what changed in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.plan import WEIGHT, NeedsFull, Relation, Relations, Side
from livingdb.engines.request import Source
from livingdb.tables.rows import RowSet

__all__ = ["Leaf", "Node", "Run", "in_memory_rows", "is_empty"]

Types = Mapping[str, "pa.DataType | None"]


@dataclass
class Run:
    """One maintenance of one stage; remembers the deltas it made."""

    relations: Relations
    _deltas: dict[int, pa.Table] = field(default_factory=dict)

    def delta(self, node: Node) -> pa.Table:
        """The weighted rows of a node."""
        found = self._deltas.get(id(node))
        if found is None:
            found = self._deltas[id(node)] = node.delta(self)
        return found


class Node(ABC):
    """A block of a query.

    `key` are columns that identify a row (none: there is at most one row), `required` those
    that are never null, `constants` the leaves its expressions read single values from.
    """

    columns: tuple[str, ...]
    types: Types
    key: tuple[str, ...] | None
    required: frozenset[str]
    strategy: str
    constants: Mapping[str, Leaf]

    @abstractmethod
    def inputs(self) -> Mapping[str, Node]:
        """The nodes it reads, by the names of relations in its queries."""

    @abstractmethod
    def used_columns(self, name: str) -> tuple[str, ...]:
        """The columns it uses of one of its inputs."""

    @abstractmethod
    def full_query(self) -> exp.Query:
        """Its whole answer, as a query over tables and stages."""

    @abstractmethod
    def delta(self, run: Run) -> pa.Table:
        """The weighted rows that go and come; `Run.delta` remembers them."""

    @abstractmethod
    def semi_join(self, run: Run, side: Side, values: pa.Table) -> pa.Table:
        """Exactly the rows that hold one of the rows of `values` in the columns these have."""

    @abstractmethod
    def all_rows(self, run: Run, side: Side) -> Relation:
        """All rows."""

    def empty_delta(self) -> pa.Table:
        """No weighted rows."""
        return self._no_rows

    @cached_property
    def _no_rows(self) -> pa.Table:
        fields = [(name, self.types.get(name) or pa.null()) for name in self.columns]
        return pa.schema([*fields, (WEIGHT, pa.int64())]).empty_table()

    def check_constants(self, run: Run) -> None:
        """`NeedsFull` if a single value that the block depends on changed."""
        for leaf in self.constants.values():
            if run.delta(leaf).num_rows:
                raise NeedsFull("SCALAR_SUBQUERY_CHANGED")

    def constant_rows(self, run: Run, side: Side) -> dict[str, Relation]:
        """The relations single values are read from."""
        return {name: leaf.all_rows(run, side) for name, leaf in self.constants.items()}

    def parts(self) -> Iterator[Node]:
        """The node and all nodes below it."""
        yield self
        for node in (*self.inputs().values(), *self.constants.values()):
            yield from node.parts()


class Leaf(Node):
    """A table or an earlier stage."""

    strategy = "linear"
    constants: Mapping[str, Leaf] = {}

    def __init__(
        self,
        name: str,
        types: Types,
        key: tuple[str, ...] | None,
        required: frozenset[str] = frozenset(),
    ):
        self.name = name
        self.columns = tuple(types)
        self.types = types
        self.key = key
        self.required = required

    def inputs(self) -> Mapping[str, Node]:
        return {}

    def used_columns(self, name: str) -> tuple[str, ...]:
        return ()

    def full_query(self) -> exp.Query:
        return exp.select(exp.Star()).from_(trees.table(self.name))

    def delta(self, run: Run) -> pa.Table:
        return run.relations.delta(self.name)

    def semi_join(self, run: Run, side: Side, values: pa.Table) -> pa.Table:
        return run.relations.matching_rows(self.name, side, values)

    def all_rows(self, run: Run, side: Side) -> Relation:
        return run.relations.source(self.name, side)


def is_empty(relation: Relation) -> bool:
    """Whether a relation surely has no rows."""
    return isinstance(relation, pa.Table) and not relation.num_rows


def in_memory_rows(relation: Relation) -> pa.Table | None:
    """The rows of a relation, if they are here already."""
    rows = relation.rows if isinstance(relation, Source) else relation
    return None if isinstance(rows, RowSet) else rows
