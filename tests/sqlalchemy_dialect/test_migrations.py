"""Alembic: what it makes of a difference, and what becomes of its operations."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata, produce_migrations
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations

import livingdb

OPTIONS = {"compare_type": True, "compare_server_default": True}


def model() -> sa.MetaData:
    metadata = sa.MetaData(naming_convention={"pk": "pk_%(table_name)s"})
    sa.Table(
        "customers",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(20), nullable=False, server_default="nobody"),
        sa.Column("visits", sa.Integer, server_default="3"),
        sa.Column("active", sa.Boolean, server_default=sa.true()),
        sa.Column("rate", sa.Float),
        sa.Column("since", sa.DateTime),
        sa.Column("mark", sa.Uuid),
        sa.Column("document", sa.JSON),
        sa.Column("kind", sa.Enum("a", "b", name="kind")),
        sa.Column("price", sa.Numeric(8, 2)),
        sa.Column("note", sa.Text),
        sa.Index("by_note", "note"),
        sa.Index("one_name", "name", unique=True),
        sa.UniqueConstraint("visits"),
        sa.CheckConstraint("visits > 0", name="some_visits"),
    )
    sa.Table(
        "orders",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("customer_id", sa.ForeignKey("customers.id", name="of_customer")),
        sa.Column("first_id", sa.ForeignKey("orders.id")),
    )
    return metadata


def apply(engine: sa.Engine, metadata: sa.MetaData) -> list[object]:
    """Carry out what Alembic would write into a migration; what differs then."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=OPTIONS)
        operations = Operations(context)
        with context.begin_transaction():
            script = produce_migrations(context, metadata)
            waiting = [script.upgrade_ops]
            while waiting:
                one = waiting.pop(0)
                if hasattr(one, "ops"):
                    waiting = [*one.ops, *waiting]
                else:
                    operations.invoke(one)
        return compare_metadata(context, metadata)


def test_a_model_is_made_and_nothing_differs_then(engine):
    assert apply(engine, model()) == []


def test_columns_and_tables_come_and_go_as_the_model_says(path, engine):
    assert apply(engine, model()) == []
    changed = model()
    customers = changed.tables["customers"]
    customers.append_column(sa.Column("email", sa.String(40), server_default=""))
    customers._columns.remove(customers.c.note)
    customers.indexes = {index for index in customers.indexes if index.unique}
    customers.c.rate.type = sa.Numeric(10, 3)
    customers.c.name.nullable = True
    customers.c.visits.server_default = None
    changed.remove(changed.tables["orders"])
    sa.Table("shops", changed, sa.Column("id", sa.Integer, primary_key=True))
    assert apply(engine, changed) == []
    assert apply(engine, model()) == []
    with livingdb.open(path) as db:
        kinds = {snapshot.edge.kind for snapshot in db.branch("main").log()[:-1]}
        assert kinds == {"schema_change"}


def test_operations_are_schema_changes_and_rows_before_them_are_committed(path, engine):
    metadata = model()
    metadata.create_all(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts=OPTIONS)
        operations = Operations(context)
        with context.begin_transaction():
            operations.execute("INSERT INTO customers (name, visits) VALUES ('Ann', 5)")
            operations.add_column("customers", sa.Column("age", sa.Integer))
            operations.bulk_insert(metadata.tables["customers"], [{"name": "Bob", "visits": 6}])
            operations.execute("ALTER TABLE customers RENAME COLUMN age TO years")
            operations.alter_column("customers", "years", type_=sa.BigInteger)
            operations.alter_column("customers", "years", server_default="7")
            operations.drop_constraint("some_visits", "customers", type_="check")
            operations.drop_constraint("of_customer", "orders", type_="foreignkey")
            operations.create_foreign_key("again", "orders", "customers", ["customer_id"], ["id"])
            operations.rename_table("orders", "purchases")
            operations.drop_index("one_name", "customers", unique=True)
    with livingdb.open(path) as db:
        main = db.branch("main")
        assert main.tables() == ["customers", "purchases"]
        assert main.table("customers").get(1)["name"] == "Ann"
        kinds = [snapshot.edge.kind for snapshot in main.log(11)]
        assert kinds == [*["schema_change"] * 8, "transaction", "schema_change", "transaction"]
        main.sql("INSERT INTO customers (name, visits) VALUES ('Bob', -7)")


ENVIRONMENT = """
import sqlalchemy as sa
from alembic import context

engine = sa.create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(
        connection=connection, target_metadata=context.config.attributes["model"]
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""


def test_commands_write_migrations_and_run_them_up_and_down(path, tmp_path):
    scripts = tmp_path / "migrations"
    config = Config(tmp_path / "alembic.ini", attributes={"model": model()})
    config.set_main_option("script_location", str(scripts))
    config.set_main_option("sqlalchemy.url", f"livingdb:///{path}")
    with redirect_stdout(StringIO()):
        command.init(config, str(scripts))
        (scripts / "env.py").write_text(ENVIRONMENT)
        command.revision(config, "first", autogenerate=True)
        command.upgrade(config, "head")
        metadata = model()
        metadata.tables["orders"].append_column(sa.Column("amount", sa.Integer))
        config.attributes["model"] = metadata
        command.revision(config, "second", autogenerate=True)
        command.upgrade(config, "head")
        command.check(config)
    with livingdb.open(path) as db:
        main = db.branch("main")
        assert "amount" in main.table("orders").schema.names
        assert len(main.table("alembic_version")) == 1
    with redirect_stdout(StringIO()):
        command.downgrade(config, "-1")
    with livingdb.open(path) as db:
        assert "amount" not in db.branch("main").table("orders").schema.names
    with redirect_stdout(StringIO()):
        command.downgrade(config, "base")
    with livingdb.open(path) as db:
        assert db.branch("main").tables() == ["alembic_version"]
