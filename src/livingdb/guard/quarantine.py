"""Quarantine: rows that break a condition are set aside, and recorded.

The target's branch then holds three tables for one: what the derivation gives, hidden; the rows
set aside, hidden; and what users see, which is the first without the second.  What is shown is a
small change of what is whole, so that nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.derivation.hidden_tables import ASIDE, WHOLE, condition_column, whole_tables
from livingdb.derivation.stage_tables import definition_for
from livingdb.graph.diff import changed_keys, differing_keys
from livingdb.graph.storage.staging import Staging
from livingdb.graph.table_ids import names_before
from livingdb.guard.judge import Judgement
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.versions import Versions
from livingdb.trees.delta import PATCH
from livingdb.trees.keys import KeyArray, member

__all__ = ["quarantine_rows"]


def quarantine_rows(
    versions: Versions,
    held: Mapping[str, Version],
    made: Mapping[str, Version | None],
    judgement: Judgement | None,
    staging: Staging,
) -> dict[str, Version | None]:
    """The tables to store: what was made, less the rows that are to be set aside.

    `held` is all that the target has, `made` the tables that the derivation changes.
    """
    found = dict(made)
    broken = {} if judgement is None else judgement.rows_to_quarantine()
    whole = whole_tables(held)
    # Rows may break a condition, or no more, although their table stays: what they refer to has
    # gone, or come.
    stays = {
        name: version
        for name, version in whole.items()
        if name in broken or (judgement is not None and ASIDE + name in held)
    }
    then = _names_then(versions, whole, made)
    for name, version in {**stays, **made}.items():
        was = name if version is None else then.get(name, name)
        before = held.get(ASIDE + was)
        if name not in broken and before is None:
            continue
        if version is None:
            found.update({WHOLE + name: None, ASIDE + name: None})
            continue
        definition = _quarantine_definition(versions, version)
        left = _unchanged_quarantined(
            versions, before, held.get(WHOLE + was, held.get(was)), version, definition
        )
        count = left.num_rows
        if judgement is not None:
            left = judgement.still_quarantined_rows(name, left)
        if name not in made and name not in broken and left.num_rows == count:
            continue
        aside = _quarantine_version(versions, version, definition, left, broken.get(name), staging)
        found[WHOLE + name] = version
        found[ASIDE + name] = aside
        found[name] = _visible_version(versions, version, aside, staging)
    return found


def _names_then(
    versions: Versions, whole: Mapping[str, Version], made: Mapping[str, Version | None]
) -> dict[str, str]:
    """What tables with other names were called; one whose name another had was called nothing."""
    after = {name: version for name, version in made.items() if version is not None}
    if after.keys() <= whole.keys() and len(after) == len(made):
        return {}
    known = names_before(versions, whole, {**whole, **after})
    found = {name: was for name, was in known.items() if name in after and name != was}
    return {**dict.fromkeys(after.keys() & found.values(), ""), **found}


def _quarantine_definition(versions: Versions, whole: Version) -> Definition:
    """The table of rows set aside of a table."""
    schema = versions.definition(whole).schema
    columns = [pa.field(c.name, c.type) for c in schema.stored_columns]
    told = pa.field(condition_column(field.name for field in columns), pa.string())
    return definition_for(pa.schema([*columns, told]), tuple(schema.key))


def _unchanged_quarantined(
    versions: Versions,
    before: Version | None,
    whole_before: Version | None,
    whole: Version,
    definition: Definition,
) -> pa.Table:
    """The rows that were set aside and stay as they are."""
    empty = definition.schema.arrow.empty_table()
    if before is None or versions.definition(before) != definition:
        return empty
    old = versions.rows(before).to_arrow(definition.schema.arrow.names)
    if not old.num_rows:
        return empty
    schema, shape = versions.definition(whole).schema, versions.forest(whole).shape
    keys = shape.keys([flat(old.column(name)) for name in schema.key])
    stay = ~member(keys, _touched_keys(versions, whole_before, whole))
    stay &= versions.rows(whole).contains(keys)
    return old.filter(pa.array(stay))


def _quarantine_version(
    versions: Versions,
    whole: Version,
    definition: Definition,
    left: pa.Table,
    broken: pa.Table | None,
    staging: Staging,
) -> Version:
    """The rows set aside after a change: those that are left, and those that break a condition."""
    schema, shape = versions.definition(whole).schema, versions.forest(whole).shape
    arrow = definition.schema.arrow
    parts = [left]
    if broken is not None:
        wanted = broken.select(arrow.names)
        parts.append(
            _merge_duplicates(wanted, shape.keys([flat(wanted.column(k)) for k in schema.key]))
        )
    rows = pa.concat_tables([arrow.empty_table(), *(part.cast(arrow) for part in parts)])
    shape = definition.layout.grouping(definition.schema).row_shape
    stored = ingest.carried_upserts(definition.schema, shape, rows)
    whole_columns = [column for column in stored.columns if column is not None]
    return versions.create(definition, [whole_columns] if len(stored) else [], staging.sink)


def _touched_keys(versions: Versions, before: Version | None, after: Version) -> KeyArray:
    """The keys of rows that conditions were asked about, as `PendingChange.come` says."""
    if before is None or before.definition != after.definition:
        rows = versions.rows(after)
        return rows.forest.shape.keys(
            [flat(column) for column in rows.to_arrow(list(rows.schema.key)).columns]
        )
    if after.base == before.address and not (versions.delta(after).ops == PATCH).any():
        return changed_keys(versions, before, after)
    return differing_keys(versions, before, after)


def _merge_duplicates(rows: pa.Table, keys: KeyArray) -> pa.Table:
    """Each row once, with all conditions it breaks."""
    order = np.argsort(keys, kind="stable")
    _, first, places = np.unique(keys[order], return_index=True, return_inverse=True)
    if len(first) == len(keys):
        return rows
    taken = rows.take(pa.array(order[first]))
    at, name = rows.num_columns - 1, rows.column_names[-1]
    texts = pa.table({"place": places, "text": rows.column(at).take(pa.array(order))})
    lists = texts.group_by("place", use_threads=False).aggregate([("text", "distinct")])
    lists = lists.sort_by("place").column("text_distinct").combine_chunks()
    return taken.set_column(at, name, pc.binary_join(lists, "; "))


def _visible_version(
    versions: Versions, whole: Version, aside: Version, staging: Staging
) -> Version:
    """What users see: the whole without what is aside."""
    rows = versions.rows(aside)
    schema, shape = versions.definition(whole).schema, versions.forest(whole).shape
    keys = rows.to_arrow(list(schema.key))
    if not keys.num_rows:
        return whole
    gone = Counts(0, 0, keys.num_rows)
    return versions.change(whole, ingest.deletes(schema, shape, keys), staging.sink, gone)
