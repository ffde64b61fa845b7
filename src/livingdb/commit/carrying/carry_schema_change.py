"""Carries a schema change of the source of a one-way sync: the lens is planned anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from livingdb.commit.carrying.carried import Carried
from livingdb.commit.carrying.carried_move import CarriedMove
from livingdb.commit.proposal import BranchMove, Tables
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import LivingDBError, RuleViolation
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.follow_names import follow_changes
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.plan import new_tables, plan_changes
from livingdb.evolution.replay_schema import replay
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import aliased, planned_tables
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.identity import recorded_change_id
from livingdb.tables.index import Version

__all__ = ["carry_schema_change", "changes_schema"]


def changes_schema(move: CarriedMove, tables: Tables) -> bool:
    """Whether a change of a branch is one of the schema that a sync has to do with.

    `RuleViolation` if the sync cannot follow it.
    """
    sync, lens, source = move.sync, move.lens, move.source
    changed: list[str] = []
    if source.other_schemas:
        shared = {*lens.old, *lens.new, *tables}
        changed = sorted(name for name in source.other_schemas & shared if not is_hidden(name))
    is_one_way = sync.direction == "forward"
    if not is_one_way:
        again = source.changed & {*lens.old, *lens.new}
        changed += sorted(name for name in again if name not in source.before)
    else:
        # A table that is new, or that comes again, is one that the target has to have.
        before = source.before
        changed += sorted(n for n in source.changed if n not in before and not is_hidden(n))
    if not changed:
        return False
    if is_one_way:
        return True
    raise RuleViolation(
        f"rule 4: {source.branch.name!r} is in the sync {sync.name!r}, which stays with its "
        f"present schema, and this would change that of {changed[0]!r}: evolve the "
        "branch instead, or detach the sync first"
    )


def carry_schema_change(graph: Graph, move: CarriedMove, staging: Staging) -> Carried:
    """The target of a one-way sync over a source whose schema has changed: planned anew.

    What the target is made of are recipes over the source's tables, as when it was made.
    """
    sync, source = move.sync, move.source
    after = source.change.after
    held = whole_tables(tables_of(graph, move.head))
    before, definitions = (
        {name: graph.versions.definition(v) for name, v in tables.items()}
        for tables in (source.change.before, after)
    )
    before = {name: aliased(known, source.unified) for name, known in before.items()}
    change = SchemaChange.from_json(sync.spec["change"])
    followed = follow_changes([change], before, definitions, source.made_changes)
    changes = followed.changes
    plan = plan_changes(definitions, changes)
    made, between = new_tables(graph, plan, after, staging)
    whole = overlay_tables(after, made)
    (lens,) = plan.lenses
    details = move.details(reason="SCHEMA_CHANGED", rows={})
    intent = move.intent(_differing_tables(source, lens, held, whole), details, between)
    own = _changes_there(graph, source, held, whole)
    if own:
        details["changes"] = [item.to_json() for item in own]
        intent = replace(intent, kind="schema_change", details=details)
    spec = {
        **sync.spec_in_step,
        "change": changes[0].to_json(),
        "snapshot": source.address.hex(),
    }
    return Carried(
        intent,
        held,
        spec=spec,
        schema_changes=source.schema_changes,
        brings_rows=sync.behind is not None or not source.is_schema_alone,
        unified={**source.unified, **followed.unified},
    )


def _differing_tables(
    source: BranchMove, lens: Lens, held: Tables, whole: Mapping[str, Version | None]
) -> dict[str, Version | None]:
    """The tables that the target has to take anew, of the whole that it is to have."""
    is_touched = not source.changed.isdisjoint(lens.old)
    differing: dict[str, Version | None] = {}
    for name in {**held, **whole}:
        old, new = held.get(name), whole.get(name)
        is_same = old is not None and new is not None and old.definition == new.definition
        is_other = name in source.changed or (is_touched and name in lens.new)
        is_kept = is_same and not is_other
        if not is_hidden(name) and not is_kept:
            differing[name] = new
    return differing


def _changes_there(
    graph: Graph, source: BranchMove, held: Tables, after: Tables
) -> Sequence[SchemaChange]:
    """The changes of a source as those of its target, which then has them in its history.

    Under their ids, by the names of the target; none, if they do not lead to its new schema.
    """
    there, then = (
        {
            name: graph.versions.definition(version)
            for name, version in tables.items()
            if not is_hidden(name)
        }
        for tables in (held, after)
    )
    try:
        done = replay(source.history, there, ())
        orders = list(_reorders(done.tables, then, source.address.hex()))
        for order in orders:
            done.tables = planned_tables(order, done.tables)
    except LivingDBError:
        return ()
    is_whole = not done.failed and done.tables == then
    return [*done.changes, *orders] if is_whole else ()


def _reorders(tables: Schemas, wanted: Schemas, why: str) -> Iterator[SchemaChange]:
    """The changes after which columns are in the order that is wanted; `why` names the occasion."""
    for name, known in tables.items():
        other = wanted.get(name)
        here = [column.name for column in known.schema.visible_columns]
        there = [] if other is None else [c.name for c in other.schema.visible_columns]
        if here != there and sorted(here) == sorted(there):
            identity = recorded_change_id(f"order of {name} after {why}")
            yield ReorderColumns(name, there).with_id(identity)
