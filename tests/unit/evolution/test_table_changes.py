"""Changes of whole tables: what they make of schemas, when they are legal, what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from tests.property.lens_lab import Pair

from livingdb.errors import (
    DuplicateKey,
    InvalidData,
    InvalidName,
    LivingDBError,
    NotFound,
    Unsupported,
)
from livingdb.evolution.changes.change_key import ChangeKey
from livingdb.evolution.changes.decompose import Decompose
from livingdb.evolution.changes.join_tables import JoinTables
from livingdb.evolution.changes.normalize import Normalize
from livingdb.evolution.changes.split_table import SplitTable
from livingdb.evolution.changes.union_tables import UnionTables
from livingdb.evolution.lenses import lookup_lens as lookups
from livingdb.evolution.lenses import normalize_lens
from livingdb.evolution.lenses.lens import DIRECTIONS
from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.identity import column_number
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

Tables = dict[str, Definition]


def table(columns: dict[str, Any], key: str | list[str] = "id", **options: Any) -> Definition:
    layout = options.pop("layout", Layout())
    checks = tuple(options.pop("checks", {}).items())
    computed = options.pop("computed", {})
    schema = TableSchema.of(columns, key, **options)
    made = [replace(column, computed=computed.get(column.name)) for column in schema.columns]
    return Definition(replace(schema, columns=tuple(made), checks=checks), layout)


def shown(definition: Definition) -> dict[str, str]:
    """Columns as a user would write them."""
    return {
        column.name: f"{column.type}{'' if column.nullable else ' not null'}"
        for column in definition.schema.columns
    }


PEOPLE = table(
    {"id": "bigint", "name": "string not null", "city": "string", "zip": "int", "boss": "bigint"},
    layout=Layout(target_rows=64, groups=[["city", "boss"], ["zip"]]),
)


def people(**more: Definition) -> Tables:
    return {"people": PEOPLE, **more}


# --- what becomes of schemas ------------------------------------------------------------------


def test_decompose_makes_tables_with_the_key() -> None:
    change = Decompose("people", {"people": ["name", "zip"], "places": ["city", "boss"]})
    new = change.plan(people()).new
    assert shown(new["people"]) == {
        "id": "int64 not null", "name": "string not null", "zip": "int32",
    }  # fmt: skip
    assert shown(new["places"]) == {"id": "int64 not null", "city": "string", "boss": "int64"}
    for name, groups in (("people", (("zip",),)), ("places", (("city", "boss"),))):
        schema = new[name].schema
        assert [column_number(column.id) for column in schema.columns] == [0, 1, 2]
        assert (schema.key, schema.next_id) == (("id",), 3)
        assert new[name].layout == Layout(target_rows=64, groups=groups)
        new[name].layout.grouping(schema)


def test_foreign_keys_and_checks_go_with_their_columns() -> None:
    town = table({"town": "string", "size": "int"}, "town")
    person = table(
        {"id": "bigint", "town": "string", "age": "int", "half": "int"},
        foreign_keys={"town": "towns"},
        checks={"grown": "age > 17"},
        computed={"half": "age / 2"},
    )
    tables = {"people": person, "towns": town}
    new = Decompose("people", {"homes": ["town"], "ages": ["age", "half"]}).plan(tables).new
    assert new["homes"].schema.foreign_keys == (("town", "towns"),)
    assert new["homes"].schema.checks == ()
    assert new["ages"].schema.foreign_keys == ()
    assert new["ages"].schema.checks == (("grown", "age > 17"),)
    narrow = Normalize("people", ["town"], "homes").plan(tables).new
    assert narrow["homes"].schema.foreign_keys == (("town", "towns"),)
    assert narrow["people"].schema.foreign_keys == (("homes_id", "homes"),)
    assert narrow["people"].schema.checks == (("grown", "age > 17"),)


def test_normalize_refers_to_a_lookup_table() -> None:
    new = Normalize("people", ["zip", "city"], "places", key="place").plan(people()).new
    assert shown(new["people"]) == {
        "id": "int64 not null", "name": "string not null", "boss": "int64", "places_place": "int64",
    }  # fmt: skip
    assert shown(new["places"]) == {"place": "int64 not null", "zip": "int32", "city": "string"}
    narrow, lookup = new["people"].schema, new["places"].schema
    assert narrow.foreign_keys == (("places_place", "places"),)
    assert [column_number(column.id) for column in narrow.columns] == [0, 1, 4, 5]
    assert narrow.next_id == 6
    assert [column_number(column.id) for column in lookup.columns] == [0, 1, 2]
    assert new["people"].layout.groups == (("boss",),)
    assert new["places"].layout.groups == (("city",), ("zip",))


def test_what_is_never_null_is_always_referred_to() -> None:
    new = Normalize("people", ["name"], "names", reference="called").plan(people()).new
    assert shown(new["people"])["called"] == "int64 not null"
    with pytest.raises(InvalidData, match="every row refers to one"):
        Normalize("people", ["name"], "names", on_delete="set null").plan(people())


def test_join_puts_the_columns_together() -> None:
    other = table({"key": "bigint", "mail": "string not null"}, "key")
    new = JoinTables("people", "mails", "people").plan(people(mails=other)).new
    assert list(shown(new["people"])) == ["id", "name", "city", "zip", "boss", "mail"]
    assert shown(new["people"])["mail"] == "string not null"
    assert [column_number(column.id) for column in new["people"].schema.columns] == list(range(6))


def test_join_over_a_reference_is_the_mirror_of_normalize() -> None:
    apart = Normalize("people", ["city", "zip"], "places").plan(people()).new
    new = JoinTables("people", "places", "people", on="places_id").plan(apart).new
    assert shown(new["people"]) == {
        **{name: kind for name, kind in shown(PEOPLE).items() if name not in ("city", "zip")},
        "city": "string",
        "zip": "int32",
    }
    assert new["people"].schema.foreign_keys == ()


def test_columns_of_a_row_that_may_be_missing_may_be_null() -> None:
    shop = table({"id": "bigint", "name": "string not null"})
    sale = table({"id": "bigint", "shop": "bigint"}, foreign_keys={"shop": "shops"})
    new = JoinTables("sales", "shops", "sales", on="shop").plan({"shops": shop, "sales": sale}).new
    assert shown(new["sales"]) == {"id": "int64 not null", "name": "string"}


def test_split_and_union_keep_the_columns() -> None:
    new = SplitTable("people", {"north": "zip > 7000", "south": "zip <= 7000"}).plan(people()).new
    assert shown(new["north"]) == shown(new["south"]) == shown(PEOPLE)
    assert new["north"].layout == PEOPLE.layout
    whole = UnionTables(["north", "south"], "people").plan(new).new
    assert shown(whole["people"]) == shown(PEOPLE)
    assert whole["people"].schema.key == ("id",)
    origin = UnionTables(["north", "south"], "people", "part", "south").plan(new).new["people"]
    assert origin.schema.key == ("id", "part")
    assert shown(origin)["part"] == "string not null"
    assert origin.schema.column("part").default == "south"


def test_a_union_takes_what_any_of_the_tables_takes() -> None:
    one = table({"id": "bigint", "a": "int not null", "b": "int"}, defaults={"b": 1})
    two = table({"b": "int", "a": "int", "id": "bigint"}, defaults={"b": 2})
    made = UnionTables(["one", "two"], "w").plan({"one": one, "two": two}).new["w"]
    assert shown(made) == {"id": "int64 not null", "a": "int32", "b": "int32"}
    assert made.schema.column("b").default is None


def test_change_key_keeps_the_columns() -> None:
    new = ChangeKey("people", ["city", "name"]).plan(people()).new["people"]
    assert new.schema.key == ("city", "name")
    assert shown(new) == {**shown(PEOPLE), "city": "string not null"}
    assert [c.id for c in new.schema.columns] == [c.id for c in PEOPLE.schema.columns]
    assert new.layout.groups == (("boss",), ("zip",))


# --- directions -------------------------------------------------------------------------------


PAIRS: Tables = {
    "people": PEOPLE,
    "one": table({"id": "bigint", "a": "int"}),
    "two": table({"id": "bigint", "a": "int"}),
    "other": table({"id": "bigint", "b": "int"}),
    "kinds": table({"kind": "string", "label": "string"}, "kind"),
    "shops": table({"id": "bigint", "label": "string"}),
    "sales": table(
        {"id": "bigint", "shop": "bigint not null", "kind": "string"},
        foreign_keys={"shop": "shops", "kind": "kinds"},
    ),
    "gifts": table({"id": "bigint", "a": "int", "sale": "bigint"}, foreign_keys={"sale": "sales"}),
}
ALL: dict[str, str] = {}


@pytest.mark.parametrize(
    ("change", "reasons", "scans"),
    [
        (Decompose("people", {"a": ["name", "zip"], "b": ["city", "boss"]}), ALL, None),
        (Normalize("people", ["city"], "places"), ALL, None),
        (SplitTable("people", {"a": "zip > 1", "b": "zip < 9"}), ALL, None),
        (
            SplitTable("people", {"a": "zip > 1", "b": "zip = 1", "c": "zip < 1"}, strict=True),
            ALL,
            "exactly one of the conditions",
        ),
        (JoinTables("one", "other", "w"), ALL, None),
        (JoinTables("one", "people", "w"), ALL, "'name' of 'people' is NOT NULL"),
        (JoinTables("gifts", "sales", "w", on="sale"), ALL, None),
        (
            JoinTables("sales", "shops", "sales", on="shop"),
            dict.fromkeys(("reverse", "both"), "'shop' of 'sales' is NOT NULL, and a new row"),
            None,
        ),
        (
            JoinTables("sales", "kinds", "sales", on="kind"),
            dict.fromkeys(("reverse", "both"), "bigint, and the key 'kind' is string"),
            None,
        ),
        (UnionTables(["one", "two"], "w", default="two"), ALL, "no key may be in two"),
        (UnionTables(["one", "two"], "w", origin="from"), ALL, None),
        (
            UnionTables(["one", "two"], "w"),
            dict.fromkeys(("reverse", "both"), "name a default or an origin column"),
            "no key may be in two",
        ),
        (ChangeKey("people", "name"), ALL, "name has to be unique and without nulls"),
        (
            ChangeKey("people", ["name", "city"]),
            dict.fromkeys(("reverse", "both"), "'city' of 'people' may be null on the old side"),
            "name, city has to be unique",
        ),
    ],
    ids=str,
)
def test_directions(change: SchemaChange, reasons: dict[str, str], scans: str | None) -> None:
    lens = change.plan(PAIRS)
    verdicts = lens.directions()
    assert list(verdicts) == list(DIRECTIONS)
    for direction, verdict in verdicts.items():
        assert (verdict is None) == (direction not in reasons), direction
        assert reasons.get(direction, "") in (verdict or "")
    assert (lens.scan_reason() is None) == (scans is None)
    assert (scans or "") in (lens.scan_reason() or "")


@pytest.mark.parametrize(
    "change",
    [
        Decompose("people", {"a": ["name"], "b": ["city", "zip", "boss"]}),
        JoinTables("one", "two", "three"),
        JoinTables("one", "two", "three", on="a"),
        Normalize("people", ["city", "zip"], "places", "key", "place", "fanout", "set null"),
        Normalize("people", ["city"], "places"),
        SplitTable("people", {"north": "zip > 1", "south": "zip < 2"}),
        SplitTable("people", {"north": "zip > 1", "south": "zip <= 1"}, strict=True),
        UnionTables(["one", "two"], "three", "origin", "two"),
        ChangeKey("people", ["name", "city"]),
        ChangeKey("people", "name"),
    ],
    ids=str,
)
def test_json(change: SchemaChange) -> None:
    data = json.loads(json.dumps(change.to_json()))
    assert SchemaChange.from_json(data) == change


# --- what is refused --------------------------------------------------------------------------

REFUSED: list[tuple[Any, type[LivingDBError], str]] = [
    (lambda: Decompose("nobody", {"a": ["x"], "b": ["y"]}), NotFound, "no table 'nobody'"),
    (lambda: Decompose("one", {"x": ["a"]}), InvalidData, "two tables or more"),
    (lambda: Decompose("one", {"x": ["a"], "y": []}), InvalidData, "no columns but the key"),
    (lambda: Decompose("one", {"x": ["a"], "y": ["q"]}), NotFound, "no column 'q'"),
    (lambda: Decompose("one", {"x": ["a"], "y": ["id"]}), InvalidData, "in every part"),
    (lambda: Decompose("one", {"x": ["a"], "y": ["a"]}), InvalidData, "in 'x' and in 'y'"),
    (lambda: Decompose("one", {"x": ["a", "a"], "y": []}), InvalidData, "named twice"),
    (lambda: Decompose("one", ["a"]), InvalidData, "as a dict of lists"),  # type: ignore[arg-type]
    (lambda: Decompose("one", {"x": 3}), InvalidData, "a list of names"),  # type: ignore[dict-item]
    (
        lambda: Decompose("people", {"x": ["name"], "y": ["zip", "city"]}),
        InvalidData,
        "'boss' is in none",
    ),
    (lambda: Decompose("gifts", {"two": ["a"], "y": ["sale"]}), InvalidData, "'two' already"),
    (lambda: Decompose("gifts", {"x/y": ["a"], "y": ["sale"]}), InvalidName, "slashes"),
    (
        lambda: Decompose("sales", {"x": ["shop"], "y": ["kind"]}),
        InvalidData,
        "table 'gifts', column 'sale' refers to 'sales'.*drop that foreign key first",
    ),
    (lambda: Normalize("people", ["id"], "p"), InvalidData, "in the key of 'people'"),
    (lambda: Normalize("people", [], "p"), InvalidData, "no columns of 'people' are named"),
    (lambda: Normalize("people", ["zip"], "one"), InvalidData, "'one' has no column 'zip'"),
    (lambda: Normalize("people", ["zip"], "p", key="zip"), InvalidData, "cannot be 'zip'"),
    (lambda: Normalize("people", ["zip"], "p", key=""), InvalidName, "not a column name"),
    (lambda: Normalize("people", ["zip"], "p", reference="city"), InvalidData, "'city' already"),
    (lambda: Normalize("people", ["zip"], "p", on_update="no"), InvalidData, "'fork' or"),
    (lambda: Normalize("people", ["zip"], "p", on_delete="no"), InvalidData, "'restrict' or"),
    (lambda: JoinTables("one", "one", "w"), InvalidData, "with itself"),
    (lambda: JoinTables("one", "two", "w"), InvalidData, "both have a column 'a'"),
    (lambda: JoinTables("one", "kinds", "w"), InvalidData, "of different types"),
    (lambda: JoinTables("one", "other", "people"), InvalidData, "'people' already"),
    (lambda: JoinTables("gifts", "one", "w", on="sale"), InvalidData, "no foreign key into 'one'"),
    (lambda: JoinTables("gifts", "sales", "w", on="q"), NotFound, "no column 'q'"),
    (lambda: JoinTables("sales", "shops", "w", on="shop"), InvalidData, "'gifts'.*refers"),
    (lambda: SplitTable("one", {"x": "a > 1"}), InvalidData, "two tables, or more if strict"),
    (lambda: SplitTable("one", dict.fromkeys("xyz", "a > 1")), InvalidData, "not 3"),
    (lambda: SplitTable("one", {"x": "a > 1", "y": "q = 1"}), NotFound, "no column 'q'"),
    (lambda: SplitTable("one", {"x": "a > 1", "y": "rand() > 1"}), InvalidData, "each time"),
    (lambda: SplitTable("one", {"x": "a > 1", "y": "count(*) > 1"}), Unsupported, "aggregates"),
    (lambda: SplitTable("shops", {"x": "id = 1", "y": "id = 2"}), InvalidData, "refers to 'shops'"),
    (lambda: UnionTables(["one"], "w"), InvalidData, "two tables or more"),
    (lambda: UnionTables(["one", "other"], "w"), InvalidData, "'a' is int32 in 'one' and not"),
    (lambda: UnionTables(["one", "two"], "w", default="q"), InvalidData, "'q' is none of"),
    (lambda: UnionTables(["one", "two"], "w", origin="a"), InvalidData, "'a' already"),
    (lambda: ChangeKey("people", "id"), InvalidData, "the key of 'people' already"),
    (lambda: ChangeKey("people", []), InvalidData, "at least one column"),
    (lambda: ChangeKey("people", ["zip", "zip"]), InvalidData, "twice"),
    (lambda: ChangeKey("shops", "label"), InvalidData, "'sales', column 'shop' refers to 'shops'"),
]


@pytest.mark.parametrize(("make", "kind", "message"), REFUSED)
def test_refused(make: Any, kind: type[LivingDBError], message: str) -> None:
    with pytest.raises(kind, match=message):
        make().plan(PAIRS)


def test_what_needs_columns_of_two_tables_is_dropped_first() -> None:
    checked = table({"id": "bigint", "a": "int", "b": "int"}, checks={"less": "a < b"})
    added = table({"id": "bigint", "a": "int", "b": "int"}, computed={"b": "a + 1"})
    own = table({"id": "bigint", "a": "int", "b": "int"}, checks={"own": "a < id"})
    right = table({"id": "bigint", "c": "int"})
    for change in (Decompose("t", {"x": ["a"], "y": ["b"]}), Normalize("t", ["a"], "p")):
        with pytest.raises(InvalidData, match="the check 'less' needs a, b, which would be apart"):
            change.plan({"t": checked})
        with pytest.raises(InvalidData, match="the computed column 'b' needs a, b"):
            change.plan({"t": added})
    with pytest.raises(InvalidData, match="'own' needs a, id"):
        Normalize("t", ["a"], "p").plan({"t": own})
    with pytest.raises(InvalidData, match="table 't' has the check 'less'"):
        JoinTables("t", "r", "w").plan({"t": checked, "r": right})
    with pytest.raises(InvalidData, match="table 't' has the computed column 'b'"):
        JoinTables("r", "t", "w").plan({"t": added, "r": right})
    with pytest.raises(InvalidData, match="different checks"):
        UnionTables(["s", "t"], "w").plan({"t": checked, "s": replace_checks(checked)})
    with pytest.raises(InvalidData, match="'b' is not for writers"):
        ChangeKey("t", "b").plan({"t": added})


def replace_checks(definition: Definition) -> Definition:
    return replace(definition, schema=replace(definition.schema, checks=()))


# --- what rows are refused --------------------------------------------------------------------


def test_half_a_row_is_refused_where_the_other_half_is_needed() -> None:
    tables = {"t": table({"id": "bigint", "a": "int", "b": "int not null"})}
    pair = Pair(Decompose("t", {"x": ["a"], "y": ["b"]}).plan(tables), {"t": []})
    with pytest.raises(InvalidData, match=r"'y' has no row with the key 7.*'b' is NOT NULL"):
        pair.write_new({"x": ([{"id": 7, "a": 1}], [])})
    pair.write_new({"y": ([{"id": 7, "b": 1}], [])})
    assert pair.old == {"t": [{"id": 7, "a": None, "b": 1}]}


def test_half_rows_are_found_before_a_join() -> None:
    tables = {
        "x": table({"id": "bigint", "a": "int"}),
        "y": table({"key": "bigint", "b": "int not null"}, "key"),
    }
    lens = JoinTables("x", "y", "t").plan(tables)
    with pytest.raises(InvalidData, match="'y' has no row with the key 2"):
        Pair(lens, {"x": [{"id": 1, "a": 1}, {"id": 2, "a": 1}], "y": [{"key": 1, "b": 1}]})


def test_a_lookup_row_that_is_referred_to_stays() -> None:
    tables = {"t": table({"id": "bigint", "a": "string"})}
    pair = Pair(Normalize("t", ["a"], "p").plan(tables), {"t": [{"id": 1, "a": "x"}]})
    (row,) = pair.new["p"]
    with pytest.raises(InvalidData, match=f"row with the key 1: it refers to the key {row['id']}"):
        pair.write_new({"p": ([], [(row["id"],)])})
    pair.write_old({"t": ([{"id": 1, "a": None}], [])})
    assert pair.new == {"t": [{"id": 1, "p_id": None}], "p": [row]}
    pair.write_new({"p": ([], [(row["id"],)])})
    assert pair.old == {"t": [{"id": 1, "a": None}]}


def test_rows_that_share_values_change_together() -> None:
    tables = {"t": table({"id": "bigint", "a": "string", "b": "int"})}
    lens = Normalize("t", ["a"], "p", on_update="fanout").plan(tables)
    pair = Pair(lens, {"t": [{"id": at, "a": "x", "b": at} for at in (1, 2)]})
    one, two = ({"id": at, "a": "y", "b": at} for at in (1, 2))
    with pytest.raises(InvalidData, match="the row with the key 2 shares a with one that changes"):
        pair.write_old({"t": ([one], [])})
    with pytest.raises(InvalidData, match="the row with the key 2 shares a"):
        pair.write_old({"t": ([one, {**two, "a": "x"}], [])})
    with pytest.raises(InvalidData, match="share a are given different values"):
        pair.write_old({"t": ([one, {**two, "a": "z"}], [])})
    (row,) = pair.new["p"]
    pair.write_old({"t": ([one, two], [])})
    assert pair.new["p"] == [{**row, "a": "y"}]
    pair.write_old({"t": ([{**one, "a": "z"}], [(2,)])})
    assert pair.new["p"] == [{**row, "a": "z"}]


def test_rows_with_one_hash_are_told_apart() -> None:
    tables = {"t": table({"id": "bigint", "a": "string"})}
    lens = Normalize("t", ["a"], "p").plan(tables)

    def weak(rows: pa.Array, attempt: int = 0) -> Any:
        return lookups_row_ids(rows, attempt) * (attempt > 0)

    lookups_row_ids = lookups.row_ids
    rows = [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]
    with (
        mock.patch.object(lookups, "row_ids", weak),
        mock.patch.object(normalize_lens, "row_ids", weak),
    ):
        with pytest.raises(InvalidData, match="different rows of 'p' have one hash"):
            Pair(lens, {"t": rows})
        pair = Pair(lens, {"t": rows[:1]})
        pair.write_old({"t": (rows, [])})
        assert pair.new["p"][0] == {"id": 0, "a": "x"}
        assert pair.new["p"][1]["a"] == "y"


def test_strict_splits_refuse_rows_without_one_place() -> None:
    tables = {"t": table({"id": "bigint", "a": "int"})}
    lens = SplitTable("t", {"r": "a < 2", "s": "a > 0"}, strict=True).plan(tables)
    with pytest.raises(InvalidData, match="the row with the key 3 fulfils 2 of the conditions"):
        Pair(lens, {"t": [{"id": 2, "a": 0}, {"id": 3, "a": 1}]})
    pair = Pair(lens, {"t": [{"id": 2, "a": 0}]})
    with pytest.raises(InvalidData, match="key 5 fulfils 0"):
        pair.write_old({"t": ([{"id": 5, "a": None}], [])})
    with pytest.raises(InvalidData, match=r"table 'r'.*key 5 does not fulfil 'a < 2'"):
        pair.write_new({"r": ([{"id": 5, "a": 5}], [])})
    with pytest.raises(InvalidData, match="the key 2 would be in two of the tables 'r', 's'"):
        pair.write_new({"s": ([{"id": 2, "a": 5}], [])})
    pair.write_new({"s": ([{"id": 2, "a": 5}], []), "r": ([], [(2,)])})
    assert pair.old == {"t": [{"id": 2, "a": 5}]}


def test_unions_refuse_keys_in_two_tables() -> None:
    tables = {name: table({"id": "bigint", "a": "int"}) for name in "xy"}
    lens = UnionTables(["x", "y"], "w", default="y").plan(tables)
    one, two = {"id": 1, "a": 1}, {"id": 2, "a": 2}
    with pytest.raises(DuplicateKey, match="the key 1 is in 'y' and in 'x'"):
        Pair(lens, {"x": [one], "y": [one]})
    pair = Pair(lens, {"x": [one], "y": [two]})
    with pytest.raises(DuplicateKey, match="the key 2 is in 'y' and in 'x'"):
        pair.write_old({"x": ([two], [])})
    pair.write_old({"x": ([two], [(1,)]), "y": ([one], [(2,)])})
    assert pair.new == {"w": [one, two]}
    pair.write_new({"w": ([{"id": 3, "a": 3}, {"id": 2, "a": 9}], [])})
    assert pair.old == {"x": [{"id": 2, "a": 9}], "y": [one, {"id": 3, "a": 3}]}


def test_unions_refuse_what_no_table_takes() -> None:
    tables = {
        "x": table({"id": "bigint", "a": "int not null"}),
        "y": table({"id": "bigint", "a": "int"}),
    }
    pair = Pair(UnionTables(["x", "y"], "w", "from").plan(tables), {})
    with pytest.raises(InvalidData, match="column 'a': null in the row with the key 1"):
        pair.write_new({"w": ([{"id": 1, "a": None, "from": "x"}], [])})
    with pytest.raises(InvalidData, match="'z' is none of the tables 'x', 'y'"):
        pair.write_new({"w": ([{"id": 1, "a": 1, "from": "z"}], [])})


def test_a_key_has_to_be_one() -> None:
    tables = {"t": table({"id": "bigint", "a": "string"})}
    lens = ChangeKey("t", "a").plan(tables)
    with pytest.raises(DuplicateKey, match="'x' is there twice in a"):
        Pair(lens, {"t": [{"id": at, "a": "x" if at in (2, 9) else f"{at}"} for at in range(10)]})
    with pytest.raises(InvalidData, match="'a' of 't' is null in a row"):
        Pair(lens, {"t": [{"id": 1, "a": None}]})
    pair = Pair(lens, {"t": [{"id": 1, "a": "x"}]})
    with pytest.raises(InvalidData, match="column 'a': null in the row"):
        pair.write_old({"t": ([{"id": 1, "a": None}], [])})


def test_both_keys_stay_unique() -> None:
    tables = {"t": table({"id": "bigint", "a": "string not null"})}
    rows = [{"id": 1, "a": "x"}, {"id": 2, "a": "y"}]
    pair = Pair(ChangeKey("t", "a").plan(tables), {"t": rows})
    with pytest.raises(DuplicateKey, match="another row has a 'y' already"):
        pair.write_old({"t": ([{"id": 1, "a": "y"}], [])})
    with pytest.raises(DuplicateKey, match="another row has id 2 already"):
        pair.write_new({"t": ([{"id": 2, "a": "x"}], [])})
    with pytest.raises(DuplicateKey, match="'z' is there twice in a"):
        pair.write_old({"t": ([{"id": 1, "a": "z"}, {"id": 2, "a": "z"}], [])})
    pair.write_old({"t": ([{"id": 1, "a": "y"}, {"id": 2, "a": "x"}], [])})
    assert pair.new == {"t": [{"id": 2, "a": "x"}, {"id": 1, "a": "y"}]}


def test_a_reference_of_any_type_is_joined_forward() -> None:
    tables = {
        "kinds": table({"kind": "string", "label": "string"}, "kind"),
        "sales": table({"id": "bigint", "kind": "string"}, foreign_keys={"kind": "kinds"}),
    }
    lens = JoinTables("sales", "kinds", "sales", on="kind").plan(tables)
    kinds = [{"kind": "é", "label": "x"}, {"kind": "", "label": None}]
    sales = [{"id": at, "kind": kind} for at, kind in enumerate(("é", None, "", "é"))]
    pair = Pair(lens, {"kinds": kinds, "sales": sales})
    assert [row["label"] for row in pair.new["sales"]] == ["x", None, None, "x"]
    pair.write_old({"kinds": ([{"kind": "é", "label": "y"}], []), "sales": ([], [(3,)])})
    assert [row["label"] for row in pair.new["sales"]] == ["y", None, None]
