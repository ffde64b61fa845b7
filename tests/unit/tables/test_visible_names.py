"""A name holds no character that nobody sees."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import InvalidName
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    AddUnique,
    MaskColumn,
    RenameColumn,
    RenameTable,
)
from livingdb.tables.visible_names import check_visible

UNSEEN = [
    "a\u200bb",  # zero width space
    "a\u202eb",  # right to left from here on
    "a\u2066b",
    "a\ufeffb",
    "a\u00adb",  # soft hyphen
    "a\u00a0b",
    "a\u3164b",  # a filler
    "a\ufe0f",
    "a\nb",
    "a\u2028b",
    "\U000e0101a",
]
SEEN = ["a", "a b", "städte", "店", "عدد", "a\u0301", "-", "😀", "\U0001f1f3"]


@pytest.mark.parametrize("name", SEEN)
def test_what_is_seen(name: str) -> None:
    check_visible("column", name)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> livingdb.Database:
    folder: Path = tmp_path_factory.mktemp("names")
    database = livingdb.create(folder / "shop.ldb", engine="embedded")
    database.branch("main").create_table("t", {"id": "bigint", "v": "int"}, key="id")
    return database


def nested(name: str) -> pa.DataType:
    """A type with a field of that name."""
    return pa.list_(pa.struct([("a", pa.map_(pa.string(), pa.struct([(name, pa.int64())])))]))


@pytest.mark.parametrize("name", UNSEEN)
def test_what_is_not_seen_is_refused_wherever_names_are_made(
    db: livingdb.Database, name: str
) -> None:
    main, head = db.branch("main"), db.branch("main").head.id
    for refused in (
        lambda: main.create_table(name, {"id": "bigint"}, key="id"),
        lambda: main.create_table("u", {"id": "bigint", name: "string"}, key="id"),
        lambda: main.evolve(AddColumn("t", name, "string")),
        lambda: main.evolve(RenameColumn("t", "id", name)),
        lambda: main.evolve(RenameTable("t", name)),
        lambda: main.derive("v", sql=f"SELECT id AS `{name}` FROM t", key=name),
        lambda: main.create_table("u", {"id": "bigint", "s": nested(name)}, key="id"),
        lambda: main.evolve(AddConstraint("t", name=name, check="id > 0")),
        lambda: main.evolve(AddUnique("t", ["v"], name=name)),
        lambda: db.label("t.id", name),
        lambda: main.create_index("t", ["v"], name=name),
        lambda: main.clone(name),
        lambda: db.tag(name, "main"),
        lambda: main.derive(name, sql="SELECT id FROM t"),
    ):
        with pytest.raises(InvalidName, match="not allowed"):
            refused()
    assert main.head.id == head
    assert main.tables() == ["t"]


def test_half_a_character_is_in_no_name(db: livingdb.Database) -> None:
    main, head, name = db.branch("main"), db.branch("main").head.id, "a\ud800b"
    for refused in (
        lambda: main.create_table(name, {"id": "bigint"}, key="id"),
        lambda: main.create_table("u", {"id": "bigint", name: "string"}, key="id"),
        lambda: main.evolve(RenameColumn("t", "id", name)),
        lambda: main.evolve(RenameTable("t", name)),
        lambda: main.evolve(AddConstraint("t", name=name, check="id > 0")),
        lambda: db.label("t.id", name),
        lambda: db.label(f"t.{name}", "personal"),
        lambda: main.create_index("t", ["v"], name=name),
        lambda: main.clone(name),
        lambda: db.tag(name, "main"),
        lambda: db.people.add(name),
        lambda: main.derive(name, sql="SELECT id FROM t"),
        lambda: main.table(name),
        lambda: main.sql(f"SELECT `{name}` FROM t"),
        lambda: main.sql(f"SELECT id AS `{name}` FROM t"),
        lambda: main.sql("SELECT :v AS v", {"v": name}),
        lambda: main.sql(f"SELECT '{name}' AS v"),
        lambda: db.sync(name),
        lambda: db.people.remove(name),
        lambda: db.drop_tag(name),
        lambda: db.unlabel(f"t.{name}"),
        lambda: db.history("main", name, 1),
        lambda: db.history("main", "t", name),
        lambda: main.derive("v", sql=f"SELECT id FROM t WHERE v = '{name}'"),
        lambda: main.evolve(MaskColumn("t", "v", key=name)),
        lambda: main.export(f"/nowhere/{name}"),
        lambda: db.backup(f"/nowhere/{name}"),
        lambda: livingdb.open(f"/nowhere/{name}"),
        lambda: livingdb.create(f"/nowhere/{name}"),
        lambda: livingdb.create("/nowhere/a\0b"),
        lambda: livingdb.restore(f"/nowhere/{name}", "/nowhere/b"),
        lambda: db.rename_branch("main", name),
    ):
        with pytest.raises(livingdb.LivingDBError):
            refused()
    assert main.head.id == head
