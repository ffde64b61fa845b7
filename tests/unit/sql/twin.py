"""A database in memory with what SQL needs of one: branches, history, transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import StoredChunk
from livingdb.errors import DuplicateKey, NotFound, ReadOnlyBranch, Unsupported
from livingdb.sql.result import Result
from livingdb.sql.statement import execute
from livingdb.tables import ingest
from livingdb.tables.classify import classify
from livingdb.tables.index import MemoryIndex, Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions

Tables = Mapping[str, Version]


class ReadingStore(MemoryStore):
    """Remembers which chunks were read."""

    def __init__(self) -> None:
        self.read: list[Address] = []
        super().__init__()

    def get(self, address: Address) -> bytes:
        self.read.append(address)
        return super().get(address)


class Database:
    """Branches, each a list of states of its tables; times are numbers of states."""

    def __init__(self) -> None:
        self.store = ReadingStore()
        self.versions = Versions(self.store, MemoryIndex())
        self.branches: dict[str, list[Tables]] = {"main": [{}]}
        self.asked: list[tuple[str, Sequence[object]]] = []

    def branch(self, name: str = "main") -> BranchScope:
        return BranchScope(self, name)

    def clone(self, name: str, source: str = "main") -> BranchScope:
        self.branches[name] = [self.branches[source][-1]]
        return self.branch(name)

    def sink(self, chunk: StoredChunk) -> None:
        self.store.put([chunk])

    def create(
        self,
        name: str,
        schema: Any,
        key: str | list[str],
        data: object = (),
        branch: str = "main",
        layout: Layout | None = None,
        defaults: Mapping[str, object] | None = None,
    ) -> None:
        definition = Definition(TableSchema.of(schema, key, defaults), layout or Layout())
        shape = definition.layout.grouping(definition.schema).row_shape
        columns, _ = ingest.sorted_rows(definition.schema, shape, data)
        version = self.versions.create(definition, [columns], self.sink)
        states = self.branches[branch]
        states.append({**states[-1], name: version})

    def forget(self) -> None:
        """Nothing cached, nothing counted."""
        index = self.versions.index
        self.versions = Versions(self.store, index)
        self.store.read.clear()

    def state(self, ref: str) -> Tables:
        name, at, moment = ref.partition("@")
        back = 0
        if not at:
            name, tilde, steps = ref.partition("~")
            back = int(steps) if tilde else 0
        if name not in self.branches:
            raise NotFound(f"there is no branch {name!r}")
        states = self.branches[name]
        if at:
            return states[min(int(moment[:4]) - 2000, len(states) - 1)]
        return states[-1 - back]


@dataclass
class BranchScope:
    """A branch as a scope."""

    database: Database
    name: str
    read_only: bool = False
    trust: Sequence[str] = ()

    def without_guard(self, text: str) -> tuple[str, dict[str, Any]]:
        return text, {}

    def _state(self, ref: str | None) -> Tables:
        if ref is None:
            return self.database.state(self.name)
        return self.database.state(self.name + ref if ref.startswith("@") else ref)

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        state = self._state(ref)
        if name not in state:
            raise NotFound(f"there is no table {name!r}")
        return self.database.versions.rows(state[name])

    def tables(self, ref: str | None = None) -> list[str]:
        return sorted(self._state(ref))

    def location(self, name: str, ref: str | None = None) -> None:
        """Nobody else can read these rows: they are in memory."""

    def define(self, statement: object) -> None:
        raise Unsupported("no schema changes here")

    def find_branch(self, name: str) -> str | None:
        """The name, if a branch has it."""
        return name if name in self.database.branches else None

    def system_table(self, name: str, arguments: Sequence[object]) -> pa.Table:
        self.database.asked.append((name, list(arguments)))
        if name == "log":
            return pa.table({"id": ["a1", "b2"], "message": ["first", "second"]})
        if name == "diff":
            return pa.table({"id": [1], "_change_type": ["insert"]})
        raise NotFound(f"there is no system table {name!r}")

    @contextmanager
    def write_transaction(self) -> Iterator[Transaction]:
        if self.read_only:
            raise ReadOnlyBranch(f"the branch {self.name!r} is the target of a sync")
        states = self.database.branches[self.name]
        transaction = Transaction(self.database, self.name, pending=dict(states[-1]))
        yield transaction
        states.append(transaction.pending)
        transaction.snapshot = len(states) - 1

    def sql(self, text: str, parameters: Any = None) -> Result:
        return execute(self, text, parameters, "embedded")

    def all(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.rows(name).to_arrow().to_pylist()
        return found


@dataclass
class Transaction(BranchScope):
    """An open transaction as a scope and a writer."""

    pending: dict[str, Version] = field(default_factory=dict)
    snapshot: object | None = None
    calls: list[tuple[str, list[str]]] = field(default_factory=list)

    def _state(self, ref: str | None) -> Tables:
        return self.pending if ref is None else super()._state(ref)

    @contextmanager
    def write_transaction(self) -> Iterator[Transaction]:
        yield self

    def _apply(self, table: str, make: Any, data: Any, strict: bool = False) -> None:
        rows = self.rows(table)
        changes = make(rows.schema, rows.forest.shape, data)
        if make is ingest.upserts and strict and rows.contains(changes.keys).any():
            at = int(np.argmax(rows.contains(changes.keys)))
            raise DuplicateKey(f"the key {changes.keys[at]} is in the table")
        kept, counts = classify(rows, changes, strict=make is ingest.patches)
        versions = self.database.versions
        self.pending[table] = versions.change(self.pending[table], kept, self.database.sink, counts)

    def insert(self, table: str, data: object) -> None:
        self._apply(table, ingest.upserts, data, strict=True)

    def upsert(self, table: str, data: object) -> None:
        self._apply(table, ingest.upserts, data)

    def update(self, table: str, data: object) -> None:
        self._apply(table, ingest.patches, data)

    def delete(self, table: str, keys: object) -> None:
        self._apply(table, ingest.deletes, keys)
