"""Conditions that look up rows on a branch by its name, once the branch has another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph
from livingdb.guard.conditions.condition import Condition, from_json

__all__ = ["rename_references"]

_REFERENCES, _TEXT = "references", "text"


def rename_references(
    graph: Graph, guard: Mapping[str, Any], branch: BranchRow, new: str
) -> Mapping[str, Any]:
    """What guards a sync, with the new name of a branch; the same if it does not name the branch.

    `branch` is as it was, with its old name.
    """
    given = guard.get("conditions")
    if not given:
        return guard
    tables = set(graph.tables(graph.snapshots.at(branch.head)))
    renamed = [_with_text(item, _renamed(item, branch.name, new, tables)) for item in given]
    return guard if renamed == given else {**guard, "conditions": renamed}


def _renamed(value: Any, old: str, new: str, tables: set[str]) -> Any:
    """A condition as plain values, or a part of one, with the new name where it says the old."""
    if isinstance(value, list):
        return [_renamed(item, old, new, tables) for item in value]
    if not isinstance(value, Mapping):
        return value
    found = {name: _renamed(item, old, new, tables) for name, item in value.items()}
    text = found.get(_REFERENCES)
    if isinstance(text, str) and text.startswith(f"{old}."):
        rest = text.removeprefix(f"{old}.")
        if rest in tables or rest.rpartition(".")[0] in tables:
            found[_REFERENCES] = f"{new}.{rest}"
    return found


def _with_text(before: Mapping[str, Any], after: dict[str, Any]) -> Mapping[str, Any]:
    """A renamed condition with the words for it."""
    if after == before:
        return before
    try:
        one = from_json({name: value for name, value in after.items() if name != _TEXT})
    except LivingDBError:
        return after  # nobody here knows the condition: its words stay
    assert isinstance(one, Condition)
    return {**after, _TEXT: one.text}
