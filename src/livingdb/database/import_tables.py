"""Import of what was exported: the same tables again, in one transaction."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.access.roles import Role
from livingdb.database.export_tables import CONTENTS
from livingdb.database.table_files import FORMATS, read_rows
from livingdb.engines.tree_parts import TreeParts, build_part, collect_parts, drop_packs
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.tables import ingest
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.snapshot import Snapshot

__all__ = ["import_tables", "is_exported"]

Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class _Described:
    """A table as the contents of a folder describe it."""

    name: str
    definition: Definition
    files: tuple[Path, ...]
    rows: int
    written: str


def is_exported(folder: Path) -> bool:
    """Whether a folder is one that an export wrote."""
    return (folder / CONTENTS).is_file()


def import_tables(
    branch: Branch,
    folder: str | os.PathLike[str],
    message: str = "",
    progress: Progress | None = None,
) -> tuple[Snapshot, dict[str, int]]:
    """Make the tables that an export wrote into a folder; how many rows each has.

    `AlreadyExists` if the branch has a table of one of the names; then, and whenever something is
    wrong with a file, nothing is made.
    """
    place = Path(os.fspath(folder)).absolute()
    described = _contents(place)
    url = branch.database._graph.place.files.url
    built: list[TreeParts] = []
    with branch.transaction(message or f"import {place.name}") as tx:
        tx._check_rights(Role.MAINTAINER)
        try:
            for table in _in_order(described):
                tx.work.create_table(table.name, table.definition)
                definition = tx.work.definition(table.name)
                if any(column.computed is not None for column in definition.schema.columns):
                    written = _written_columns(table, definition, progress)
                    _check_count(table, written.num_rows)
                    tx.insert(table.name, written)
                    continue
                rows = _rows(table, definition, progress)
                built.append(collect_parts(url, [build_part(url, definition.to_json(), rows)]))
                _check_count(table, built[-1].count)
                tx.replace(table.name, built[-1], is_drawn=True)
            made = tx.commit()
        except BaseException:
            for parts in built:
                drop_packs(url, parts.packs)
            raise
    return made, {table.name: table.rows for table in described}


def _check_count(table: _Described, found: int) -> None:
    """`InvalidData` if there are not as many rows as were exported."""
    if found != table.rows:
        raise InvalidData(f"{table.files[0]}: {found:,} rows, and {CONTENTS} says {table.rows:,}")


def _contents(place: Path) -> list[_Described]:
    """What a folder holds, by its contents."""
    path = place / CONTENTS
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFound(f"{path} is not there: is {place} a folder that was exported?") from None
    except (OSError, ValueError) as error:
        raise InvalidData(f"{path}: {error}") from error
    try:
        if said["livingdb"] != 1 or said["format"] not in FORMATS:
            raise Unsupported(f"{path}: a later version of LivingDB wrote it")
        tables = said["tables"].items()
        return [_described(place, name, about, said["format"]) for name, about in tables]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InvalidData(f"{path} is damaged: {error!r}") from error


def _described(place: Path, name: str, about: Mapping[str, Any], written: str) -> _Described:
    definition = replace(Definition.from_json(about["definition"]), id=None)
    if any(column.hidden for column in definition.schema.columns):
        raise Unsupported(
            f"{name!r} has no key: its rows can be read with livingdb import FILE --table, which "
            "takes a key"
        )
    files = tuple(place / str(file) for file in about["files"])
    for file in files:
        if file.parent != place:
            raise InvalidData(f"{place / CONTENTS} names a file outside of the folder: {file}")
    return _Described(name, definition, files, int(about["rows"]), written)


def _in_order(tables: list[_Described]) -> Iterator[_Described]:
    """Tables after those that they refer to."""
    waiting = {table.name: table for table in tables}
    while waiting:
        ready = [
            table
            for table in waiting.values()
            if not {target for _, target in table.definition.schema.foreign_keys}
            & (waiting.keys() - {table.name})
        ]
        if not ready:
            raise Unsupported(f"the tables {', '.join(waiting)} refer to each other in a circle")
        for table in ready:
            yield waiting.pop(table.name)


def _written_columns(
    table: _Described, definition: Definition, progress: Progress | None
) -> pa.Table:
    """The columns that are not computed, of all rows."""
    schema = definition.schema
    names = [column.name for column in schema.columns if column.computed is None]
    fields = pa.schema([schema.column(name).field for name in names])
    rows = [
        pa.Table.from_arrays(_named(schema, each, names), schema=fields)
        for each in _rows(table, definition, progress)
    ]
    return pa.concat_tables([fields.empty_table(), *rows])


def _named(schema: TableSchema, stored: Sequence[pa.Array], names: Sequence[str]) -> list[pa.Array]:
    return [stored[schema.position(name)] for name in names]


def _rows(
    table: _Described, definition: Definition, progress: Progress | None
) -> Iterator[list[pa.Array]]:
    done = 0
    for file in table.files:
        for batch in read_rows(file, table.written, definition.schema.arrow):
            rows = pa.Table.from_batches([batch])
            yield ingest.whole_rows(definition.schema, rows, fixed=True)
            done += len(batch)
            if progress is not None:
                progress(table.name, done, table.rows)
