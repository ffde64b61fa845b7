"""URLs, transactions, branches and errors of engines."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, CompileError, IntegrityError, OperationalError

import livingdb

metadata = sa.MetaData()
orders = sa.Table(
    "orders",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("city", sa.String(20), nullable=False),
    sa.Column("amount", sa.Integer, sa.CheckConstraint("amount > 0", name="positive")),
)
notes = sa.Table(
    "notes",
    metadata,
    sa.Column("order_id", sa.ForeignKey("orders.id")),
    sa.Column("text", sa.Text, index=True),
)


def test_urls(path, monkeypatch):
    with livingdb.open(path) as db:
        db.branch("main").clone("dev")
    monkeypatch.chdir(path.parent)
    url = "livingdb:///shop.ldb?branch=dev&isolation=Serializable&author=bob&trust=a.*&trust=b"
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        held = connection.connection.dbapi_connection
        assert (held.branch, held.isolation, held.autocommit) == ("dev", "serializable", False)
        assert list(held.database.trust) == ["a.*", "b"]
        assert engine.dialect.default_schema_name == "dev"
    engine.dispose()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("livingdb:///shop.ldb?brunch=dev", "did you mean 'branch'"),
        ("livingdb:///shop.ldb?zzz=1", "there are branch, autocommit"),
        ("livingdb:///shop.ldb?read_only=perhaps", "true or false"),
        ("livingdb:///shop.ldb?branch=a&branch=b", "2 times"),
        ("livingdb://host/shop.ldb", "serves one database"),
        ("livingdb+https:///shop.ldb", "names no host"),
        ("livingdb://", "names no database"),
    ],
)
def test_urls_that_are_refused(url, problem):
    with pytest.raises(ArgumentError, match=problem):
        sa.create_engine(url).connect()


def test_a_database_that_is_only_read(path):
    engine = sa.create_engine(f"livingdb:///{path}?read_only=true&autocommit=yes")
    with engine.connect() as connection:
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        with pytest.raises(OperationalError, match="reading only"):
            metadata.create_all(connection)
    engine.dispose()


def test_transactions(path, engine):
    metadata.create_all(engine)
    with engine.begin() as connection:
        made = connection.execute(orders.insert().values(city="Oslo", amount=1))
        assert made.inserted_primary_key == (1,)
        connection.execute(orders.insert(), [{"city": "Rome"}, {"city": "Bonn"}])
        assert connection.get_isolation_level() == "SNAPSHOT"
    with engine.connect() as connection:
        connection.execute(orders.delete())
        connection.rollback()
        rows = connection.execute(sa.select(orders.c.id).order_by(orders.c.id).limit(2)).all()
        assert rows == [(1,), (2,)]
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(orders.update().values(amount=5).where(orders.c.id == 1))
    with livingdb.open(path) as db:
        main = db.branch("main")
        assert main.table("orders").get(1) == {"id": 1, "city": "Oslo", "amount": 5}
        edges = [snapshot.edge.kind for snapshot in main.log()]
        assert edges == [*["transaction"] * 2, *["schema_change"] * 2, "transaction"]


def test_broken_constraints_are_errors_of_integrity(engine):
    metadata.create_all(engine)
    for table, row in (
        (orders, {"id": 1, "city": None}),
        (orders, {"id": 1, "city": "a city with a name that is too long"}),
        (orders, {"id": 1, "city": "Oslo", "amount": -1}),
        (notes, {"order_id": 7}),
    ):
        with pytest.raises(IntegrityError) as caught, engine.begin() as connection:
            connection.execute(table.insert().values(row))
        assert caught.value.orig.code == "broken_constraint"


def test_reads_from_other_branches_as_schemas(path, engine):
    metadata.create_all(engine)
    with livingdb.open(path) as db:
        db.branch("main").clone("dev").sql("INSERT INTO orders (city) VALUES ('Oslo')")
    found = sa.inspect(engine)
    assert {"main", "dev"} <= set(found.get_schema_names())
    there = sa.Table("orders", sa.MetaData(), schema="dev", autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sa.select(there.c.city)).scalars().all() == ["Oslo"]
        assert connection.execute(sa.select(orders.c.city)).all() == []


def test_tables_without_a_key_have_one_that_reflection_does_not_show(path, engine):
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(notes.insert(), [{"text": "a"}, {"text": "a"}])
    found = sa.inspect(engine)
    assert [column["name"] for column in found.get_columns("notes")] == ["order_id", "text"]
    assert found.get_pk_constraint("notes")["constrained_columns"] == []
    with livingdb.open(path) as db:
        assert db.branch("main").table("notes").key == ("livingdb_row",)
        assert len(db.branch("main").table("notes")) == 2


def test_what_is_refused_says_so(engine):
    for statement, problem in (
        (sa.select(orders).with_for_update(), "rows are not locked"),
        (sa.select(orders.c.id).distinct(orders.c.city), "DISTINCT ON"),
        (sa.schema.CreateTable(sa.Table("t", sa.MetaData(), sa.Column("a", sa.Time))), "of day"),
        (orders.update().values(amount=1).where(orders.c.id == notes.c.order_id), "UPDATE … FROM"),
    ):
        with pytest.raises(CompileError, match=problem):
            statement.compile(engine)
    with engine.connect() as connection, pytest.raises(ArgumentError, match="no savepoints"):
        connection.begin_nested()


def test_values_are_as_their_types_promise(engine):
    import datetime
    import decimal
    import uuid

    table = sa.Table(
        "kinds",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("here", sa.DateTime),
        sa.Column("at", sa.DateTime(timezone=True)),
        sa.Column("price", sa.Numeric(10, 2)),
        sa.Column("ratio", sa.Float),
        sa.Column("mark", sa.Uuid),
        sa.Column("document", sa.JSON),
        sa.Column("parts", sa.ARRAY(sa.Integer)),
        sa.Column("raw", sa.LargeBinary),
        sa.Column("kind", sa.Enum("a", "b", name="kinds_of_kind")),
    )
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
    row = {
        "id": 1,
        "here": moment,
        "at": moment.replace(tzinfo=datetime.UTC),
        "price": decimal.Decimal("1.50"),
        "ratio": 0.5,
        "mark": uuid.UUID(int=7),
        "document": {"a": [1, None]},
        "parts": [1, 2],
        "raw": b"\0\\'",
        "kind": "b",
    }
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(table.insert().values(row))
        connection.execute(table.insert(), [{**row, "id": 2}, {**row, "id": 3}])
    with engine.connect() as connection:
        for found in connection.execute(sa.select(table).order_by(table.c.id)).mappings():
            assert dict(found) == {**row, "id": found["id"]}
        text = sa.select(sa.literal("it's a \\", literal_execute=True))
        assert connection.execute(text).scalar() == "it's a \\"
    again = sa.Table("kinds", sa.MetaData(), autoload_with=engine)
    assert [type(c.type).__name__ for c in again.columns][1:5] == [
        "TIMESTAMP",
        "TIMESTAMP",
        "NUMERIC",
        "DOUBLE",
    ]
