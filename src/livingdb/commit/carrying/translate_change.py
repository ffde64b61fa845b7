"""Changes of one side of a lens as changes of the other.

Where a table follows another one column by column, so do its deltas.  Whatever else changes goes
through the lens as whole rows, before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from livingdb.commit.proposal import BranchChange, Tables
from livingdb.commit.writing.fill_generated import fill_changes, fill_rows, has_generated
from livingdb.errors import InvalidData
from livingdb.evolution.lenses.lens import Follower, Lens, RowImages
from livingdb.evolution.lenses.sides import (
    VersionSide,
    delta_counts,
    follower_delta,
    images_between,
    inserted_images,
    narrow_delta,
    narrow_images,
)
from livingdb.graph.diff import delta_between
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.graph.unique_constraints import check_unique
from livingdb.sql.expressions import Expression
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta

__all__ = ["ChangeTranslator", "KeptChecks", "TranslatedChange"]

KeptChecks = Mapping[str, Callable[[], Collection[str]]]
"""For tables, the names of the checks that a change is known to keep."""

_KEPT_PAIRS = 4096


class TranslatedChange(NamedTuple):
    """The changes of the other side's tables; a version where both sides share one."""

    changes: dict[str, Delta | Version]
    row_images: dict[str, RowImages]
    """The rows that differ, where they are known."""
    kept: KeptChecks
    """The checks that both sides have of values that are the same."""


