"""Schema changes of one table: what they make of schemas, which directions they allow, errors."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.property.lens_lab import MemorySide, Pair

import livingdb.evolution
from livingdb import Layout
from livingdb.errors import (
    Corruption,
    DuplicateKey,
    InvalidData,
    InvalidName,
    LivingDBError,
    NotFound,
    Unsupported,
)
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ConcatColumns,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropTable,
    MaskColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitColumn,
)
from livingdb.evolution.lenses.lens import Lens
from livingdb.tables.identity import column_number, numbered_column_id
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

ALL = {"forward", "reverse", "both", "none"}
FORWARD = {"forward", "none"}
REVERSE = {"reverse", "none"}


def definitions() -> dict[str, Definition]:
    """Orders of customers, with a check and a computed column."""
    orders = TableSchema.of(
        {
            "id": "bigint",
            "customer": "int",
            "amount": "double not null",
            "count": "int",
            "big": "bigint",
            "name": "string",
            "first": "string",
            "last": "string not null",
            "day": "date",
            "tags": "array<string>",
            "twice": "double",
            "city": "string",
        },
        "id",
        {"city": "Oslo"},
        {"customer": "customers"},
    )
    orders = orders.with_column(replace(orders.column("twice"), computed="amount * 2"))
    orders = replace(orders, checks=(("counted", "count >= 0 OR big > 0"),))
    customers = TableSchema.of({"id": "int", "name": "string"}, "id")
    layout = Layout(groups=[["amount", "name"], ["first", "last"], ["city"]])
    return {
        "orders": Definition(orders, layout),
        "customers": Definition(customers, Layout()),
        "payments": Definition(
            TableSchema.of({"id": "int", "order": "bigint"}, "id", None, {"order": "orders"}),
            Layout(),
        ),
    }


def plan(change: SchemaChange) -> Lens:
    return change.plan(definitions())


def new_schema(change: SchemaChange, table: str = "orders") -> TableSchema:
    return plan(change).new[table].schema


def names(schema: TableSchema) -> list[str]:
    return [column.name for column in schema.columns]


# --- directions -----------------------------------------------------------------------------------

LEGAL: list[tuple[SchemaChange, set[str]]] = [
    (AddColumn("orders", "vat", "double"), ALL),
    (AddColumn("orders", "vat", "double not null", default=0.0), ALL),
    (AddColumn("orders", "vat", "double", nullable=False), REVERSE),
    (AddColumn("orders", "vat", "double not null", up="amount * 0.25"), ALL),
    (AddColumn("orders", "vat", "double", computed="amount * 0.25"), ALL),
    (DropColumn("orders", "name"), ALL),
    (DropColumn("orders", "last"), FORWARD),
    (DropColumn("orders", "last", default="?"), ALL),
    (DropColumn("orders", "last", down="coalesce(first, '')"), ALL),
    (DropColumn("orders", "twice"), ALL),
    (RenameColumn("orders", "name", "title"), ALL),
    (RenameTable("orders", "sales"), ALL),
    (CreateTable("new", {"id": "int"}, "id"), ALL),
    (DropTable("payments"), ALL),
    (RetypeColumn("payments", "order", "bigint"), set()),
    (RetypeColumn("orders", "day", "timestamp_ntz"), ALL),
    (RetypeColumn("orders", "day", "string"), ALL),
    (RetypeColumn("orders", "day", "string", "reject"), ALL),
    (RetypeColumn("orders", "day", "string", "null"), ALL),
    (RetypeColumn("orders", "name", "int"), ALL),
    (RetypeColumn("orders", "name", "int", "reject"), ALL),
    (RetypeColumn("orders", "name", "int", "null"), ALL),
    (RetypeColumn("orders", "name", "int", up="length(name)"), ALL),
    (RetypeColumn("orders", "tags", "string", up="array_join(tags, ',')"), FORWARD),
    (RetypeColumn("orders", "tags", "string", up="tags[0]", down="array(tags)"), ALL),
    (RetypeColumn("orders", "count", "bigint"), ALL),
    (RetypeColumn("orders", "count", "bigint", "reject"), ALL),
    (RetypeColumn("orders", "big", "int"), ALL),
    (RetypeColumn("orders", "big", "int", "reject"), ALL),
    (SplitColumn("orders", "name", ["given", "family"], separator=" "), ALL),
    (SplitColumn("orders", "name", ["a", "b"], {"a": "upper(name)", "b": "name"}), FORWARD),
    (SplitColumn("orders", "name", ["a", "b"], {"a": "upper(name)", "b": "name"}, "b"), ALL),
    (ConcatColumns("orders", ["first", "last"], "whole", separator=" "), ALL),
    (ConcatColumns("orders", ["first", "last"], "whole", "concat(first, last)"), FORWARD),
    (AddConstraint("orders", check="amount > 0"), ALL),
    (AddConstraint("orders", check="amount > 0", on_violation="quarantine"), ALL),
    (AddConstraint("orders", check="big > 0", on_violation="repair", repair="1"), ALL),
    (AddConstraint("orders", check="amount > 0", on_violation=None), REVERSE),
    (AddConstraint("orders", not_null="name"), ALL),
    (AddConstraint("orders", not_null="name", on_violation=None), REVERSE),
    (AddConstraint("customers", foreign_key=("id", "payments")), ALL),
    (AddConstraint("customers", foreign_key=("id", "payments"), on_violation=None), REVERSE),
    (DropConstraint("orders", "counted"), ALL),
    (DropConstraint("orders", "counted", on_violation=None), FORWARD),
    (DropConstraint("orders", not_null="last", on_violation="quarantine"), ALL),
    (DropConstraint("orders", foreign_key="customer"), ALL),
    (DropConstraint("orders", foreign_key=("customer", "customers"), on_violation=None), FORWARD),
    (MaskColumn("orders", "name"), ALL),
    (MaskColumn("orders", "last"), FORWARD),
    (MaskColumn("orders", "name", "constant", "***"), ALL),
]


def _shown(value: object) -> str:
    return " ".join(sorted(value)) if isinstance(value, set) else str(value)[:60]


@pytest.mark.parametrize(("change", "legal"), LEGAL, ids=_shown)
def test_directions_are_legal_as_the_table_says(change: SchemaChange, legal: set[str]) -> None:
    if not legal:
        with pytest.raises(LivingDBError):
            plan(change)
        return
    verdicts = plan(change).directions()
    assert set(verdicts) == ALL
    assert {name for name, reason in verdicts.items() if reason is None} == legal
    assert all(len(reason) > 20 for reason in verdicts.values() if reason is not None)


@pytest.mark.parametrize(("change", "_"), LEGAL, ids=_shown)
def test_changes_survive_json(change: SchemaChange, _: object) -> None:
    assert SchemaChange.from_json(json.loads(json.dumps(change.to_json()))) == change


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("t", "c", pa.decimal128(5, 2), default=Decimal("1.25")),
        AddColumn("t", "c", pa.list_(pa.string()), default=("a", "b")),
        AddColumn("t", "c", "date", default=datetime.date(2024, 2, 29)),
        AddColumn("t", "c", "binary", default=b"\0\xff"),
        SplitColumn("t", "c", {"a": "int", "b": pa.string()}, {"a": "c", "b": "c"}, "b"),
        CreateTable("t", pa.schema([pa.field("id", pa.int32(), False)]), ["id"]),
        CreateTable(
            "t", {"id": "int", "v": pa.float64()}, ("id",), {"v": 1.5}, {"id": "u"},
            Layout(groups=[["v"]], target_rows=100),
        ),
        AddConstraint("t", foreign_key=["a", "b"]),
        AddConstraint("t", check="a > b", on_violation="repair", repair={"a": "b"}),
    ],
    ids=lambda change: str(change)[:60],
)  # fmt: skip
def test_arguments_of_every_type_survive_json(change: SchemaChange) -> None:
    assert SchemaChange.from_json(json.loads(json.dumps(change.to_json()))) == change


def test_a_change_nobody_knows() -> None:
    with pytest.raises(Corruption, match="there is no schema change 'Nothing'"):
        SchemaChange.from_json({"change": "Nothing"})


# --- schemas --------------------------------------------------------------------------------------


def test_a_new_column_gets_a_new_identity() -> None:
    old = definitions()["orders"].schema
    schema = new_schema(AddColumn("orders", "vat", "double not null", default=0.5))
    column = schema.columns[-1]
    assert (column.id, column.name, column.nullable) == (
        numbered_column_id(old.next_id),
        "vat",
        False,
    )
    assert column.default == 0.5
    assert schema.next_id == old.next_id + 1
    assert schema.columns[:-1] == old.columns


def test_a_computed_column_is_read_only() -> None:
    column = new_schema(AddColumn("orders", "vat", "double", computed="amount * 0.25")).columns[-1]
    assert column.computed == "amount * 0.25"
    assert column.read_only


def test_identities_are_not_given_twice() -> None:
    tables = definitions()
    tables |= DropColumn("orders", "city").plan(tables).new
    schema = AddColumn("orders", "city", "string").plan(tables).new["orders"].schema
    assert schema.column("city").id == numbered_column_id(len(schema.columns))
    assert schema.next_id == len(schema.columns) + 1


def test_a_dropped_column_takes_its_links_and_its_group_with_it() -> None:
    tables = definitions()
    tables |= DropColumn("orders", "customer").plan(tables).new
    assert tables["orders"].schema.foreign_keys == ()
    new = DropColumn("orders", "city").plan(tables).new["orders"]
    assert new.layout.groups == (("amount", "name"), ("first", "last"))


def test_everything_follows_a_renamed_column() -> None:
    tables = definitions()
    for old, to in (("amount", "the sum"), ("count", "n"), ("customer", "buyer"), ("id", "nr")):
        tables |= RenameColumn("orders", old, to).plan(tables).new
    new, before = tables["orders"], definitions()["orders"].schema
    assert [column.id for column in new.schema.columns] == [c.id for c in before.columns]
    assert new.schema.column("the sum").id == before.column("amount").id
    assert new.schema.column("twice").computed == "`the sum` * 2"
    assert new.schema.checks == (("counted", "`n` >= 0 OR big > 0"),)
    assert new.schema.foreign_keys == (("buyer", "customers"),)
    assert new.schema.key == ("nr",)
    assert new.layout.groups == (("the sum", "name"), ("first", "last"), ("city",))


def test_a_retyped_column_keeps_identity_place_and_default() -> None:
    old = definitions()["orders"].schema
    tables = definitions()
    tables |= AddColumn("orders", "rate", "int", default=3).plan(tables).new
    schema = RetypeColumn("orders", "rate", "string").plan(tables).new["orders"].schema
    column = schema.column("rate")
    assert (column.id, column.type, column.default) == (
        numbered_column_id(old.next_id),
        pa.string(),
        "3",
    )
    assert schema.next_id == old.next_id + 1


def test_parts_take_the_place_of_the_whole() -> None:
    lens = plan(SplitColumn("orders", "name", {"a": "string", "b": "string"}, separator=" "))
    old, new = lens.old["orders"].schema, lens.new["orders"]
    at = names(old).index("name")
    assert names(new.schema)[at : at + 2] == ["a", "b"]
    assert [column_number(new.schema.column(name).id) - old.next_id for name in "ab"] == [0, 1]
    assert new.layout.groups is not None
    assert new.layout.groups[0] == ("amount", "a", "b")


def test_the_whole_takes_the_place_of_the_first_part() -> None:
    lens = plan(ConcatColumns("orders", ["first", "last"], "name2", separator=" "))
    new = lens.new["orders"]
    assert names(new.schema)[names(lens.old["orders"].schema).index("first")] == "name2"
    assert not new.schema.column("name2").nullable
    assert new.layout.groups == (("amount", "name"), ("name2",), ("city",))


def test_a_part_may_have_the_name_of_the_whole() -> None:
    schema = new_schema(SplitColumn("orders", "name", ["name", "rest"], separator=" "))
    assert column_number(schema.column("name").id) >= definitions()["orders"].schema.next_id


def test_constraints_are_in_the_schema_of_one_side() -> None:
    checked = new_schema(AddConstraint("orders", check="amount > 0"))
    assert checked.checks[1:] == (("check_1", "amount > 0"),)
    assert not new_schema(AddConstraint("orders", not_null="name")).column("name").nullable
    linked = new_schema(AddConstraint("customers", foreign_key=("id", "payments")), "customers")
    assert linked.foreign_keys == (("id", "payments"),)
    assert new_schema(DropConstraint("orders", "counted")).checks == ()
    assert new_schema(DropConstraint("orders", not_null="last")).column("last").nullable
    assert new_schema(DropConstraint("orders", foreign_key="customer")).foreign_keys == ()


def test_a_masked_column_is_read_only_and_no_foreign_key() -> None:
    schema = new_schema(MaskColumn("orders", "customer"))
    assert schema.column("customer").read_only
    assert schema.foreign_keys == ()
    masked = new_schema(MaskColumn("orders", "city", key="k")).column("city")
    assert masked.default not in (None, "Oslo")


def test_foreign_keys_follow_a_renamed_table() -> None:
    lens = plan(RenameTable("orders", "sales"))
    assert set(lens.old) == {"orders", "payments"}
    assert set(lens.new) == {"sales", "payments"}
    assert lens.new["payments"].schema.foreign_keys == (("order", "sales"),)


def test_a_created_table_is_as_it_was_asked_for() -> None:
    change = CreateTable(
        "lines", {"id": "bigint", "v": "double"}, "id", {"v": 1.0}, {"id": "orders"},
        Layout(target_rows=64),
    )  # fmt: skip
    lens = plan(change)
    assert lens.old == {}
    made = lens.new["lines"]
    assert made.schema == TableSchema.of(
        {"id": "bigint", "v": "double"}, "id", {"v": 1.0}, {"id": "orders"}
    )
    assert made.layout == Layout(target_rows=64)


def test_tables_that_one_side_does_not_have_change_nothing_there() -> None:
    pair = Pair(CreateTable("t", {"id": "int"}, "id").plan({}))
    pair.write_new({"t": ([{"id": 1}], [])})
    assert (pair.old, pair.new) == ({}, {"t": [{"id": 1}]})
    pair.check_laws()
    old = {"t": Definition(TableSchema.of({"id": "int"}, "id"), Layout())}
    pair = Pair(DropTable("t").plan(old), {"t": [{"id": 1}]})
    pair.write_old({"t": ([{"id": 2}], [(1,)])})
    assert (pair.old, pair.new) == ({"t": [{"id": 2}]}, {})
    pair.check_laws()


def test_a_renamed_table_has_the_same_rows() -> None:
    old = {"t": Definition(TableSchema.of({"id": "int", "up": "int"}, "id", None, {"up": "t"}),
                           Layout())}  # fmt: skip
    pair = Pair(RenameTable("t", "u").plan(old), {"t": [{"id": 1, "up": None}]})
    pair.write_old({"t": ([{"id": 2, "up": 1}], [])})
    pair.write_new({"u": ([{"id": 3, "up": 2}], [(1,)])})
    assert pair.old["t"] == pair.new["u"] == [{"id": 2, "up": 1}, {"id": 3, "up": 2}]
    pair.check_laws()


# --- errors ---------------------------------------------------------------------------------------

WRONG: list[tuple[SchemaChange, type[LivingDBError], str]] = [
    (AddColumn("nothing", "a", "int"), NotFound, "there is no table 'nothing'"),
    (AddColumn("orders", "amount", "int"), InvalidData, "there is a column 'amount' already"),
    (AddColumn("orders", "", "int"), InvalidName, "not a column name"),
    (AddColumn("orders", "a", "number"), Unsupported, "there is no type 'number'"),
    (AddColumn("orders", "a", "int", default="x"), InvalidData, "the default 'x' does not fit"),
    (AddColumn("orders", "a", "int", default=1, up="id"), InvalidData, "not both"),
    (AddColumn("orders", "a", "int", up="nothing"), NotFound, "there is no column 'nothing'"),
    (AddColumn("orders", "a", "int", up="count +"), InvalidData, "syntax error at or near"),
    (AddColumn("orders", "a", "int", up="sum(count)"), Unsupported, "aggregates"),
    (AddColumn("orders", "a", "string", up="uuid()"), InvalidData, "something else each time"),
    (AddColumn("orders", "a", "double", computed="rand()"), InvalidData, "something else each"),
    (AddColumn("orders", "a", "int", up="nothing(count)"), Unsupported, "no function 'nothing'"),
    (DropColumn("orders", "nothing"), NotFound, "there is no column 'nothing'"),
    (DropColumn("orders", "id"), InvalidData, "is in the key"),
    (DropColumn("orders", "amount"), InvalidData, "computed column 'twice' reads it"),
    (DropColumn("orders", "big"), InvalidData, "check 'counted' reads it"),
    (DropColumn("orders", "name", default=5), InvalidData, "the default 5 does not fit"),
    (DropColumn("orders", "name", down="name"), NotFound, "there is no column 'name'"),
    (DropColumn("orders", "name", default="a", down="city"), InvalidData, "not both"),
    (DropColumn("orders", "twice", default=1.0), InvalidData, "is computed"),
    (RenameColumn("orders", "nothing", "a"), NotFound, "there is no column 'nothing'"),
    (RenameColumn("orders", "name", "name"), InvalidData, "has that name already"),
    (RenameColumn("orders", "name", "city"), InvalidData, "there is a column 'city' already"),
    (RetypeColumn("orders", "id", "string"), InvalidData, "refers to 'orders'"),
    (RetypeColumn("orders", "twice", "int"), InvalidData, "is computed"),
    (RetypeColumn("orders", "amount", "int"), InvalidData, "'twice' reads it"),
    (RetypeColumn("orders", "big", "int", "clamp"), InvalidData, "'counted' reads it"),
    (RetypeColumn("orders", "customer", "bigint"), InvalidData, "foreign key into 'customers'"),
    (RetypeColumn("orders", "name", "string"), InvalidData, "is string already"),
    (RetypeColumn("orders", "name", "int not null"), InvalidData, "see AddConstraint"),
    (RetypeColumn("orders", "name", "int", "guess"), InvalidData, "choose one of"),
    (RetypeColumn("orders", "name", "int", "clamp"), InvalidData, "only numbers can be clamped"),
    (RetypeColumn("orders", "last", "int", "null"), InvalidData, "is NOT NULL"),
    (RetypeColumn("orders", "tags", "int"), Unsupported, "give an `up` expression"),
    (RetypeColumn("orders", "city", "int"), InvalidData, "the default 'Oslo' does not fit int"),
    (SplitColumn("orders", "name", ["a", "b"]), InvalidData, "how is the column split"),
    (SplitColumn("orders", "name", ["a"], separator=" "), InvalidData, "two or more"),
    (SplitColumn("orders", "name", ["a", "a"], separator=" "), InvalidData, "two or more"),
    (SplitColumn("orders", "name", ["a", "city"], separator=" "), InvalidData, "'city' already"),
    (SplitColumn("orders", "name", ["a", "b"], separator=""), InvalidData, "at least one char"),
    (SplitColumn("orders", "name", ["a", "b"], {"a": "name"}), InvalidData, "expressions for a"),
    (SplitColumn("orders", "name", ["a", "b"], down="a", separator=" "), InvalidData, "not both"),
    (SplitColumn("orders", "day", ["a", "b"], separator="-"), InvalidData, "separator is for text"),
    (SplitColumn("orders", "id", ["a", "b"], separator="-"), InvalidData, "is in the key"),
    (ConcatColumns("orders", ["first"], "a", separator=" "), InvalidData, "two or more"),
    (ConcatColumns("orders", ["first", "last"], "city", separator=" "), InvalidData, "already"),
    (ConcatColumns("orders", ["first", "last"], "a"), InvalidData, "how are they put together"),
    (AddConstraint("orders"), InvalidData, "exactly one"),
    (AddConstraint("orders", check="id > 0", not_null="name"), InvalidData, "exactly one"),
    (AddConstraint("orders", "counted", "id > 0"), InvalidData, "a check 'counted' already"),
    (AddConstraint("orders", check="nothing > 0"), NotFound, "there is no column 'nothing'"),
    (AddConstraint("orders", check="id + 1"), InvalidData, "is no condition"),
    (AddConstraint("orders", check="day < current_date()"), InvalidData, "something else each"),
    (AddConstraint("orders", not_null="last"), InvalidData, "NOT NULL already"),
    (AddConstraint("orders", not_null="name", on_violation="hope"), InvalidData, "choose one of"),
    (AddConstraint("orders", not_null="name", on_violation="repair"), InvalidData, "together"),
    (AddConstraint("orders", not_null="name", repair="'a'"), InvalidData, "come together"),
    (
        AddConstraint("orders", check="big > count", on_violation="repair", repair="1"),
        InvalidData,
        "names 2 columns",
    ),
    (
        AddConstraint("orders", check="amount > 0", on_violation="repair", repair="1"),
        InvalidData,
        "computed column 'twice' reads it",
    ),
    (
        AddConstraint("orders", foreign_key=("name", "customers")),
        InvalidData,
        "the key of 'customers' is int32",
    ),
    (AddConstraint("orders", foreign_key=("customer", "customers")), InvalidData, "key already"),
    (
        AddConstraint("payments", foreign_key=("id", "customers"), on_violation="quarantine"),
        Unsupported,
        "takes on_violation='reject'",
    ),
    (DropConstraint("orders", "nothing"), NotFound, "there are: counted"),
    (DropConstraint("orders", not_null="name"), InvalidData, "nullable already"),
    (DropConstraint("orders", not_null="id"), InvalidData, "is in the key"),
    (DropConstraint("orders", foreign_key="name"), NotFound, "no foreign key 'name'"),
    (MaskColumn("orders", "id", "null"), InvalidData, "is in the key"),
    (MaskColumn("orders", "name", "guess"), InvalidData, "choose one of"),
    (MaskColumn("orders", "name", "constant"), InvalidData, "a value goes with"),
    (MaskColumn("orders", "name", "constant", 5), InvalidData, "does not fit"),
    (MaskColumn("orders", "tags"), InvalidData, "cannot be hashed"),
    (MaskColumn("orders", "amount"), InvalidData, "'twice' reads it"),
    (CreateTable("orders", {"id": "int"}, "id"), InvalidData, "a table 'orders' already"),
    (CreateTable("a", {"id": "int"}, "nr"), InvalidData, "the key name"),
    (CreateTable("a", {"id": "int"}, "id", None, {"id": "nothing"}), NotFound, "not there"),
    (CreateTable("a", {"id": "int"}, "id", layout={"groups": [["b"]]}), InvalidData, "groups"),
    (DropTable("orders"), InvalidData, "'order' of 'payments' is a foreign key"),
    (DropTable("nothing"), NotFound, "there is no table 'nothing'"),
    (RenameTable("orders", "customers"), InvalidData, "a table 'customers' already"),
    (RenameTable("orders", ""), InvalidName, "table"),
]


@pytest.mark.parametrize(("change", "kind", "words"), WRONG, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_said(change: SchemaChange, kind: type[LivingDBError], words: str) -> None:
    with pytest.raises(kind) as caught:
        plan(change)
    assert words in str(caught.value)


# --- rows -----------------------------------------------------------------------------------------


def small(schema: Mapping[str, str], **more: Any) -> dict[str, Definition]:
    made = TableSchema.of({"id": "int", **schema}, "id")
    return {"t": Definition(replace(made, **more), Layout())}


def test_a_column_without_values_needs_an_empty_table() -> None:
    lens = AddColumn("t", "v", "int not null").plan(small({}))
    assert lens.scan_reason() is not None
    with pytest.raises(InvalidData, match="have no value for 'v'"):
        Pair(lens, {"t": [{"id": 1}]})
    pair = Pair(lens)
    pair.write_new({"t": ([{"id": 1, "v": 5}], [])})
    assert pair.old["t"] == [{"id": 1}]


def test_a_value_that_does_not_fit_is_named_with_its_key() -> None:
    lens = RetypeColumn("t", "v", "int", "reject").plan(small({"v": "bigint"}))
    assert lens.scan_reason() == "each value of 'v' must fit int"
    with pytest.raises(InvalidData, match=r"column 'v': 4294967296 in the row with the key 7 does"):
        Pair(lens, {"t": [{"id": 1, "v": 1}, {"id": 7, "v": 2**32}]})


def test_null_for_a_column_that_has_none_is_named_with_its_key() -> None:
    lens = AddColumn("t", "v", "int not null", up="w").plan(small({"w": "int"}))
    with pytest.raises(InvalidData, match="column 'v': null in the row with the key 1"):
        Pair(lens, {"t": [{"id": 1, "w": None}]})


def test_a_broken_constraint_is_named_with_the_key() -> None:
    lens = AddConstraint("t", "positive", "v > 0").plan(small({"v": "int"}))
    assert lens.scan_reason() == "each row must satisfy the check 'positive' (v > 0)"
    with pytest.raises(InvalidData, match=r"the key 2 breaks the check 'positive' \(v > 0\)"):
        Pair(lens, {"t": [{"id": 1, "v": None}, {"id": 2, "v": 0}]})


def test_the_key_of_a_row_in_quarantine_is_taken() -> None:
    change = AddConstraint("t", check="v > 0", on_violation="quarantine")
    pair = Pair(change.plan(small({"v": "int"})), {"t": [{"id": 1, "v": 0}]})
    assert pair.new["t"] == []
    with pytest.raises(DuplicateKey, match="the key 1 on the other side"):
        pair.write_new({"t": ([{"id": 1, "v": 5}], [])})
    pair.write_old({"t": ([{"id": 1, "v": 6}], [])})
    assert pair.new["t"] == [{"id": 1, "v": 6}]


def test_lenses_that_may_leave_rows_out_say_so() -> None:
    tables = small({"v": "int"}, checks=(("c", "v > 0"),))
    for on_violation, repair in (("reject", None), ("quarantine", None), ("repair", "1")):
        options = {"on_violation": on_violation, "repair": repair}
        added = AddConstraint("t", check="v > 1", **options).plan(tables)  # type: ignore[arg-type]
        dropped = DropConstraint("t", "c", **options).plan(tables)  # type: ignore[arg-type]
        assert added.drops == (on_violation != "reject")  # type: ignore[attr-defined]
        assert not dropped.drops  # type: ignore[attr-defined]


def test_a_foreign_key_is_checked_against_the_rows_there_are() -> None:
    parent = Definition(TableSchema.of({"nr": "int"}, "nr"), Layout())
    tables = {**small({"v": "int"}), "p": parent}
    lens = AddConstraint("t", foreign_key=("v", "p")).plan(tables)
    side = MemorySide(tables)
    side.apply({"p": side.delta("p", [{"nr": 5}], [])})
    side.apply({"t": side.delta("t", [{"id": 1, "v": 5}, {"id": 2, "v": None}], [])})
    lens.check(side)
    side.apply({"t": side.delta("t", [{"id": 3, "v": 6}], [])})
    with pytest.raises(InvalidData, match="'p' has no row with the key 6"):
        lens.check(side)


def test_a_foreign_key_can_be_planned_without_its_target() -> None:
    lens = AddConstraint("t", foreign_key=("v", "p")).plan(small({"v": "int"}))
    assert lens.new["t"].schema.foreign_keys == (("v", "p"),)


def test_fields_of_structs_are_expressions() -> None:
    tables = small({"s": "struct<a:int,b:string>"})
    pair = Pair(
        AddColumn("t", "v", "int", computed="s.a + 1").plan(tables),
        {"t": [{"id": 1, "s": {"a": 4, "b": "x"}}]},
    )
    assert pair.new["t"][0]["v"] == 5
    renamed = RenameColumn("t", "s", "r").plan({"t": pair.lens.new["t"]})
    assert renamed.new["t"].schema.column("v").computed == "`r`.a + 1"


def test_nested_values_cross() -> None:
    tables = small({"l": "array<int>", "m": "map<string,int>", "s": "struct<a:int>"})
    rows = [
        {"id": 1, "l": [1, None], "m": [("a", 1)], "s": {"a": None}},
        {"id": 2, "l": None, "m": None, "s": None},
    ]
    pair = Pair(AddColumn("t", "v", "array<int>", default=[7]).plan(tables), {"t": rows})
    assert [row["v"] for row in pair.new["t"]] == [[7], [7]]
    pair.check_laws()
    pair = Pair(DropColumn("t", "m").plan(tables), {"t": rows})
    pair.write_new({"t": ([{"id": 1, "l": [], "s": None}], [])})
    assert pair.old["t"][0] == {"id": 1, "l": [], "m": [("a", 1)], "s": None}


# --- the package ----------------------------------------------------------------------------------


def test_every_exported_name_is_there() -> None:
    for name in livingdb.evolution.__all__:
        assert getattr(livingdb.evolution, name).__name__ == name


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, livingdb.evolution; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"duckdb", "pandas", "pyspark", "sqlglot"}
