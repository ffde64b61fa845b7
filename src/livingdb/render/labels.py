"""Words in pictures: short, on one line, and harmless whatever users wrote."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from livingdb.render.picture import Node, SnapshotGraph, SyncMark

__all__ = [
    "KIND_TITLES",
    "condition_text",
    "cut",
    "display_width",
    "moment",
    "one_line",
    "summary",
    "sync_text",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

KIND_TITLES = {
    "transaction": "transaction",
    "merge": "merge",
    "schema_change": "schema change",
    "clone": "clone",
    "start": "start of a branch",
    "derive": "derived object",
    "propagate": "propagated",
}


def one_line(text: str) -> str:
    """Text without line breaks, control characters or marks that turn the direction of others.

    What a picture cannot hold (a lone surrogate, an unassigned character) becomes U+FFFD.
    """
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if category in ("Cc", "Zl", "Zp"):
            kept.append(" ")
        elif category in ("Cs", "Cn"):
            kept.append("\ufffd")
        elif category != "Cf" or character in "\u200c\u200d":
            kept.append(character)
    return " ".join("".join(kept).split())


def display_width(text: str) -> int:
    """How many places of a terminal a text takes."""
    return sum(_display_cells(character) for character in text)


def _display_cells(character: str) -> int:
    if unicodedata.combining(character) or character in "\u200c\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """Text on one line that takes at most so many places; what was cut ends in an ellipsis."""
    line = one_line(text)
    if display_width(line) <= width:
        return line
    kept, used = [], 1
    for character in line:
        used += _display_cells(character)
        if used > width:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…" if width > 0 else ""


def moment(microseconds: int) -> datetime:
    """A time as Python has it, in UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def condition_text(condition: Mapping[str, Any]) -> str:
    """A condition of a sync in a few words, with what it does when it fails."""
    text = one_line(str(condition.get("text") or condition.get("name") or "condition"))
    action = condition.get("action")
    return f"{text} ⇒ {action}" if action else text


def sync_text(sync: SyncMark) -> str:
    """When a sync carries changes, what guards it, and why it does not."""
    parts = [one_line(sync.when), *sync.conditions]
    if sync.state != "active":
        parts = [sync.state, *parts, one_line(sync.reason)]
    return " · ".join(part for part in parts if part)


def summary(graph: SnapshotGraph) -> str:
    """A picture in one sentence, for those who cannot see it."""
    branches = sum(not lane.is_dropped for lane in graph.lanes)
    text = f"{_count(len(graph), 'snapshot')} on {_count(branches, 'branch', 'branches')}"
    if graph.syncs:
        text += f", {_count(len(graph.syncs), 'sync')}"
    if graph.nodes:
        days = sorted({_day(graph.nodes[0]), _day(graph.nodes[-1])})
        text += f", {' to '.join(days)}"
    return text


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _day(node: Node) -> str:
    return moment(node.time).strftime("%Y-%m-%d")
