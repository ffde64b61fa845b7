"""Provenance: what made a snapshot, from what, by whom, down to the transactions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Any

__all__ = ["Node", "Provenance"]

_DEPTH = 8
_SHOWN_CHILDREN = 12


@dataclass(frozen=True)
class Node:
    """A snapshot in a tree of provenance: how it was made, and its children what it was made from.

    `role` says what it is to the snapshot above it: "from main", "merged", "into", "before".
    `tables` are those it changed, with the rows where they are known.  `before` counts what came
    before it and is not shown, which is all `earlier`; `is_repeated`: its children are elsewhere.
    """

    snapshot: str
    kind: str
    operation: str
    author: str
    time: datetime
    message: str
    role: str = ""
    branches: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    tables: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    sync: str = ""
    direction: str = ""
    query: str = ""
    function: str = ""
    strategy: str = ""
    reason: str = ""
    engine: str = ""
    rows: int | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    before: int = 0
    earlier: str = "snapshot"
    is_repeated: bool = False
    is_cut: bool = False
    children: tuple[Node, ...] = ()

    def __iter__(self) -> Iterator[Node]:
        """This node and all below it, each before its children."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children[::-1]

    @property
    def title(self) -> str:
        """One line that says what it is."""
        names = ", ".join([*self.branches, *(f"tag {tag}" for tag in self.tags)])
        what = self.kind.replace("_", " ")
        if self.operation and self.operation not in (self.kind, what, "evolve"):
            what = f"{what} ({self.operation})"
        told = f": {self.message}" if self.message else ""
        named = f" [{names}]" if names else ""
        role = f"{self.role}: " if self.role else ""
        when = self.time.isoformat(sep=" ", timespec="seconds")
        return f"{role}{self.snapshot[:12]}{named} {what} by {self.author}, {when}{told}"

    @property
    def lines(self) -> list[str]:
        """What else there is to say, a line each."""
        found = [f"changes {name}{_counts_text(rows)}" for name, rows in self.tables.items()]
        found += [f"schema: {change}" for change in self.changes]
        if self.sync:
            found.append(f"sync {self.sync}{f', {self.direction}' if self.direction else ''}")
        if self.query:
            found.append(f"query: {' '.join(self.query.split())}")
        if self.function:
            found.append(f"function: {self.function}")
        if self.strategy:
            reason = f" ({self.reason})" if self.reason else ""
            engine = f" on {self.engine}" if self.engine else ""
            rows = "" if self.rows is None else f", {self.rows:,} rows"
            found.append(f"strategy: {self.strategy}{reason}{engine}{rows}")
        found += [f"metric {name} = {value}" for name, value in self.metrics.items()]
        found += [
            f"condition {text}: {_json_value(value)}" for text, value in self.conditions.items()
        ]
        if self.is_repeated:
            found.append("(as above)")
        if self.is_cut:
            found.append("… more that is not shown")
        if self.before:
            found.append(f"and {self.before:,} {self.earlier}{'s'[: self.before > 1]} before it")
        return found

    def to_dict(self) -> dict[str, Any]:
        """The node and all below it as plain values; what is empty is left out."""
        own = {name: getattr(self, name) for name in _NAMES}
        own["time"] = self.time.isoformat()
        own["earlier"] = self.earlier if self.before else ""
        own["children"] = [child.to_dict() for child in self.children]
        return {
            name: _json_value(v) for name, v in own.items() if v not in ("", (), [], {}, 0, None)
        }


_NAMES = tuple(Node.__dataclass_fields__)


class Provenance:
    """One readable tree of what made a snapshot."""

    def __init__(self, root: Node):
        self.root = root

    def __iter__(self) -> Iterator[Node]:
        return iter(self.root)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def transactions(self) -> list[Node]:
        """The edits at the ends of the tree, newest first, each once."""
        found = {node.snapshot: node for node in self if node.kind == "transaction"}
        return sorted(found.values(), key=lambda node: node.time, reverse=True)

    def to_text(self, depth: int | None = _DEPTH, children: int | None = _SHOWN_CHILDREN) -> str:
        """The tree as indented text, down to a depth and with so many children of a node.

        None: all of it.
        """
        return "\n".join(_text(self.root, depth, children, ""))

    def to_dict(self) -> dict[str, Any]:
        """The tree as plain values."""
        return self.root.to_dict()

    def to_json(self) -> str:
        """The tree as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return f"<ul>{_html(self.root, _DEPTH)}</ul>"


def _text(node: Node, depth: int | None, most: int | None, indent: str) -> Iterator[str]:
    yield f"{indent}{node.title}"
    yield from (f"{indent}    {line}" for line in node.lines)
    if depth is not None and depth <= 0:
        hidden = sum(1 for _ in node) - 1
        if hidden:
            yield f"{indent}  … {hidden:,} more"
        return
    below = None if depth is None else depth - 1
    shown: Sequence[Node] = node.children if most is None else node.children[:most]
    for child in shown:
        yield from _text(child, below, most, f"{indent}  ")
    hidden = sum(1 for child in node.children[len(shown) :] for _ in child)
    if hidden:
        yield f"{indent}  … {hidden:,} more"


def _html(node: Node, depth: int) -> str:
    lines = "".join(f"<br><small>{escape(line)}</small>" for line in node.lines)
    title = escape(node.title)
    if not node.children:
        return f"<li>{title}{lines}</li>"
    if depth <= 0:
        return f"<li>{title}{lines}<br>… {sum(1 for _ in node) - 1:,} more</li>"
    inner = "".join(_html(child, depth - 1) for child in node.children)
    opened = " open" if depth > _DEPTH - 3 else ""
    return f"<li><details{opened}><summary>{title}</summary>{lines}<ul>{inner}</ul></details></li>"


def _counts_text(rows: Mapping[str, int]) -> str:
    told = ", ".join(f"{count:,} {what}" for what, count in rows.items() if count)
    return f": {told}" if told else ""


def _json_value(value: Any) -> Any:
    """A value that JSON has."""
    if isinstance(value, Mapping):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)
