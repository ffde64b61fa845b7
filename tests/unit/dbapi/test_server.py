"""Connections to a server: who asks, what is sent, and what happens when it goes away."""

from __future__ import annotations

import datetime
import decimal
from urllib.parse import quote

import pyarrow as pa
import pytest

import livingdb
from livingdb import dbapi
from livingdb.dbapi import server_session
from livingdb.dbapi.json_parameters import json_parameters
from livingdb.dbapi.server_address import parse_server_url
from livingdb.server.serve import Server
from livingdb.server.settings import Limits, ServerSettings


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    made = livingdb.create(tmp_path_factory.mktemp("served") / "shop.ldb", author="root")
    with made as db:
        main = db.branch("main")
        columns = {"id": "bigint", "city": "string", "counts": "map<string,bigint>"}
        main.create_table("orders", columns, key="id")
        main.insert("orders", {"id": [1, 2], "city": ["Oslo", None]})
        main.clone("dev/blå")
        db.people.add("olga", role="owner", branches="*")
        db.people.add("rita", role="reader", branches="main")
        yield db


@pytest.fixture(scope="module")
def tokens(db):
    return {name: db.people.issue_token(name) for name in ("olga", "rita")}


@pytest.fixture(scope="module")
def server(db, tokens):
    limits = Limits(rows=1000)
    with Server(db, ServerSettings(port=0, upkeep=False, limits=limits)) as server:
        yield server


@pytest.fixture
def place(server):
    return f"127.0.0.1:{server.port}"


def test_who_asks_is_said_in_many_ways(db, place, tokens, monkeypatch):
    branch = quote("dev/blå")
    monkeypatch.setenv("LIVINGDB_TOKEN", tokens["rita"])
    with dbapi.connect(f"livingdb://{place}") as connection:
        assert connection.branch == "main"
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (2,)
    with dbapi.connect(f"livingdb://olga:{tokens['olga']}@{place}/?branch={branch}") as connection:
        assert connection.branch == "dev/blå"
        connection.execute("UPDATE orders SET city = 'Rome' WHERE id = 1")
    assert db.branch("dev/blå").head.author == "olga"
    with pytest.raises(dbapi.OperationalError, match="that of 'rita', and not of 'olga'"):
        dbapi.connect(f"livingdb://{place}/?user=olga")


def test_who_is_not_known_or_may_not(place, tokens):
    with pytest.raises(dbapi.OperationalError) as caught:
        dbapi.connect(f"livingdb://{place}/?token=ldb_wrong")
    assert caught.value.code == "unauthenticated"
    with dbapi.connect(f"livingdb://{place}", token=tokens["rita"]) as connection:
        many = "INSERT INTO orders (id) VALUES (?)", [(7,), (8,)]
        for write in (
            lambda: connection.execute("DELETE FROM orders"),
            lambda: connection.cursor().executemany(*many),
        ):
            with pytest.raises(dbapi.OperationalError, match="rita may not write") as caught:
                write()
            assert caught.value.code == "forbidden"
        assert connection.execute("SELECT count(*) FROM orders").fetchone()[0] > 0
        connection.commit()
        with pytest.raises(dbapi.ProgrammingError, match="dev"):
            connection.table_schemas("dev/blå")


def test_two_users_who_change_the_same_row(db, place, tokens):
    db.people.add("will", role="writer", branches="*")
    url = f"livingdb://{place}/?isolation=serializable"
    with (
        dbapi.connect(url, token=tokens["olga"]) as one,
        dbapi.connect(url, token=db.people.issue_token("will")) as other,
    ):
        for each in (one, other):
            each.execute("UPDATE orders SET city = 'Bonn' WHERE id = 2")
        other.commit()
        assert db.branch("main").head.author == "will"
        with pytest.raises(dbapi.OperationalError) as caught:
            one.commit()
        assert caught.value.code == "transaction_conflict"
        assert not one.in_transaction


