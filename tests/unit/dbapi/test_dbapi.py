"""PEP 249 over a database in a folder, and over a server of it."""

from __future__ import annotations

import datetime
import decimal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import livingdb
from livingdb import dbapi
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

UTC = datetime.UTC
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "dbapi.md"


@pytest.fixture
def path(tmp_path):
    where = tmp_path / "shop.ldb"
    with livingdb.create(where, author="ann") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string", "amount": "double"}, "id")
        main.insert("orders", {"id": [1, 2], "city": ["Oslo", None], "amount": [1.5, 2.5]})
    return where


@pytest.fixture(params=["files", "server"])
def connection(path, request):
    if request.param == "files":
        with dbapi.connect(path) as connection:
            yield connection
        return
    with livingdb.open(path) as db, Server(db, ServerSettings(port=0, upkeep=False)) as server:
        url = f"livingdb://127.0.0.1:{server.port}/?branch=main"
        with dbapi.connect(url, token=server.run_token) as connection:
            yield connection


def count(path):
    with livingdb.open(path) as db:
        return len(db.branch("main").table("orders")), len(db.branch("main").log())


def test_the_module_says_what_it_is():
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 2, "qmark")
    for name in ("Warning", "Error", "InterfaceError", "DatabaseError", "DataError"):
        assert getattr(dbapi.Connection, name) is getattr(dbapi, name)
    assert issubclass(dbapi.IntegrityError, dbapi.DatabaseError)


def test_the_page_says_what_there_is_of_the_pep(connection):
    text = PAGE.read_text(encoding="utf-8")
    names = {
        *("apilevel", "threadsafety", "paramstyle", "Date", "Time", "Timestamp", "DateFromTicks"),
        *("TimeFromTicks", "TimestampFromTicks", "Binary", "STRING", "BINARY", "NUMBER"),
        *("DATETIME", "ROWID", "Warning", "description", "rowcount", "arraysize", "executemany"),
        *("setinputsizes", "setoutputsize", "lastrowid", "autocommit", "commit", "rollback"),
    }
    missing = {
        *("callproc", "nextset", "rownumber", "scroll", "next", "messages", "errorhandler"),
        *("tpc_begin", "tpc_prepare", "tpc_commit", "tpc_rollback", "tpc_recover", "xid"),
    }
    cursor = connection.cursor()
    places = (dbapi, connection, cursor)
    for name in names | missing:
        assert f"`{name}`" in text, name
        assert any(hasattr(place, name) for place in places) is (name in names), name
    assert (cursor.rowcount, cursor.arraysize) == (-1, 1)


def test_wrong_arguments_are_errors_of_the_interface(connection):
    cursor = connection.cursor()
    cursor.execute("SELECT id FROM orders")
    for size in (-1, "2", 1.5):
        with pytest.raises(dbapi.InterfaceError, match="say how many"):
            cursor.fetchmany(size)
    assert cursor.fetchmany(0) == []
    with pytest.raises(dbapi.InterfaceError, match="of each row"):
        cursor.executemany("INSERT INTO orders (id) VALUES (?)", 5)


def test_rows_are_fetched_one_by_one_in_parts_and_all(connection):
    cursor = connection.cursor()
    assert cursor.description is None
    assert cursor.rowcount == -1
    cursor.execute("SELECT id, city, amount FROM orders ORDER BY id")
    assert [column[:2] for column in cursor.description] == [
        ("id", "bigint"),
        ("city", "string"),
        ("amount", "double"),
    ]
    assert cursor.description[0][1] == dbapi.NUMBER
    assert cursor.description[1][1] == dbapi.STRING != cursor.description[0][1]
    assert cursor.rowcount == 2
    assert cursor.fetchone() == (1, "Oslo", 1.5)
    assert cursor.fetchmany(5) == [(2, None, 2.5)]
    assert cursor.fetchone() is None
    assert cursor.fetchall() == []
    assert [row[0] for row in cursor.execute("SELECT id FROM orders ORDER BY id")] == [1, 2]
    assert cursor.fetch_arrow().num_rows == 2


