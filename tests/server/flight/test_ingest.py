"""Bulk ingestion through the ADBC driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from pyarrow import flight

from livingdb.server.flight import messages
from livingdb.server.flight.ingest import KEY_OPTION

ROWS = 100_000


@pytest.fixture
def cursor(shop: Any) -> Iterator[Any]:
    with shop.connect(autocommit=True) as connection, connection.cursor() as made:
        yield made


def _rows(begin: int, key: str = "") -> pa.Table:
    made = pa.table({"k": np.arange(begin, begin + ROWS), "v": np.arange(ROWS) / 8})
    return made.replace_schema_metadata({KEY_OPTION: key} if key else None)


def test_all_modes(shop: Any, cursor: Any) -> None:
    main = shop.db.branch("main")
    assert cursor.adbc_ingest("bulk", _rows(0, "k"), mode="create") == ROWS
    assert main.table("bulk").key == ("k",)
    assert cursor.adbc_ingest("bulk", _rows(ROWS), mode="append") == ROWS
    assert cursor.adbc_ingest("bulk", _rows(2 * ROWS), mode="create_append") == ROWS
    assert len(main.table("bulk")) == 3 * ROWS
    assert main.table("bulk").get(2 * ROWS + 8) == {"k": 2 * ROWS + 8, "v": 1.0}
    assert cursor.adbc_ingest("bulk", _rows(7), mode="replace") == ROWS
    assert main.table("bulk").to_arrow().equals(_rows(7).cast(main.table("bulk").schema))
    for mode, rows, said in [
        ("create", _rows(0), "already_exists"),
        ("append", _rows(0), "duplicate_key"),
        ("append", pa.table({"other": [1]}), "invalid_data|not_found"),
    ]:
        with pytest.raises(dbapi.Error, match=said):
            cursor.adbc_ingest("bulk", rows, mode=mode)
    with pytest.raises(dbapi.Error, match="not_found"):
        cursor.adbc_ingest("missing", _rows(0), mode="append")
    assert len(main.table("bulk")) == ROWS


def test_a_table_of_other_columns_takes_the_place_of_one(shop: Any, cursor: Any) -> None:
    main = shop.db.branch("main")
    cursor.adbc_ingest("changing", pa.table({"a": [1, 2]}), mode="create")
    assert main.table("changing").key == ("livingdb_row",)
    before = main.head
    cursor.adbc_ingest("changing", pa.table({"b": ["x", None]}), mode="replace")
    assert main.sql("SELECT b FROM changing").to_arrow().to_pylist() == [{"b": "x"}, {"b": None}]
    assert main.log(3)[2] == before
    cursor.adbc_ingest("changing", pa.table({"b": ["y"]}), mode="append")
    assert main.sql("SELECT count(b) AS n FROM changing").to_arrow().to_pylist() == [{"n": 2}]


def test_in_a_transaction(shop: Any) -> None:
    """The ADBC driver ingests outside of its transactions; other clients need not."""
    main, rows = shop.db.branch("main"), pa.table({"id": [1, 2]})
    options = flight.FlightCallOptions(
        headers=[(b"authorization", f"Bearer {shop.tokens['ann']}".encode())]
    )
    with flight.connect(shop.location) as client:

        def act(name: str, **fields: Any) -> Any:
            body = messages.pack(f"Action{name}Request", **fields)
            (*given,) = client.do_action(flight.Action(name, body), options)
            return messages.unpack(given[0].body.to_pybytes())[1] if given else None

        for end, is_there in ((2, False), (1, True)):
            begun = act("BeginTransaction").transaction_id
            how = messages.new("TableDefinitionOptions", if_not_exist=1, if_exists=1)
            command = messages.pack(
                "CommandStatementIngest",
                table_definition_options=how,
                table="later",
                transaction_id=begun,
                options={KEY_OPTION: "id"},
            )
            descriptor = flight.FlightDescriptor.for_command(command)
            writer, reader = client.do_put(descriptor, rows.schema, options)
            writer.write_table(rows)
            writer.done_writing()
            result = messages.parse("DoPutUpdateResult", reader.read().to_pybytes())
            writer.close()
            assert result.record_count == 2
            assert "later" not in main.tables()
            act("EndTransaction", transaction_id=begun, action=end)
            assert ("later" in main.tables()) is is_there


def test_into_another_catalog(shop: Any, cursor: Any) -> None:
    shop.db.branch("main").clone("dev/ingest")
    rows = pa.table({"id": [1]})
    cursor.adbc_ingest("here", rows, mode="create", catalog_name="dev/ingest")
    assert "here" in shop.db.branch("dev/ingest").tables()
    assert "here" not in shop.db.branch("main").tables()


def test_what_is_refused(shop: Any, cursor: Any) -> None:
    rows = pa.table({"id": [1, 1], "n": [None, 2]})
    for how, said in [
        ({"temporary": True}, "unsupported: temporary tables"),
        ({"db_schema_name": "public"}, "not_found: there is no schema 'public'"),
    ]:
        with cursor.connection.cursor() as own, pytest.raises(dbapi.Error, match=said):
            own.adbc_ingest("refused", rows, mode="create", **how)
    for key, said in [("id", "duplicate_key"), ("n", "invalid_data"), ("nix", "invalid_data")]:
        keyed = rows.replace_schema_metadata({KEY_OPTION: key})
        with pytest.raises(dbapi.Error, match=said):
            cursor.adbc_ingest("refused", keyed, mode="create")
    assert "refused" not in shop.db.branch("main").tables()
    with (
        shop.connect("ben", autocommit=True) as other,
        other.cursor() as reading,
        pytest.raises(dbapi.Error, match="UNAUTHORIZED"),
    ):
        reading.adbc_ingest("refused", rows, mode="create")


def test_pandas_and_polars_write(shop: Any) -> None:
    with shop.connect(autocommit=True) as connection:
        pd.DataFrame({"x": [1, 2]}).to_sql("from_pandas", connection, index=False)
        pl.DataFrame({"x": ["a", None]}).write_database("from_polars", connection)
    main = shop.db.branch("main")
    assert main.sql("SELECT x FROM from_pandas").to_arrow()["x"].to_pylist() == [1, 2]
    assert main.sql("SELECT x FROM from_polars").to_arrow()["x"].to_pylist() == ["a", None]
