"""Attribute groups: columns that change often lie apart from those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from livingdb.maintenance.tuning.advisors.candidate import (
    Candidate,
    least_layout,
    relayout_candidate,
)
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.workload import ObservedTable
from livingdb.tables.layout import Layout

__all__ = ["advise_groups"]

_MOST_GROUPS = 6
_FEWEST = 0.02
"""Sets of columns that are written in fewer commits than this make no groups."""


def advise_groups(evidence: Evidence) -> Iterator[Candidate]:
    """Groups in which folds rewrite less, and reads do not pay more than that."""
    for table in evidence.tables:
        if not table.is_stored or not table.rows:
            continue
        found = least_layout(evidence, table, _others(table))
        if found is None:
            continue
        now, best = found
        groups = best.layout.groups
        if not groups:
            words, reason = "one group of columns", "its groups are read together more than apart"
        else:
            words = f"{' and '.join(', '.join(group) for group in groups)} apart"
            alone = sum(table.work.patched.values())
            reason = f"{100 * alone:.0f} % of {table.work.commits:,.0f} commits write these alone"
        yield relayout_candidate(now, best, words, reason)


def _others(table: ObservedTable) -> Iterator[Layout]:
    """One group; sets of columns that are written alone apart: each, all of them, all as one."""
    now, schema = table.layout, table.schema
    names = {column.id: column.name for column in schema.stored_columns[len(schema.key) :]}
    sets = [
        [name for of, name in names.items() if of in ids]
        for ids, share in table.work.patched.items()
        if share >= _FEWEST
    ]
    written = [name for name in names.values() if any(name in group for group in sets)]
    for groups in ([], *([group] for group in sets), _disjoint(sets), [written]):
        kept = [group for group in groups if group]
        if sum(map(len, kept)) == len(names):
            kept = kept[:-1]  # the rest is a group of its own
        made = replace(now, groups=kept[:_MOST_GROUPS] or None)
        if made.grouping(schema).groups != now.grouping(schema).groups:
            yield made


def _disjoint(sets: list[list[str]]) -> list[list[str]]:
    """Groups of columns that are written in the same sets."""
    by_sets: dict[tuple[int, ...], list[str]] = {}
    for name in dict.fromkeys(name for group in sets for name in group):
        of = tuple(place for place, group in enumerate(sets) if name in group)
        by_sets.setdefault(of, []).append(name)
    return list(by_sets.values())
