"""Subtrees: key ranges that keep their name as long as their rows stay as they are.

A subtree is what lies under one interior node, so that two trees which share the node share it,
whatever else differs between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from livingdb.chunks.address import Address, digest
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Entries, Reader
from livingdb.trees.scan import Span

__all__ = ["Subtree", "cut_tree"]


@dataclass(frozen=True)
class Subtree:
    """A key range of a tree; `name` is that of the rows in it, as the tree holds them."""

    name: str
    span: Span
    rows: int


def cut_tree(forest: Forest, root: Address, most_rows: int) -> list[Subtree]:
    """The subtrees that together are a tree, in order: on average at most so many rows each.

    With several groups of columns a range has a node in every tree, and they need not end
    together: its name is that of the whole tree then, and of its place in it.
    """
    nodes = _nodes(forest.readers[0], forest.roots(root)[0], most_rows)
    if nodes is None:
        return [Subtree(bytes(root).hex(), Span(), forest.count_rows(root))]
    lowers = [None, *nodes.keys[:-1]]
    uppers = [*nodes.keys[:-1], None]
    names = [bytes(address).hex() for address in nodes.addresses]
    if not forest.is_single:
        names = [digest(bytes(root) + bytes(address)).hex() for address in nodes.addresses]
    return [
        Subtree(name, Span(low, high, lower_open=True, upper_open=False), int(rows))
        for name, low, high, rows in zip(names, lowers, uppers, nodes.rows, strict=True)
    ]


def _nodes(reader: Reader, root: Address, most_rows: int) -> Entries | None:
    """The interior nodes of the highest level that is fine enough; None for the root itself."""
    node = reader.read(root)
    if not isinstance(node, Entries) or node.level < 2:
        return None
    level = node
    total = int(level.rows.sum())
    if total <= most_rows:
        return None
    while total > most_rows * len(level) and level.level > 2:
        inner = [reader.read(address) for address in level.addresses]
        level = Entries.concat(reader.shape, [each for each in inner if isinstance(each, Entries)])
    return level