def test_parameters_are_bound_by_place_and_by_name(connection):
    cursor = connection.cursor()
    assert cursor.execute("SELECT id FROM orders WHERE city = ?", ["Oslo"]).fetchall() == [(1,)]
    named = cursor.execute("SELECT id FROM orders WHERE id > :low", {"low": 1})
    assert named.fetchall() == [(2,)]
    hostile = "Oslo' OR '1'='1"
    assert cursor.execute("SELECT id FROM orders WHERE city = ?", [hostile]).fetchall() == []


def test_statements_are_one_transaction_until_commit(path, connection):
    before = count(path)
    cursor = connection.cursor()
    cursor.execute("INSERT INTO orders VALUES (3, 'Bergen', 1.0)")
    assert cursor.rowcount == 1
    cursor.execute("UPDATE orders SET amount = 0.0 WHERE id <= 2")
    assert cursor.rowcount == 2
    assert connection.in_transaction
    assert cursor.execute("SELECT count(*) FROM orders").fetchone() == (3,)
    assert count(path) == before
    connection.commit()
    assert count(path) == (3, before[1] + 1)
    cursor.execute("DELETE FROM orders")
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM orders").fetchone() == (3,)


def test_closing_rolls_back_and_leaving_commits(path):
    with dbapi.connect(path) as connection:
        connection.execute("INSERT INTO orders VALUES (3, 'Bergen', 1.0)")
    assert count(path)[0] == 3
    connection = dbapi.connect(path)
    connection.execute("INSERT INTO orders VALUES (4, 'Bergen', 1.0)")
    connection.close()
    connection.close()
    assert count(path)[0] == 3
    with pytest.raises(ZeroDivisionError), dbapi.connect(path) as connection:
        connection.execute("INSERT INTO orders VALUES (4, 'Bergen', 1.0)")
        raise ZeroDivisionError
    assert count(path)[0] == 3
    for act in (connection.commit, connection.cursor, connection.rollback):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            act()


def test_what_only_reads_makes_no_snapshot(path, connection):
    before = count(path)
    connection.execute("SELECT * FROM orders").fetchall()
    connection.commit()
    assert count(path) == before


def test_autocommit(path):
    with dbapi.connect(path, autocommit=True) as connection:
        before = count(path)[1]
        connection.execute("INSERT INTO orders VALUES (3, 'Bergen', 1.0)")
        assert count(path) == (3, before + 1)
        assert not connection.in_transaction
        connection.execute("BEGIN")
        connection.execute("INSERT INTO orders VALUES (4, 'Bergen', 1.0)")
        assert count(path)[0] == 3
        connection.execute("ROLLBACK")
        connection.autocommit = False
        connection.execute("INSERT INTO orders VALUES (5, 'Bergen', 1.0)")
        assert count(path)[0] == 3
        connection.autocommit = True
        assert count(path)[0] == 4


def test_schema_changes_are_snapshots_of_their_own(path, connection):
    cursor = connection.cursor()
    cursor.execute("SELECT 1")
    cursor.execute("CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING)")
    cursor.execute("ALTER TABLE orders ADD COLUMN note STRING")
    cursor.execute("INSERT INTO customers VALUES (1, 'Ann')")
    with pytest.raises(dbapi.OperationalError, match="end the transaction first"):
        cursor.execute("DROP TABLE orders")
    assert connection.in_transaction
    connection.commit()
    cursor.execute("DROP TABLE orders")
    with livingdb.open(path) as db:
        assert db.branch("main").tables() == ["customers"]


def test_branches(path, connection):
    connection.execute("CREATE BRANCH dev")
    connection.execute("USE BRANCH dev")
    assert connection.branch == "dev"
    connection.execute("INSERT INTO orders VALUES (3, 'Bergen', 1.0)")
    connection.commit()
    assert count(path)[0] == 2
    with dbapi.connect(path, branch="dev") as other:
        assert other.execute("SELECT count(*) FROM orders").fetchone() == (3,)
        assert other.execute("SELECT count(*) FROM main.orders").fetchone() == (2,)
    with pytest.raises(dbapi.ProgrammingError, match="nope"):
        dbapi.connect(path, branch="nope")


