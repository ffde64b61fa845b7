"""Identities: the rule by which they are derived, and how definitions write them down."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from blake3 import blake3
from tests.ids import counted

from livingdb.chunks.address import Address
from livingdb.tables import identity
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

CHANGE = "000102030405060708090a0b0c0d0e0f"
COLUMN = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"
SNAPSHOT = Address(bytes(range(32)))

GOLDEN = {
    "table 0": (identity.table_id(CHANGE, 0), ("table", CHANGE, "00000000")),
    "table 1": (identity.table_id(CHANGE, 1), ("table", CHANGE, "01000000")),
    "column 0": (identity.column_id(CHANGE, 0), ("column", CHANGE, "00000000")),
    "column 258": (identity.column_id(CHANGE, 258), ("column", CHANGE, "02010000")),
    "copy": (
        identity.copied_column_id(CHANGE, 1, 2, COLUMN),
        ("copy", CHANGE, "01000000", "02000000", COLUMN),
    ),
    "output table": (identity.output_table_id(CHANGE), ("output table", CHANGE)),
    "output column": (
        identity.output_column_id(CHANGE, "größe"),
        ("output column", CHANGE, "größe".encode().hex()),
    ),
    "recorded change": (
        identity.recorded_change_id('{"change": "DropTable", "table": "t"}'),
        ("recorded change", b'{"change": "DropTable", "table": "t"}'.hex()),
    ),
    "recorded table": (
        identity.recorded_table_id(SNAPSHOT, "orders"),
        ("recorded table", SNAPSHOT.hex(), b"orders".hex()),
    ),
}

VALUES = {
    "table 0": "c51f8cd0c1dcb3c498e61048dc9ce0a2",
    "table 1": "8f8c89dfdc061e4443a3a9e61734f09e",
    "column 0": "cd51ef0110e269adbd8461a9683b27a0",
    "column 258": "a3f114a715334a4e57926117afaf620e",
    "copy": "b64b3c36535a5dd6ad7e9c5b89574b5d",
    "output table": "fdc153626bb98950224a510b6a943af8",
    "output column": "915f890f38f028e6d7746196131e895b",
    "recorded change": "c190598b66759ce86b2cd3c199ef6e3a",
    "recorded table": "c9417c643e7524ca311231b8be161af7",
    "numbered definition": "0aa0c8f148ce8cc65f5ae6a2f5cbdbf4fc2b834fe15d603a41ef65aec3275eb8",
    "identified definition": "8ee30076fa7b174852db98aed3a4e00ca011a7d69a8f1e7539f51b767bcaf4e0",
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_rule(name: str) -> None:
    """As docs/format.md says it, computed a second way."""
    made, (kind, *parts) = GOLDEN[name]
    whole = blake3(f"livingdb {kind}\0".encode() + bytes.fromhex("".join(parts))).digest(16)
    assert int(made, 16) == int.from_bytes(whole, "big") | 1 << 127
    assert made == VALUES[name]


def test_everything_has_an_identity_of_its_own() -> None:
    other = CHANGE[::-1]
    made = [
        make(change, ordinal)
        for make in (identity.table_id, identity.column_id)
        for change in (CHANGE, other)
        for ordinal in range(300)
    ]
    made += [
        identity.copied_column_id(change, table, source, column)
        for change in (CHANGE, other)
        for table in range(3)
        for source in range(3)
        for column in (COLUMN, CHANGE)
    ]
    made += [identity.output_column_id(CHANGE, name) for name in ("", "a", "A", "a\0")]
    made += [identity.output_table_id(CHANGE)]
    made += [identity.numbered_column_id(number) for number in range(300)]
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {32}


def test_numbers_are_never_those_of_today() -> None:
    for number in (0, 1, 255, 2**31):
        numbered = identity.numbered_column_id(number)
        assert numbered[0] == "0"
        assert identity.column_number(numbered) == number
    assert all(made[0] in "89abcdef" for made, _ in GOLDEN.values())


def test_new_identities_are_random_unless_counted() -> None:
    some = [identity.new_id() for _ in range(10)]
    assert len(set(some)) == 10
    assert {len(bytes.fromhex(each)) for each in some} == {16}
    for _ in range(2):
        with counted():
            assert [int(identity.new_id(), 16) for _ in range(3)] == [1, 2, 3]
    assert int(identity.new_id(), 16) > 3


# --- definitions -----------------------------------------------------------------------------

SCHEMA = TableSchema.of({"id": "bigint", "city": "string", "x": "int"}, "id", {"x": 1})
NUMBERED = Definition(SCHEMA, Layout())


def test_a_numbered_definition_is_written_as_it_always_was() -> None:
    written = NUMBERED.to_json()
    assert "id" not in written
    assert [column["id"] for column in written["schema"]["columns"]] == [0, 1, 2]
    assert written["schema"]["next_id"] == 3
    assert NUMBERED.to_chunk().address.hex() == VALUES["numbered definition"]
    again = Definition.from_json(json.loads(json.dumps(written)))
    assert again == NUMBERED
    assert again.to_chunk() == NUMBERED.to_chunk()


def test_a_definition_with_identities() -> None:
    definition = NUMBERED.identified(CHANGE)
    assert definition.id == identity.table_id(CHANGE, 0)
    assert [c.id for c in definition.schema.columns] == [
        identity.column_id(CHANGE, ordinal) for ordinal in range(3)
    ]
    written = json.loads(json.dumps(definition.to_json()))
    assert "next_id" not in written["schema"]
    assert Definition.from_json(written) == definition
    assert definition.to_chunk().address.hex() == VALUES["identified definition"]


def test_a_table_of_old_with_a_column_of_today() -> None:
    """Its own identity is in history; that the definition does not say it is said."""
    known = replace(SCHEMA.column("x"), id=identity.column_id(CHANGE, 0))
    columns = (*SCHEMA.columns[:2], known)
    mixed = Definition(replace(SCHEMA, columns=columns, next_id=None), Layout())
    written = json.loads(json.dumps(mixed.to_json()))
    assert written["id"] is None
    assert [c["id"] for c in written["schema"]["columns"][:2]] == ["0" * 32, "0" * 31 + "1"]
    assert Definition.from_json(written) == mixed


def test_definitions_that_differ_in_identity_alone_are_alike() -> None:
    one, other = NUMBERED.identified(CHANGE), NUMBERED.identified(COLUMN)
    assert one != other
    assert one.is_alike(other)
    assert one.is_alike(NUMBERED)
    assert NUMBERED.is_alike(other)
    wider = replace(one.schema, columns=one.schema.columns[:2])
    assert not replace(one, schema=wider).is_alike(other)
    assert not replace(one, layout=Layout(target_rows=64)).is_alike(other)
