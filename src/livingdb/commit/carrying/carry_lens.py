"""Carries a change of one end of a schema sync to the other, through its lens.

The branches that two-way syncs join form a tree, along which a change goes from the branch it was
made on.  A one-way sync follows schema changes of its source, too (see `carry_schema_change`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import BEHIND, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.carried import Carried
from livingdb.commit.carrying.carried_move import CarriedMove
from livingdb.commit.carrying.carry_schema_change import carry_schema_change, changes_schema
from livingdb.commit.carrying.sync_lens import SyncLenses
from livingdb.commit.carrying.translate_change import ChangeTranslator, KeptChecks
from livingdb.commit.proposal import BranchChange, BranchMove, Tables
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import MaskKeyMissing, RuleViolation
from livingdb.graph.constraints import check_tables
from livingdb.graph.diff import delta_between
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.trees.delta import Delta

__all__ = ["LensCarrier"]


class LensCarrier:
    """Carries changes along the syncs of schema changes."""

    def __init__(self, graph: Graph, lenses: SyncLenses, translator: ChangeTranslator):
        self._graph = graph
        self._lenses = lenses
        self._translator = translator
        self._referred: dict[Address, set[str]] = {}

    def over(self, graph: Graph) -> LensCarrier:
        """The same over another graph of the same database."""
        found = copy(self)
        found._graph = graph
        return found

    def reached(self, move: BranchMove) -> list[tuple[SyncRow, BranchId]]:
        """The syncs that a move of a branch goes along, and the branches it leads to."""
        return self._graph.syncs(move.branch.epoch).schema_syncs_from(move.branch.id)

    def carry(
        self, sync: SyncRow, source: BranchMove, branch: BranchRow, staging: Staging
    ) -> Carried | None:
        """What a move of one end of a sync makes of the other; None if nothing."""
        graph = self._graph
        is_right = source.branch.id in sync.sources
        head = graph.snapshots.at(branch.head)
        lens = self._lenses.of(sync)
        move = CarriedMove(sync, lens, source, branch, head, is_right)
        shared = self._shared_versions(move, graph.tables(head))
        if shared:
            return Carried(move.intent(shared, move.details(rows={})))
        tables = whole_tables(tables_of(graph, head))
        try:
            if changes_schema(move, tables):
                return carry_schema_change(graph, move, staging)
            step = self._change_since(move)
            changes, images, kept = self._translator.translate(lens, is_right, step, tables)
        except MaskKeyMissing:  # it stays where it is, until somebody has the key
            if not is_right:  # what a sync leads from cannot be behind what it leads to
                raise
            at = (sync.behind or source.head.address).hex()
            return Carried(None, tables, spec=None if sync.behind else {**sync.spec, BEHIND: at})
        spec = None if sync.behind is None else sync.spec_in_step
        made, rows = self._translator.apply_deltas(tables, changes, staging)
        self._check_constraints(step, tables, made, changes, kept)
        if not changes:
            return None if spec is None else Carried(None, tables, spec=spec)
        narrow = {n: change for n, change in changes.items() if isinstance(change, Delta)}
        intent = move.intent(made, move.details(rows=rows))
        return Carried(intent, tables, deltas=narrow, row_images=images, spec=spec)

    def _shared_versions(
        self, move: CarriedMove, there: Mapping[str, Address]
    ) -> dict[str, Version | None]:
        """What the target takes as it is, where that is all that a move brings.

        Nothing if the lens or a condition has a say in it, or a constraint on the target alone.
        """
        sync, lens, source = move.sync, move.lens, move.source
        if not (source.changed.isdisjoint(lens.old) and source.changed.isdisjoint(lens.new)):
            return {}
        if sync.behind is not None or sync.guard.get("conditions") or source.other_schemas:
            return {}
        require, found = self._graph.versions.require, dict[str, Version | None]()
        for name in source.changed:
            address, old = source.addresses.get(name), source.before.get(name)
            is_same = old is not None and old == there.get(name)
            if address is None or not is_same:
                return {}
            version = require(address)
            schema = self._graph.versions.definition(version).schema
            has_own_checks = schema.has_conditions or schema.uniques
            if schema.foreign_keys or (has_own_checks and not source.is_checked):
                return {}
            found[name] = version
        for name, address in there.items():
            if is_hidden(name) or not found.keys().isdisjoint(self.referred_tables(address)):
                return {}
        return found

    def referred_tables(self, version: Address) -> Collection[str]:
        """The tables that foreign keys of one refer to."""
        definition = self._graph.versions.require(version).definition
        known = self._referred.get(definition)
        if known is None:
            schema = self._graph.versions.definition(self._graph.versions.require(version)).schema
            known = self._referred[definition] = {target for _, target in schema.foreign_keys}
        return known

    def _change_since(self, move: CarriedMove) -> BranchChange:
        """What a sync has to carry of a branch that moves: also what waited for a key."""
        sync, source = move.sync, move.source
        if sync.behind is None:
            return source.change
        if not move.is_right:
            near, far = sync.ends
            raise RuleViolation(
                f"{far!r} is behind {near!r}, which it is in step with: their sync waits for the "
                "key of a mask, and until then nothing is written here; db.propagate() where the "
                "key is known carries what waits"
            )
        row = self._graph.snapshots.find(sync.behind)
        assert row is not None
        before, after = tables_of(self._graph, row), source.change.after
        return BranchChange(source.branch.id, source.branch.name, before, after, source.address)

    def _check_constraints(
        self,
        step: BranchChange,
        tables: Tables,
        made: Mapping[str, Version | None],
        changes: Mapping[str, Delta | Version],
        kept: KeptChecks,
    ) -> None:
        """Conditions and foreign keys hold on the other side, too; some checks `kept` as here."""

        def happens(name: str) -> Delta:
            return delta_between(self._graph.versions, step.before[name], step.after[name])

        whole = overlay_tables(tables, made)
        known = {name: change for name, change in changes.items() if isinstance(change, Delta)}
        versions = self._graph.versions
        check_tables(versions, whole, changes, known, happens, kept, has_nulls=False)
