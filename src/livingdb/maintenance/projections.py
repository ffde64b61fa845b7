"""Projections looked after: compared with the rows they stand for, and dropped when out of use."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa

from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph
from livingdb.graph.storage.projection_files import ProjectionFiles
from livingdb.graph.storage.projections import BaseRows, files_of_heads
from livingdb.tables.batches import flat
from livingdb.trees.compare import differs
from livingdb.trees.subtrees import Subtree

__all__ = ["drop_unused_projections", "projection_problems"]

_GRACE_SECONDS = 3_600.0  # a data frame that was made before may still read them


def drop_unused_projections(graph: Graph) -> None:
    """Forget the files that no head is read from."""
    files = ProjectionFiles(graph.place.files)
    held = files.held()
    if not held:
        return
    limit = time.time() - _GRACE_SECONDS
    unused = held - set(files_of_heads(graph))
    files.drop(name for name in sorted(unused) if files.written_at(name) < limit)
    files.drop_leftovers(limit)


def projection_problems(graph: Graph) -> Iterator[tuple[str, str]]:
    """The names of files, each with what is wrong with it.

    All of them have the bytes that were written, and those of the heads the rows of their trees.
    """
    files = ProjectionFiles(graph.place.files)
    held = files.held()
    used = files_of_heads(graph) if held else {}
    for name in sorted(held):
        what = files.problem(name)
        if what is None and name in used:
            what = _differing_rows(files, name, *used[name])
        if what is not None:
            yield name, what


def _differing_rows(
    files: ProjectionFiles, name: str, base: BaseRows, subtree: Subtree
) -> str | None:
    """Whether a file holds other rows than its tree."""
    columns = base.tree.schema.stored_columns
    try:
        found = files.read(name)
        forest, root = base.tree.forest, base.tree.root
        batches = list(forest.scan(root, None, subtree.span))
    except LivingDBError as error:
        return str(error)
    if found.column_names != [column.id for column in columns]:
        return "it holds other columns"
    for at, column in enumerate(columns):
        expected = pa.chunked_array([batch[at] for batch in batches], column.type)
        if found.num_rows != len(expected) or found.column(at).type != column.type:
            return "it holds other rows than the table"
        if differs(flat(found.column(at)), flat(expected)).any():
            return f"its rows differ from the table's in the column {column.name!r}"
    return None
