"""Catalogs: what there is, and how a client chooses the branch or ref that it works on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from pyarrow import flight

from livingdb.server.flight import messages
from livingdb.server.flight.entrance import BRANCH_HEADER


@pytest.fixture(scope="module")
def branched(shop: Any) -> Any:
    """The shop with a branch, a tag and a view."""
    main = shop.db.branch("main")
    shop.db.tag("v1", "main")
    dev = main.clone("dev/one")
    dev.insert("customers", {"id": [3], "name": ["Dev"]})
    text = "SELECT city, count(*) AS n FROM orders GROUP BY city"
    main.derive("cities", sql=text, when="immediate")
    return shop


@pytest.fixture
def connection(branched: Any) -> Iterator[Any]:
    with branched.connect("olga", autocommit=True) as made:
        yield made


def _count(connection: Any) -> int:
    with connection.cursor() as cursor:
        found: int = cursor.execute("SELECT count(*) FROM customers").fetchone()[0]
        return found


def test_objects(connection: Any) -> None:
    found = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    tables = {
        (catalog["catalog_name"], schema["db_schema_name"], table["table_name"]): table
        for catalog in found
        for schema in catalog["catalog_db_schemas"]
        for table in schema["db_schema_tables"]
    }
    assert {key: table["table_type"] for key, table in tables.items()} == {
        ("cities", "", "cities"): "VIEW",
        ("dev/one", "", "customers"): "TABLE",
        ("dev/one", "", "numbers"): "TABLE",
        ("dev/one", "", "orders"): "TABLE",
        ("main", "", "cities"): "VIEW",
        ("main", "", "customers"): "TABLE",
        ("main", "", "numbers"): "TABLE",
        ("main", "", "orders"): "TABLE",
    }
    columns = tables["main", "", "orders"]["table_columns"]
    assert [(column["column_name"], column["xdbc_type_name"]) for column in columns] == [
        ("id", "bigint"),
        ("customer_id", "bigint"),
        ("city", "string"),
        ("price", "decimal(10,2)"),
    ]
    some = connection.adbc_get_objects(
        depth="tables", catalog_filter="main", table_name_filter="c%", table_types_filter=["TABLE"]
    )
    (catalog,) = some.read_all().to_pylist()
    names = [table["table_name"] for table in catalog["catalog_db_schemas"][0]["db_schema_tables"]]
    assert names == ["customers"]


def test_the_columns_of_a_table_are_those_of_where_one_works(branched: Any) -> None:
    other = branched.db.branch("main").clone("before-main")
    other.sql("ALTER TABLE orders ADD COLUMN further INT")
    other.create_table("orderX", {"id": "bigint", "x": "int"}, key="id")
    other.create_table("order_", {"id": "bigint", "y": "int"}, key="id")
    branched.db.tag("v2", "before-main")
    try:
        with branched.connect("olga", autocommit=True) as connection:
            plain = ["id", "customer_id", "city", "price"]
            assert connection.adbc_get_table_schema("orders").names == plain
            assert connection.adbc_get_table_schema("order_").names == ["id", "y"]
            for place in ("before-main", "v2"):
                connection.adbc_current_catalog = place
                assert connection.adbc_get_table_schema("orders").names == [*plain, "further"]
            found = connection.adbc_get_table_schema("orders", catalog_filter="main")
            assert found.names == plain
    finally:
        branched.db.drop_branch("before-main")
        branched.db.drop_tag("v2")


def test_schemas_and_kinds_of_tables(connection: Any) -> None:
    schema = connection.adbc_get_table_schema("orders", catalog_filter="main")
    assert schema.equals(
        pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("customer_id", pa.int64()),
                pa.field("city", pa.string()),
                pa.field("price", pa.decimal128(10, 2)),
            ]
        )
    )
    view = connection.adbc_get_table_schema("cities", catalog_filter="main")
    assert view.names == ["city", "n"]
    assert connection.adbc_get_table_types() == ["TABLE", "VIEW"]
    assert connection.adbc_get_info()["vendor_name"] == "LivingDB"
    with pytest.raises(dbapi.Error):
        connection.adbc_get_table_schema("nothing", catalog_filter="main")


def _ask(shop: Any, name: str, **fields: Any) -> list[dict[str, Any]]:
    """The answer to a command that the driver does not send."""
    options = flight.FlightCallOptions(
        headers=[(b"authorization", f"Bearer {shop.tokens['olga']}".encode())]
    )
    with flight.connect(shop.location) as client:
        descriptor = flight.FlightDescriptor.for_command(messages.pack(name, **fields))
        info = client.get_flight_info(descriptor, options)
        found = client.do_get(info.endpoints[0].ticket, options).read_all()
        assert found.schema == info.schema
        assert client.get_schema(descriptor, options).schema == found.schema
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def test_keys(branched: Any) -> None:
    (key,) = _ask(branched, "CommandGetPrimaryKeys", catalog="main", table="orders")
    assert (key["column_name"], key["key_sequence"]) == ("id", 1)
    asked = [
        ("CommandGetImportedKeys", {"catalog": "main", "table": "orders"}),
        ("CommandGetExportedKeys", {"catalog": "main", "table": "customers"}),
        ("CommandGetCrossReference", {"pk_table": "customers", "fk_table": "orders"}),
    ]
    for name, fields in asked:
        found = [row for row in _ask(branched, name, **fields) if row["fk_catalog_name"] == "main"]
        (link,) = found
        assert link["pk_table_name"], link["pk_column_name"] == ("customers", "id")
        assert link["fk_table_name"], link["fk_column_name"] == ("orders", "customer_id")
    assert _ask(branched, "CommandGetPrimaryKeys", catalog="none", table="orders") == []
    assert _ask(branched, "CommandGetImportedKeys", db_schema="none", table="orders") == []


def test_types_and_facts(branched: Any) -> None:
    types = _ask(branched, "CommandGetXdbcTypeInfo")
    assert [one["data_type"] for one in types] == sorted(one["data_type"] for one in types)
    (decimal,) = _ask(branched, "CommandGetXdbcTypeInfo", data_type=3)
    assert (decimal["type_name"], decimal["column_size"]) == ("decimal", 38)
    facts = {row["info_name"]: row["value"] for row in _ask(branched, "CommandGetSqlInfo")}
    assert facts[0] == "LivingDB"
    assert facts[504] == "`"
    assert facts[10] is True
    assert [row["info_name"] for row in _ask(branched, "CommandGetSqlInfo", info=[8, 99])] == [8]


@pytest.mark.parametrize(("ref", "rows"), [("dev/one", 3), ("v1", 2), ("dev/one~1", 2)])
def test_a_catalog_is_a_branch_or_any_ref(connection: Any, ref: str, rows: int) -> None:
    assert connection.adbc_current_catalog == "main"
    connection.adbc_current_catalog = ref
    assert connection.adbc_current_catalog == ref
    assert _count(connection) == rows


def test_only_branches_are_written(connection: Any) -> None:
    connection.adbc_current_catalog = "v1"
    with connection.cursor() as cursor:
        with pytest.raises(dbapi.Error, match="rule_violation: rule 1"):
            cursor.execute("DELETE FROM customers")
        with pytest.raises(dbapi.Error, match="rule_violation: rule 1"):
            cursor.adbc_ingest("more", pa.table({"id": [1]}), mode="create")
    with pytest.raises(dbapi.Error, match="catalog"):
        connection.adbc_current_catalog = "nowhere"
    assert connection.adbc_current_catalog == "v1"


def test_a_header_names_the_branch(branched: Any) -> None:
    with branched.connect("ann", {BRANCH_HEADER: "dev/one"}) as connection:
        assert _count(connection) == 3
    with (
        branched.connect("ann", {BRANCH_HEADER: "nowhere"}) as connection,
        pytest.raises(dbapi.Error, match="not_found"),
    ):
        _count(connection)


def test_use_branch_holds_for_what_follows(branched: Any) -> None:
    with branched.connect("olga") as connection, connection.cursor() as cursor:
        cursor.execute("USE BRANCH `dev/one`")
        assert _count(connection) == 3
        cursor.execute("INSERT INTO customers VALUES (9, 'x')")
        cursor.execute("USE BRANCH main")
        with pytest.raises(dbapi.Error, match="the transaction works on 'dev/one'"):
            cursor.execute("SELECT 1")
        connection.rollback()
        assert _count(connection) == 2


def test_who_keeps_no_cookies_is_not_led_to_another_branch(branched: Any) -> None:
    given = {"adbc.flight.sql.authorization_header": f"Bearer {branched.tokens['olga']}"}
    with dbapi.connect(branched.location, db_kwargs=given, autocommit=True) as connection:
        with pytest.raises(dbapi.Error, match="switch cookies on"):
            connection.adbc_current_catalog = "dev/one"
        assert _count(connection) == 2