@pytest.mark.parametrize(
    ("statement", "kind", "code"),
    [
        ("INSERT INTO orders VALUES (1, 'Oslo', 1.0)", dbapi.IntegrityError, "duplicate_key"),
        ("SELECT nope FROM orders", dbapi.ProgrammingError, "not_found"),
        ("SELECT * FROM nope", dbapi.ProgrammingError, "not_found"),
        ("SELEC 1", dbapi.ProgrammingError, "invalid_data"),
        ("INSERT INTO orders VALUES ('x', 'Oslo', 1.0)", dbapi.DataError, "invalid_data"),
        ("SELECT * FROM orders WHERE id = ?", dbapi.DataError, "invalid_data"),
        ("GRANT ALL ON orders TO ann", dbapi.DatabaseError, None),
        ("COMMIT", dbapi.OperationalError, "rule_violation"),
    ],
)
def test_errors_are_those_of_the_pep(connection, statement, kind, code):
    with pytest.raises(kind) as caught:
        connection.execute(statement)
    assert isinstance(caught.value.__cause__, livingdb.LivingDBError)
    assert code is None or caught.value.code == code
    assert not connection.in_transaction
    assert connection.execute("SELECT count(*) FROM orders").fetchone() == (2,)


def test_a_read_only_database(path):
    with dbapi.connect(path, read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (2,)
        with pytest.raises(dbapi.OperationalError, match="reading only"):
            connection.execute("INSERT INTO orders VALUES (3, 'Bergen', 1.0)")


def test_the_branch_of_a_view(path):
    with livingdb.open(path, engine="embedded") as db:
        db.branch("main").derive(
            "cities", sql="SELECT city, count(*) AS n FROM orders GROUP BY city"
        )
    with dbapi.connect(path, branch="cities") as connection:
        assert connection.execute("SELECT count(*) FROM cities").fetchone() == (2,)
        with pytest.raises(dbapi.OperationalError) as caught:
            connection.execute("DELETE FROM cities")
        assert caught.value.code == "read_only_branch"


def test_writers_that_lose_a_race_are_told(path):
    with dbapi.connect(path) as one, dbapi.connect(path) as other:
        for each in (one, other):
            each.execute("UPDATE orders SET amount = 9.0 WHERE id = 1")
        one.commit()
        with pytest.raises(dbapi.OperationalError) as caught:
            other.commit()
        assert caught.value.code == "transaction_conflict"
        assert not other.in_transaction


def test_many_rows_are_one_change(path, connection):
    cursor = connection.cursor()
    rows = [(number, "Oslo", number / 2) for number in range(10, 20_010)]
    cursor.executemany("INSERT INTO orders (id, city, amount) VALUES (?, ?, ?)", rows)
    assert cursor.rowcount == 20_000
    named = [{"n": 5, "a": 1.0}, {"n": 6, "a": 2.0}]
    cursor.executemany("INSERT INTO orders (id, amount) VALUES (:n, :a)", named)
    cursor.executemany("UPDATE orders SET amount = ? WHERE id = ?", [(7.0, 5), (8.0, 6)])
    assert cursor.rowcount == 2
    cursor.executemany("DELETE FROM orders WHERE id = ?", [[1], [2], [3]])
    assert cursor.rowcount == 2
    connection.commit()
    assert count(path)[0] == 20_002
    with pytest.raises(dbapi.IntegrityError):
        cursor.executemany("INSERT INTO orders (id) VALUES (?)", [[30_000], [10]])
    assert cursor.execute("SELECT count(*) FROM orders WHERE id = 30000").fetchone() == (0,)
    with pytest.raises(dbapi.DataError, match="parameters"):
        cursor.executemany("INSERT INTO orders (id) VALUES (?)", [[1, 2], [3]])
    with pytest.raises(dbapi.ProgrammingError, match="queries"):
        cursor.executemany("SELECT ?", [[1], [2]])


def test_many_rows_are_one_transaction_in_autocommit_mode(path):
    with dbapi.connect(path, autocommit=True) as connection:
        before = count(path)
        cursor = connection.cursor()
        cursor.executemany("INSERT INTO orders (id) VALUES (?)", [[3], [4]])
        cursor.executemany("UPDATE orders SET amount = ? WHERE id = ?", [(7.0, 3), (8.0, 4)])
        assert count(path) == (before[0] + 2, before[1] + 2)
        with pytest.raises(dbapi.DataError):
            cursor.executemany("UPDATE orders SET amount = ? WHERE id = ?", [(1.0, 3), ("x", 4)])
        assert connection.execute("SELECT amount FROM orders WHERE id = 3").fetchone() == (7.0,)
        assert connection.autocommit


@pytest.mark.parametrize("many", [False, True])
def test_values_of_all_types(path, connection, many):
    cursor = connection.cursor()
    cursor.execute(
        "CREATE TABLE types (id BIGINT PRIMARY KEY, at TIMESTAMP, here TIMESTAMP_NTZ, "
        "price DECIMAL(10, 2), raw BINARY, day DATE, yes BOOLEAN)"
    )
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5)
    price = decimal.Decimal("1.50")
    rows = [
        [1, moment.replace(tzinfo=UTC), moment, price, b"\0", moment.date(), True],
        [2, moment, moment, price, b"", None, None],
    ]
    statement = "INSERT INTO types (id, at, here, price, raw, day, yes) VALUES (?,?,?,?,?,?,?)"
    if many:
        cursor.executemany(statement, rows)
    else:
        for row in rows:
            cursor.execute(statement, row)
    rows[1][1] = rows[0][1]
    assert cursor.execute("SELECT * FROM types ORDER BY id").fetchall() == list(map(tuple, rows))
    kinds = [column[1] for column in cursor.description]
    assert [kind == dbapi.DATETIME for kind in kinds] == [
        False,
        True,
        True,
        False,
        False,
        True,
        False,
    ]
    assert cursor.description[3][4:6] == (10, 2)


