"""Joining trees of consecutive key ranges into the one that a build of all rows would make.

The end of a tree is no boundary: its last nodes were closed because there was nothing more.
They are opened again, and so is what follows, until the boundaries of the next tree are those
that would have been found.
"""

from __future__ import annotations

from collections.abc import Iterable

from livingdb.chunks.address import Address
from livingdb.trees.builder import Sink
from livingdb.trees.edit import Editor, collapse
from livingdb.trees.nodes import Entries, Leaf, Reader

__all__ = ["join"]


def join(reader: Reader, roots: Iterable[Address], sink: Sink) -> Address:
    """The root of all rows under these roots, whose keys follow one another in this order."""
    joiner = _Joiner(reader, sink)
    for root in roots:
        joiner.tree(root)
    return collapse(reader, joiner.builder.finish())


class _Joiner(Editor):
    """Feeds whole trees to a builder."""

    def tree(self, root: Address) -> None:
        """Feed one tree."""
        top = self.reader.read(root)
        if isinstance(top, Leaf) or top.level == 0:
            self.leaf(root, self.nothing)
        else:
            self.spine(top)

    def spine(self, node: Entries) -> None:
        """Feed a node on the right edge of its tree: its last child was closed by the end."""
        last = len(node) - 1
        self.pass_over(node, 0, last)
        address = node.addresses[last]
        if node.level == 1:
            self.leaf(address, self.nothing)
        else:
            inner = self.reader.read(address)
            assert isinstance(inner, Entries)
            self.spine(inner)
        self.builder.close_nodes(node.level)