class ChangeTranslator:
    """Takes changes of branches through lenses."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known_followers: dict[tuple[int, str, bool], tuple[Lens, Follower | None]] = {}
        self._common: dict[tuple[int, int], tuple[TableSchema, TableSchema, frozenset[str]]] = {}

    def translate_tables(
        self, lens: Lens, is_right: bool, step: BranchChange, tables: Tables, staging: Staging
    ) -> dict[str, Version | None]:
        """The versions that a change on one side of a lens makes of tables on the other."""
        changes = self.translate(lens, is_right, step, tables).changes
        made, _ = self.apply_deltas(tables, changes, staging)
        for name, change in changes.items():
            version = made[name]
            if isinstance(change, Delta) and version is not None:
                check_unique(self._graph.versions, name, version, change)
        return made

    def translate(
        self, lens: Lens, is_right: bool, step: BranchChange, tables: Tables
    ) -> TranslatedChange:
        """What a change on one side of a lens is on the other, which has these tables."""
        versions = self._graph.versions
        here, there = (lens.old, lens.new) if is_right else (lens.new, lens.old)
        changed = [
            name
            for name, before in step.before.items()
            if name in step.after and step.after[name].address != before.address
        ]
        found: dict[str, Delta | Version] = {}
        known: dict[str, RowImages] = {}
        kept: dict[str, Callable[[], Collection[str]]] = {}
        rest: list[str] = []
        followers = self._followers(lens, is_right, step, [n for n in changed if n in here])
        for name in changed:
            follower = followers.get(name)
            if follower is not None:
                schemas = here[name].schema, there[follower.table].schema
                shape = versions.forest(tables[follower.table]).shape
                changes = follower_delta(self._table_delta(step, name), *schemas, shape, follower)
                if has_generated(schemas[1]):
                    rows = versions.rows(tables[follower.table])
                    changes = fill_changes(self._graph.generated, rows, changes)
                found[follower.table] = changes
                kept[follower.table] = partial(self._common_checks, *schemas)
            elif name in here:
                rest.append(name)
            elif name in there or name not in tables:
                continue
            elif tables[name].address == step.before[name].address:
                found[name] = step.after[name]
            elif versions.is_alike(tables[name], step.before[name]):
                found[name] = self._table_delta(step, name)
            else:
                raise InvalidData(f"table {name!r} has another schema there")
        images = {name: self._row_images(step, name) for name in rest}
        if images:
            if is_right:
                lens.unlock()
            beside = [name for name in changed if name in lens.consults]
            images |= {name: self._row_images(step, name) for name in beside}
            for name, delta, rows_there in self._put(lens, is_right, step, tables, images):
                found[name], known[name] = delta, rows_there
        found = {n: c for n, c in found.items() if isinstance(c, Version) or len(c)}
        return TranslatedChange(found, known, kept)

    def _put(
        self,
        lens: Lens,
        is_right: bool,
        step: BranchChange,
        tables: Tables,
        images: Mapping[str, RowImages],
    ) -> Iterator[tuple[str, Delta, RowImages]]:
        """The tables of the other side that a lens changes, and how, by whole rows of this one."""
        versions, there = self._graph.versions, lens.new if is_right else lens.old
        mine, theirs = VersionSide(versions, step.before), VersionSide(versions, tables)
        put = lens.putr if is_right else lens.putl
        for name, delta in put(images, mine, theirs).items():
            shape = versions.forest(tables[name]).shape
            if has_generated(there[name].schema):
                values, rows = self._graph.generated, versions.rows(tables[name])
                delta = RowImages(delta.before, fill_rows(values, rows, delta.after))
            yield name, *narrow_images(there[name].schema, shape, delta)

    def _common_checks(self, here: TableSchema, there: TableSchema) -> frozenset[str]:
        """The checks that two tables of a lens have in common; found once, while both are held."""
        place = id(here), id(there)
        known = self._common.get(place)
        if known is None:
            if len(self._common) >= _KEPT_PAIRS:
                self._common.clear()
            known = self._common[place] = here, there, _common_checks(here, there)
        return known[2]

    def _followers(
        self, lens: Lens, is_right: bool, step: BranchChange, changed: Sequence[str]
    ) -> dict[str, Follower]:
        """The tables of the other side that follow all changes of a lens's tables as they are.

        None if one does not follow: what changes in one table may be seen in another's, too.
        """
        here = lens.old if is_right else lens.new
        found: dict[str, Follower] = {}
        for name in changed:
            follower = self._follower(lens, name, is_right)
            if follower is None:
                return {}
            if not follower.follows(here[name].schema, self._table_delta(step, name)):
                return {}
            found[name] = follower
        return found

    def _follower(self, lens: Lens, table: str, is_right: bool) -> Follower | None:
        """The table of the other side that follows one of a lens; found once."""
        place = id(lens), table, is_right
        known = self._known_followers.get(place)
        if known is None:
            if len(self._known_followers) >= _KEPT_PAIRS:
                self._known_followers.clear()
            known = self._known_followers[place] = lens, lens.follower(table, is_right)
        return known[1]

    def _table_delta(self, step: BranchChange, name: str) -> Delta:
        """What happens to the rows of a table, and no more."""
        found = step.deltas.get(name)
        if found is None:
            versions, before, after = self._graph.versions, step.before[name], step.after[name]
            is_next = after.base == before.address
            made = versions.delta(after) if is_next else delta_between(versions, before, after)
            found = step.deltas[name] = narrow_delta(versions.rows(before), made)
        return found

    def _row_images(self, step: BranchChange, name: str) -> RowImages:
        """What happens to the rows of a table, as whole rows before and after."""
        found = step.row_images.get(name)
        if found is None:
            before, after = step.before[name], step.after[name]
            known = step.deltas.get(name)
            if known is not None and known.inserts_whole_rows:
                found = inserted_images(self._graph.versions.definition(after).schema, known)
            else:
                found = images_between(self._graph.versions, before, after)
            step.row_images[name] = found
        return found

    def apply_deltas(
        self, tables: Tables, changes: Mapping[str, Delta | Version], staging: Staging
    ) -> tuple[dict[str, Version | None], dict[str, int]]:
        """The versions that changes make, and how many rows they change in those not shared."""
        made: dict[str, Version | None] = {}
        rows: dict[str, int] = {}
        for name, change in changes.items():
            if isinstance(change, Version):
                made[name] = change
                continue
            made[name] = self._graph.versions.change(
                tables[name], change, staging.sink, delta_counts(change)
            )
            rows[name] = len(change)
        return made, rows


def _common_checks(here: TableSchema, there: TableSchema) -> frozenset[str]:
    """The names of the checks that two tables have, of columns that are the same in both."""
    if not here.checks or not there.checks:
        return frozenset()
    mine, theirs = (
        {column.name: (column.id, column.type) for column in schema.columns}
        for schema in (here, there)
    )
    same = {name for name, column in theirs.items() if mine.get(name) == column}
    known = dict(here.checks)
    return frozenset(
        name
        for name, text in there.checks
        if known.get(name) == text and Expression(text).columns <= same
    )
