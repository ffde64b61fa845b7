"""Review: whether the work on what was changed takes less since, or more, which undoes the change.

What was observed until a change is written down with it.  Counts fade at a known rate, so what was
observed since is the difference.  Each kind of work is compared with itself, and weighed by what it
took before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from livingdb.catalog.observations import HALF_LIFE_MICROSECONDS, Counts
from livingdb.catalog.tuning import TuningRow
from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph
from livingdb.maintenance.tuning.actions.make_index import MakeIndex
from livingdb.maintenance.tuning.gain import Gain
from livingdb.maintenance.tuning.records import undo_record

__all__ = ["baseline", "review"]

_SLOWER = 1.25
"""A change is undone if later work takes so much longer."""
_FEWEST = {"get": 512.0, "fold": 2.0, "evaluate": 2.0}
_FEWEST_SCANS = 8.0
_COVERED = 0.5
"""Of what the work took before, the kinds that were seen since have to make up so much."""
_LATEST = 30 * 86_400_000_000
_KEPT = ("read", "rows", "microseconds", "fold", "evaluate")
_LOOKED_FOR = ("filter", "keys")
"""How rows are read that are looked for by a column: without an index on it, and with one."""


def baseline(counts: Counts) -> dict[str, Any]:
    """What is kept of what was observed of a table until a change."""
    return {kind: dict(counts[kind]) for kind in _KEPT if kind in counts}


def review(
    graph: Graph, rows: Sequence[TuningRow], now: int, seconds: float = 60.0
) -> list[TuningRow]:
    """Judge what was applied and not judged yet; those that were undone."""
    known = graph.observer.known(now)
    undone = []
    for row in rows:
        if "verdict" in row.details or "applied" not in row.details:
            continue
        age = now - int(row.details["applied"])
        before, after = _apart(row.details.get("baseline", {}), known.get(row.subject, {}), age)
        gain = _compare(before, after, _LOOKED_FOR if row.action == MakeIndex.kind else ())
        if gain is None:
            if age > _LATEST:
                _judge(graph, row, {"verdict": "nothing was done with it since"})
            continue
        told = {"verdict": f"what took {gain.before:.3g} s takes {gain.after:.3g} s"}
        if gain.after <= _SLOWER * gain.before:
            _judge(graph, row, told)
            continue
        try:
            why = f"later work got slower: {told['verdict']}"
            undone.append(undo_record(graph, row, now, why, seconds))
        except RuleViolation as error:  # somebody has changed it since
            _judge(graph, row, {"verdict": f"{told['verdict']}; {error}"})
    return undone


def _judge(graph: Graph, row: TuningRow, told: Mapping[str, Any]) -> None:
    with graph.catalog.write() as connection:
        graph.catalog.tuning.change(connection, row, row.state, {**row.details, **told})


def _apart(before: Counts, now: Counts, age: int) -> tuple[Counts, Counts]:
    """What was observed before, and since."""
    share = 0.5 ** (max(0, age) / HALF_LIFE_MICROSECONDS)
    since = {
        kind: {
            name: max(0.0, count - share * before.get(kind, {}).get(name, 0.0))
            for name, count in counts.items()
        }
        for kind, counts in now.items()
    }
    return before, since


@dataclass(frozen=True)
class _Kind:
    """A kind of work: how much there was, in its own measure, and the seconds that took."""

    times: float
    units: float
    seconds: float


def _kinds(counts: Counts, alike: Collection[str]) -> dict[str, _Kind]:
    """What each kind of work took; of scans by the rows that were read.

    Kinds that are alike are one, and go by how often they were met.
    """
    found = {}
    spent = dict(counts.get("microseconds", {}))
    together = {kind: spent.pop(kind) for kind in alike if kind in spent}
    for kind, much in spent.items():
        times = counts.get("read", {}).get(kind, 0.0)
        rows = counts.get("rows", {}).get(kind, 0.0)
        found[kind] = _Kind(times, rows if kind in ("whole", "filter") else times, much / 1e6)
    if together:
        times = sum(counts.get("read", {}).get(kind, 0.0) for kind in together)
        found["look"] = _Kind(times, times, sum(together.values()) / 1e6)
    for kind in ("fold", "evaluate"):
        told = counts.get(kind, {})
        times = told.get("times", 0.0)
        found[kind] = _Kind(times, times, told.get("microseconds", 0.0) / 1e6)
    return {kind: each for kind, each in found.items() if each.units > 0 and each.seconds > 0}


def _compare(before: Counts, after: Counts, alike: Collection[str]) -> Gain | None:
    """What the work of before took then, and would take by what it takes since."""
    old, new = _kinds(before, alike), _kinds(after, alike)
    seen = {
        kind for kind in old if kind in new and new[kind].times >= _FEWEST.get(kind, _FEWEST_SCANS)
    }
    took = sum(old[kind].seconds for kind in seen)
    if not seen or took < _COVERED * sum(each.seconds for each in old.values()):
        return None
    takes = sum(old[kind].units * new[kind].seconds / new[kind].units for kind in seen)
    return Gain(took, takes)
