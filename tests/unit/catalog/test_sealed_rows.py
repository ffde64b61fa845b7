"""Every row of the catalog has a digest of what it says and where: damage is named, never read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Table
from sqlalchemy.exc import IntegrityError
from tests.unit.catalog.conftest import add_snapshot

import livingdb
from livingdb.catalog import schema
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.sealed_rows import DIGEST, SealedRows, sealed_tables
from livingdb.errors import Corruption

_tags = SealedRows(schema.tag)


def test_every_table_but_the_journal_has_digests() -> None:
    tables = schema.metadata.sorted_tables
    assert {t.name for t in tables} - {s.table.name for s in sealed_tables(tables)} == {"chunk"}
    assert all(list(rows.table.c)[-1].name == DIGEST for rows in sealed_tables(tables))


def test_the_digest_is_always_the_same() -> None:
    """What is written in catalogs: whoever changes it needs a migration."""
    assert _tags.digest(("v1", 7, 1_700_000_000_000_000)).hex() == "90222ee3e304db69"
    values = (b"\x00\xff" * 16, None, "ö\ud800'\"\n", -1)
    assert SealedRows(schema.touch).digest(values).hex() == "0359f3519c26aa85"
    assert SealedRows(schema.stream).digest(("v1", 7, 1_700_000_000_000_000)) != _tags.digest(
        ("v1", 7, 1_700_000_000_000_000)
    ), "the same row of another table"


def tag(name: str, snapshot: int, time: int = 5) -> dict[str, object]:
    return {"name": name, "snapshot": snapshot, "time": time}


@pytest.fixture
def tagged(catalog: Catalog) -> Catalog:
    """Two snapshots, each with a tag."""
    one, two = add_snapshot(catalog, "one"), add_snapshot(catalog, "two")
    with catalog.write() as connection:
        catalog.tags.add(connection, "v1", one.sequence, 5)
        catalog.tags.add(connection, "v2", two.sequence, 6)
    return catalog


def damage(catalog: Catalog, table: Table, where: object, **values: object) -> None:
    """Change a row as an accident does: its digest stays."""
    with catalog.write() as connection:
        done = connection.execute(table.update().where(where).values(values))  # type: ignore[arg-type]
        assert done.rowcount == 1


def test_a_tag_that_was_moved_is_named(tagged: Catalog) -> None:
    damage(tagged, schema.tag, schema.tag.c.name == "v1", snapshot=2)
    for read in (lambda: tagged.tags.find("v1"), tagged.tags.all):
        with pytest.raises(Corruption, match="row 'v1' of table 'tag' is not as it was written"):
            read()
    assert tagged.tags.find("v2") is not None


def test_a_sound_row_in_another_place_is_damage(tagged: Catalog) -> None:
    """All of it is as it was written, but elsewhere."""
    tag_of, table = schema.tag.c.name, schema.tag
    damage(tagged, table, tag_of == "v1", name="v3")
    with pytest.raises(Corruption, match="row 'v3' of table 'tag'"):
        tagged.tags.find("v3")


def test_a_change_does_not_seal_damage(tagged: Catalog) -> None:
    damage(tagged, schema.tag, schema.tag.c.name == "v1", time=99)
    is_tag = schema.tag.c.name == "v1"
    with pytest.raises(Corruption, match="'v1'"), tagged.write() as connection:
        _tags.update(connection, [is_tag], {"snapshot": 2})
    with pytest.raises(Corruption, match="'v1'"):
        tagged.tags.find("v1")


def test_rows_are_added_changed_and_removed(tagged: Catalog) -> None:
    name = schema.tag.c.name
    with tagged.write() as connection:
        assert _tags.insert_missing(connection, [tag("v1", 2), tag("v3", 2)]) == 1
        _tags.put(connection, [tag("v2", 1, 8), tag("v4", 1)])
        changed = _tags.update(connection, [name > "v2"], lambda row: {"time": row["time"] + 1})
        assert sorted((row["name"], row["time"]) for row in changed) == [("v3", 6), ("v4", 6)]
        assert _tags.update(connection, [name == "v9"], {"time": 1}) == []
        assert _tags.delete(connection, name == "v3") == 1
    found = {row.name: (row.snapshot, row.time) for row in tagged.tags.all()}
    assert found == {"v1": (1, 5), "v2": (1, 8), "v4": (1, 6)}
    with pytest.raises(IntegrityError), tagged.write() as connection:
        _tags.insert(connection, [tag("v1", 1)])


def test_numbers_are_given_once(catalog: Catalog) -> None:
    packs = SealedRows(schema.pack)
    rows = [{"name": name, "level": 0} for name in "abc"]
    with catalog.write() as connection:
        assert packs.insert_numbered(connection, rows) == [1, 2, 3]
        assert packs.delete(connection, schema.pack.c.position > 1) == 2
        assert packs.insert_numbered(connection, [{"name": "d", "level": 0}]) == [4]
    assert catalog.packs.names() == ["a", "d"]


def test_a_damaged_epoch_stops_every_branch(tagged: Catalog) -> None:
    with tagged.write() as connection:
        tagged.branches.add(connection, "main", 1, 5)
    damage(tagged, schema.meta, schema.meta.c.name == "epoch", value="1")
    reads: list[Callable[[], object]] = [
        lambda: tagged.branches.find("main"),
        lambda: tagged.branches.branch_or_tag("main"),
        tagged.branches.all,
        lambda: tagged.meta("epoch"),
    ]
    for read in reads:
        with pytest.raises(Corruption, match="row 'epoch' of table 'meta'"):
            read()


# --- no other way to write -----------------------------------------------------------------------

SOURCE = Path(livingdb.__file__).parent
WRITERS = {"catalog/sealed_rows.py", "catalog/journal.py", "catalog/migrations.py"}
"""Those that write: all rows, the journal, and catalogs of before there were digests."""
_WORDS = ("INSERT INTO ", "DELETE FROM ", "REPLACE INTO ", "UPDATE ")


def tables_of(module: ast.Module) -> set[str]:
    """What a module calls tables of the catalog."""
    found = set()
    for node in ast.walk(module):
        if not isinstance(node, ast.Assign):
            continue
        names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for name, value in zip(names, values, strict=False):
            if isinstance(name, ast.Name) and ast.unparse(value).startswith("schema."):
                found.add(name.id)
    return found


def writes(module: ast.Module) -> Iterator[str]:
    """Statements of a module that write rows by themselves."""
    tables = tables_of(module)
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module == "sqlalchemy":
            yield from {alias.name for alias in node.names} & {"insert", "update", "delete"}
        if not isinstance(node, ast.Call):
            continue
        words = ast.unparse(node.func)
        owner, _, verb = words.rpartition(".")
        is_table = owner in tables or owner.startswith("schema.") or owner.endswith(".table")
        if (verb in ("insert", "update", "delete") and is_table) or verb == "insert_into":
            yield words
        if verb in ("text", "exec_driver_sql") and any(
            word in ast.unparse(node) for word in _WORDS
        ):
            yield words


def test_nothing_else_writes_rows_of_the_catalog() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): list(writes(ast.parse(path.read_text())))
        for path in SOURCE.rglob("*.py")
        if "sqlalchemy" in path.read_text()
    }
    assert {name for name, statements in found.items() if statements} == WRITERS


@pytest.mark.parametrize(
    "statement",
    [
        "schema.tag.insert()",
        "_a, _tag = schema.a, schema.tag\n_tag.update().where(x)",
        "rows.table.delete()",
        "from sqlalchemy import delete",
        "connection.execute(text('DELETE FROM tag'))",
    ],
)
def test_a_statement_that_writes_is_seen(statement: str) -> None:
    assert list(writes(ast.parse(statement)))
