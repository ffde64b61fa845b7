"""Edits: the tree a rebuild would make, by touching only what changes.

The old tree is walked in key order.  What is untouched goes to the builder as whole nodes of
the highest level at which old and new boundaries coincide; where a changed leaf leaves a
chunk open, the leaves that follow are opened too, until the boundaries meet again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from livingdb.chunks.address import Address
from livingdb.trees.builder import Builder, Sink
from livingdb.trees.delta import Delta, empty_delta
from livingdb.trees.keys import KeyArray, search
from livingdb.trees.nodes import Entries, Leaf, Reader
from livingdb.trees.scan import leaf_rows

__all__ = ["Editor", "Replacements", "collapse", "edit", "touched_leaves"]


@dataclass(frozen=True)
class Replacements:
    """Leaves, named by their last keys, that give way to other whole leaves (or to none).

    The leaves that come must end where those that go ended, and hold keys of their range.
    """

    keys: KeyArray
    leaves: tuple[Entries | None, ...]

    def slice(self, start: int, stop: int) -> Replacements:
        """Some of them."""
        return Replacements(self.keys[start:stop], self.leaves[start:stop])


class Editor:
    """Feeds an old tree, changed, to a builder."""

    def __init__(self, reader: Reader, sink: Sink):
        self.reader = reader
        self.builder = Builder(reader.shape, sink)
        self.nothing = empty_delta(reader.shape)
        self.no_leaves = Replacements(self.nothing.keys, ())

    def leaf(self, address: Address, changes: Delta) -> None:
        """Feed the rows of one leaf."""
        keys, columns = leaf_rows(self.reader, address)
        if len(changes):
            keys, columns = changes.apply(keys, columns)
        self.builder.add_rows(columns, keys)
        self.builder.close_leaves()

    def node(self, node: Entries, changes: Delta, replaced: Replacements) -> None:
        """Feed the children of a node of level 1 or more."""
        most = len(node) - 1
        owners = np.minimum(search(node.keys, changes.keys), most)
        swapped = np.minimum(search(node.keys, replaced.keys), most)
        position = 0
        for child in np.union1d(owners, swapped).tolist():
            self.pass_over(node, position, child)
            mine = changes.slice(*_run(owners, child))
            gone = replaced.slice(*_run(swapped, child))
            self.child(node, child, mine, gone)
            position = child + 1
        self.pass_over(node, position, len(node))
        self.builder.close_nodes(node.level)

    def child(self, node: Entries, child: int, changes: Delta, replaced: Replacements) -> None:
        """Feed one child, changed or replaced."""
        address = node.addresses[child]
        if node.level > 1:
            inner = self.reader.read(address)
            assert isinstance(inner, Entries)
            self.node(inner, changes, replaced)
        elif len(replaced.keys):
            leaves = replaced.leaves[0]
            if leaves is not None:
                self.pass_over(leaves, 0, len(leaves))
        else:
            self.leaf(address, changes)

    def pass_over(self, node: Entries, start: int, stop: int) -> None:
        """Feed untouched children, whole as soon as nothing below is open."""
        while start < stop and not self.builder.is_aligned(node.level):
            self.child(node, start, self.nothing, self.no_leaves)
            start += 1
        if start < stop:
            self.builder.add_entries(node.level, node.slice(start, stop))


def _run(owners: np.ndarray[tuple[int], np.dtype[np.int64]], child: int) -> tuple[int, int]:
    return int(np.searchsorted(owners, child)), int(np.searchsorted(owners, child, "right"))


def edit(
    reader: Reader,
    root: Address,
    changes: Delta,
    sink: Sink,
    replacements: Replacements | None = None,
) -> Address:
    """The root of the tree at `root` with the changes made and the leaves replaced.

    A replaced leaf takes no changes.
    """
    if not len(changes) and (replacements is None or not len(replacements.keys)):
        return root
    editor = Editor(reader, sink)
    top = reader.read(root)
    replaced = replacements or editor.no_leaves
    if not isinstance(top, Leaf) and top.level > 0:
        editor.node(top, changes, replaced)
    elif not len(replaced.keys):
        editor.leaf(root, changes)
    elif (leaves := replaced.leaves[0]) is not None:
        editor.pass_over(leaves, 0, len(leaves))
    return collapse(reader, editor.builder.finish())


def touched_leaves(reader: Reader, root: Address, keys: KeyArray) -> set[Address]:
    """The leaves an edit with changes to these sorted keys would open first."""
    node = reader.read(root)
    if isinstance(node, Leaf) or node.level == 0:
        return {root} if len(keys) else set()
    owners = np.minimum(search(node.keys, keys), len(node) - 1)
    touched: set[Address] = set()
    for child in np.unique(owners).tolist():
        if node.level == 1:
            touched.add(node.addresses[child])
        else:
            start, stop = _run(owners, child)
            touched |= touched_leaves(reader, node.addresses[child], keys[start:stop])
    return touched


def collapse(reader: Reader, root: Address) -> Address:
    """Skip nodes with a single child: a rebuild would not have made one the root.

    Only an old node taken over whole can be such a node, so it is in the store.
    """
    while reader.holds(root):
        node = reader.read(root)
        if isinstance(node, Leaf) or node.level == 0 or len(node) > 1:
            break
        root = node.addresses[0]
    return root