def test_values_that_are_nested(path):
    columns = {"id": "int", "m": "map<string,int>", "a": "array<int>", "s": "struct<b:int>"}
    with livingdb.open(path) as db:
        db.branch("main").create_table("nested", columns, key="id")
        row = {"id": 1, "m": [("a", 1)], "a": [1, 2], "s": {"b": 2}}
        db.branch("main").insert("nested", [row])
    with dbapi.connect(path) as connection:
        found = connection.execute("SELECT m, a, s FROM nested").fetchone()
    assert found == ({"a": 1}, [1, 2], {"b": 2})


def test_an_open_database_can_be_shared(path):
    with livingdb.open(path) as db:
        with dbapi.connect(db) as connection:
            connection.execute("INSERT INTO orders VALUES (3, 'Bergen', 1.0)")
        assert len(db.branch("main").table("orders")) == 3
        with pytest.raises(dbapi.InterfaceError, match="open already"):
            dbapi.connect(db, author="bob")
    with pytest.raises(dbapi.InterfaceError, match="isolation"):
        dbapi.connect(path, isolation="dirty")


def test_threads_share_a_connection(path):
    with dbapi.connect(path) as connection:

        def add(number: int) -> None:
            connection.execute("INSERT INTO orders (id) VALUES (?)", [number])

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(add, range(100, 140)))
    assert count(path)[0] == 42


def test_pandas_reads_by_it(connection):
    pandas = pytest.importorskip("pandas")
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pandas.read_sql("SELECT id, city FROM orders ORDER BY id", connection)
    assert frame["id"].tolist() == [1, 2]


def test_isolation_is_chosen_between_transactions(connection):
    assert connection.isolation == "snapshot"
    connection.isolation = "serializable"
    connection.execute("SELECT 1")
    with pytest.raises(dbapi.InterfaceError, match="before a transaction"):
        connection.isolation = "snapshot"
    connection.rollback()
    with pytest.raises(dbapi.InterfaceError, match="'snapshot' or 'serializable'"):
        connection.isolation = "dirty"


def test_a_cursor_that_is_closed_tells_how_many_rows_there_were(connection):
    cursor = connection.execute("INSERT INTO orders (id) VALUES (3), (4)")
    cursor.close()
    assert cursor.rowcount == 2


def test_schemas_are_those_that_the_transaction_sees(path, connection):
    connection.execute("CREATE BRANCH dev")
    connection.execute("SELECT 1")
    with dbapi.connect(path) as other:
        other.execute("CREATE TABLE few (id BIGINT PRIMARY KEY)")
    assert sorted(connection.table_schemas()) == ["orders"]
    connection.rollback()
    assert sorted(connection.table_schemas()) == ["few", "orders"]
    assert connection.table_schemas("dev")["orders"].key == ("id",)