@pytest.mark.parametrize(
    ("url", "options", "problem"),
    [
        ("livingdb://host", {}, "who asks"),
        ("livingdb://host/shop.ldb", {"token": "t"}, "one database"),
        ("livingdb://host/?brunch=dev", {"token": "t"}, "did you mean 'branch'"),
        ("livingdb://host/?branch=a&branch=b", {"token": "t"}, "twice"),
        ("livingdb://host/?author=ann", {"token": "t"}, "its server did"),
        ("livingdb://host", {"token": "t", "read_only": True}, "its server did"),
        ("livingdb://host:port", {"token": "t"}, "not understood"),
        ("livingdb://host", {"token": "ldb_\n"}, "characters"),
        ("livingdb://host/?tls=perhaps", {"token": "t"}, "true or false"),
        ("livingdb://host", {"token": "t", "certificate": "a.pem"}, "is for TLS"),
        ("livingdb://host", {"token": "t", "isolation": "dirty"}, "isolation"),
        ("shop.ldb", {"token": "t"}, "is for a server"),
    ],
)
def test_what_is_refused_before_a_server_is_asked(monkeypatch, url, options, problem):
    monkeypatch.delenv("LIVINGDB_TOKEN", raising=False)
    with pytest.raises(dbapi.InterfaceError, match=problem):
        dbapi.connect(url, **options)


def test_addresses():
    address, said = parse_server_url("livingdb+https://[::1]/?autocommit=yes", {"token": "t"})
    assert (str(address), address.has_tls, said) == ("[::1]:443", True, {"autocommit": True})
    address, _ = parse_server_url("livingdb://h:1/?tls=true&token=a", {"token": "b"})
    assert (address.port, address.has_tls, address.token) == (1, True, "b")
    assert "token" not in repr(address)


def test_parameters_keep_their_types():
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC)
    assert json_parameters([1, 2**60, "a", None, [1, 2]]) == [1, 2**60, "a", None, [1, 2]]
    assert json_parameters({"at": moment, "price": decimal.Decimal("1.50"), "raw": b"\0"}) == {
        "at": {"type": "timestamp", "value": "2026-01-02T03:04:05.000006Z"},
        "price": {"type": "decimal(3,2)", "value": "1.50"},
        "raw": {"type": "binary", "value": "AA=="},
    }
    assert json_parameters([float("nan")]) == [{"type": "double", "value": "NaN"}]
    with pytest.raises(livingdb.InvalidData, match="a type SQL does not have, object"):
        json_parameters([object()])


def test_many_rows_go_in_parts_all_or_none(place, tokens, monkeypatch):
    monkeypatch.setattr(server_session, "_PART_BYTES", 100)
    insert = "INSERT INTO orders (id, counts) VALUES (?, ?)"
    with dbapi.connect(f"livingdb://{place}", token=tokens["olga"], autocommit=True) as connection:
        cursor = connection.cursor()
        cursor.executemany(insert, [(number, {"a": number}) for number in range(10, 50)])
        assert cursor.rowcount == 40
        assert not connection.in_transaction
        with pytest.raises(dbapi.IntegrityError, match="rolled back"):
            cursor.executemany(insert, [(number, {}) for number in (*range(60, 90), 10)])
        cursor.execute("SELECT max(id), count(*) FROM orders")
        assert cursor.fetchone() == (49, 42)
        found = cursor.execute("SELECT counts FROM orders WHERE id = 49").fetch_arrow()
        assert found.schema.field("counts").type == pa.map_(pa.string(), pa.int64())


def test_an_answer_that_is_cut_off_is_an_error(place, tokens):
    with (
        dbapi.connect(f"livingdb://{place}", token=tokens["olga"]) as connection,
        pytest.raises(dbapi.OperationalError, match="at most 1,000 rows"),
    ):
        connection.execute(f"SELECT n FROM VALUES {', '.join(['(1)'] * 1001)} AS t(n)")


def test_a_server_that_is_started_anew_and_one_that_is_gone(db, tokens):
    first = Server(db, ServerSettings(port=0, upkeep=False))
    first.start()
    port = first.port
    connection = dbapi.connect(f"livingdb://127.0.0.1:{port}", token=tokens["olga"])
    connection.execute("SELECT 1")
    connection.commit()
    waiting = dbapi.connect(f"livingdb://127.0.0.1:{port}", token=tokens["olga"])
    waiting.execute("DELETE FROM orders")
    first.stop()
    with Server(db, ServerSettings(port=port, upkeep=False)):
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.rollback()
        with pytest.raises(dbapi.OperationalError, match="nothing of it was committed") as caught:
            waiting.commit()
        assert caught.value.code == "session_ended"
        assert waiting.execute("SELECT count(*) > 0 FROM orders").fetchone() == (True,)
    for each in (connection, waiting):
        with pytest.raises(dbapi.OperationalError, match="does not answer") as caught:
            each.execute("SELECT 1")
        assert caught.value.code == "unreachable"
        each.close()
