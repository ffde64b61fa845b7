"""Calls that a database is not trusted with: refused when defined, and when run by whom it reaches.

A stranger's database holds what no version of today would write: the check is off while it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import livingdb
from livingdb.commit.deriving import derive_version as making
from livingdb.derivation import plan_cache as compiling
from livingdb.engines import trust
from livingdb.evolution import AddColumn, AddConstraint, DropColumn, SplitTable
from livingdb.sql import expressions
from livingdb.sql.expressions import Expression

SECRET = "current_setting('threads')"
"""What DuckDB would tell if it were asked: something about the process."""
FOREIGN = ["reflect('java.lang.System', 'getenv', 'HOME')", SECRET, "getenv('HOME')"]


@contextmanager
def unchecked() -> Iterator[None]:
    """As in a version that lets everything pass."""

    def passing(name: str, trust: Sequence[str]) -> None:
        """Nothing is refused."""

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust, "_check_name", passing)
        patch.setattr(Expression, "require_portable", lambda self, schema: None)
        yield
    expressions._query_text.cache_clear()
    compiling._cached_plan.cache_clear()
    compiling._cached_columns.cache_clear()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A database with a table of one row."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string"}, key="id")
        main.insert("orders", [{"id": 1, "city": "Oslo"}])
    return tmp_path / "shop.ldb"


@pytest.fixture
def db(place: Path) -> Iterator[livingdb.Database]:
    with livingdb.open(place, trust=[]) as database:
        yield database


# --- when defined -------------------------------------------------------------------------------


@pytest.mark.parametrize("call", FOREIGN)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT {} FROM orders",
        "UPDATE orders SET city = {}",
        "DELETE FROM orders WHERE city = {}",
        "INSERT INTO orders SELECT 2, {}",
        "INSERT INTO orders SELECT id + 1, {} FROM orders",
        "MERGE INTO orders USING (SELECT 1 AS id) s ON orders.id = s.id "
        "WHEN MATCHED THEN UPDATE SET city = {}",
        "CREATE VIEW v AS SELECT id, {} AS x FROM orders",
        "CREATE MATERIALIZED VIEW v AS SELECT id, {} AS x FROM orders",
        "ALTER TABLE orders ADD CONSTRAINT c CHECK ({} = city)",
        "ALTER TABLE orders ADD COLUMN c STRING GENERATED ALWAYS AS ({})",
    ],
)
def test_statements(db: livingdb.Database, text: str, call: str) -> None:
    main = db.branch("main")
    head = main.head
    with pytest.raises(livingdb.Untrusted, match=f"'{call.partition('(')[0]}'"):
        main.sql(text.format(call))
    assert main.head == head
    assert [branch.name for branch in db.branches()] == ["main"]


@pytest.mark.parametrize("call", FOREIGN)
@pytest.mark.parametrize("engine", [None, "auto", "embedded", "spark"])
def test_queries_anywhere(db: livingdb.Database, call: str, engine: str | None) -> None:
    main = db.branch("main")
    with pytest.raises(livingdb.Untrusted):
        main.sql(f"SELECT {call}", engine=engine)
    with pytest.raises(livingdb.Untrusted):
        db.at("main").sql(f"SELECT {call} FROM orders", engine=engine)


@pytest.mark.parametrize("call", FOREIGN)
def test_conditions_on_rows_and_transactions(db: livingdb.Database, call: str) -> None:
    main = db.branch("main")
    with pytest.raises(livingdb.Untrusted):
        main.table("orders").to_arrow(where=f"city = {call}")
    with pytest.raises(livingdb.Untrusted), main.transaction() as tx:
        tx.sql(f"UPDATE orders SET city = {call}")
    assert main.table("orders").get(1) == {"id": 1, "city": "Oslo"}


@pytest.mark.parametrize("call", FOREIGN)
def test_definitions(db: livingdb.Database, call: str) -> None:
    main = db.branch("main")
    for change in (
        AddColumn("orders", "c", "string", computed=call),
        AddColumn("orders", "c", "string", up=call),
        AddConstraint("orders", "c", check=f"{call} = city"),
        DropColumn("orders", "city", down=call),
        SplitTable("orders", {"a": f"{call} = city", "b": f"NOT {call} = city"}),
    ):
        with pytest.raises(livingdb.Untrusted):
            main.evolve(change, to="v2", sync="both")
    with pytest.raises(livingdb.Untrusted):
        main.derive("v", sql=f"SELECT id, {call} AS x FROM orders", when="immediate")
    wrong = livingdb.condition.sql(f"SELECT id FROM v WHERE {call} = ''")
    for condition in (wrong, wrong & livingdb.condition.not_null("id")):
        with pytest.raises(livingdb.Untrusted):
            main.derive("v", sql="SELECT id FROM orders", when="immediate", conditions=[condition])
        with pytest.raises(livingdb.Untrusted):
            change = AddColumn("orders", "c", "string")
            main.clone("copy", transform=[change], sync="forward", conditions=[condition])
    assert [branch.name for branch in db.branches()] == ["main"]


def definition(db: livingdb.Database, name: str) -> tuple[object, ...]:
    """All that is known of a derived object."""
    sync, (row,) = db.sync(name), db.sync(name)._chain
    return row, sync.condition_texts, sync.trail, db.branch(name).head, db.branch(name).log()


@pytest.mark.parametrize("call", FOREIGN)
def test_other_definitions(db: livingdb.Database, call: str) -> None:
    main = db.branch("main")
    known = livingdb.condition.not_null("id")
    main.derive("v", "SELECT id FROM orders", when="immediate", conditions=[known])
    before = definition(db, "v")
    with pytest.raises(livingdb.Untrusted):
        main.derive("v", f"SELECT id, {call} AS x FROM orders", when="immediate", replace=True)
    wrong = livingdb.condition.sql(f"SELECT id FROM v WHERE {call} = ''")
    for condition in (wrong, wrong & known, "sql('SELECT id FROM v WHERE getenv(1) = 2')"):
        with pytest.raises(livingdb.Untrusted):
            db.sync("v").alter(conditions=[condition])
        with pytest.raises(livingdb.Untrusted):
            sql = "SELECT id, city FROM orders"
            main.derive("v", sql, when="immediate", replace=True, conditions=[condition])
    assert definition(db, "v") == before
    main.insert("orders", [{"id": 2, "city": "Rome"}])
    assert len(db.branch("v").table("v")) == 2


def test_a_function_in_another_definition(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.derive("v", "SELECT id FROM orders", when="immediate")
    before = definition(db, "v")
    for made_by in ({"model": "os:getcwd"}, {"spark": "os:getcwd"}):
        with pytest.raises(livingdb.Untrusted, match="os"):
            main.derive("v", **made_by, replace=True)  # type: ignore[arg-type]
    assert definition(db, "v") == before


# --- when run -----------------------------------------------------------------------------------


def test_a_check_of_a_stranger(place: Path) -> None:
    with unchecked(), livingdb.open(place) as db:
        db.branch("main").evolve(AddConstraint("orders", "c", check=f"{SECRET} IS NOT NULL"))
        db.branch("main").insert("orders", [{"id": 2, "city": "Rome"}])
    with livingdb.open(place, trust=[]) as db:
        main = db.branch("main")
        head = main.head
        with pytest.raises(livingdb.Untrusted, match="current_setting"):
            main.insert("orders", [{"id": 3, "city": "Bonn"}])
        assert main.head == head


def test_a_computed_column_of_a_stranger(place: Path) -> None:
    with unchecked(), livingdb.open(place) as db:
        change = AddColumn("orders", "c", "string", computed=f"CAST({SECRET} AS STRING)")
        db.branch("main").evolve(change, keep="old", sync="both")
    with livingdb.open(place, trust=[]) as db:
        for write in (
            lambda: db.branch("main").insert("orders", [{"id": 3, "city": "Bonn"}]),
            lambda: db.branch("old").insert("orders", [{"id": 3, "city": "Bonn"}]),
            lambda: db.branch("main").table("orders").to_arrow(),
        ):
            with pytest.raises(livingdb.Untrusted, match="current_setting"):
                write()


def test_a_lens_of_a_stranger(place: Path) -> None:
    with unchecked(), livingdb.open(place) as db:
        change = AddColumn("orders", "c", "string", up=f"CAST({SECRET} AS STRING)")
        db.branch("main").evolve(change, keep="old", sync="both")
    with livingdb.open(place, trust=[]) as db:
        with pytest.raises(livingdb.Untrusted, match="current_setting"):
            db.branch("main").table("orders").to_arrow()
        assert db.branch("old").table("orders").to_arrow().num_rows == 1


def test_a_condition_of_a_stranger(place: Path) -> None:
    """It cannot be judged, so that it does not hold; the alert says why."""
    wrong = livingdb.condition.sql(f"SELECT id FROM v WHERE {SECRET} IS NULL", action="hold")
    with unchecked(), livingdb.open(place) as db:
        main, text = db.branch("main"), "SELECT id FROM orders"
        main.derive("v", sql=text, when="deferred", engine="embedded", conditions=[wrong])
        main.insert("orders", [{"id": 2, "city": "Rome"}])
    with livingdb.open(place, trust=[]) as db:
        db.propagate()
        assert db.sync("v").state == "held"
        (alert,) = db.alerts(state="open")
        assert "'current_setting'" in alert.message
        assert db.at("v").table("v").to_arrow().num_rows == 1


def test_a_view_of_a_stranger(place: Path) -> None:
    with unchecked(), livingdb.open(place) as db:
        text = f"SELECT id, CAST({SECRET} AS STRING) AS x FROM orders"
        db.branch("main").derive("v", sql=text, when="deferred", engine="embedded")
        db.branch("main").insert("orders", [{"id": 2, "city": "Rome"}])
    with livingdb.open(place, trust=[]) as db:
        for full in (False, True):
            with pytest.raises(livingdb.Untrusted, match="current_setting"):
                db.refresh("v", full=full)
        (outcome,) = db.propagate()
        assert outcome.snapshot is None
        assert "'current_setting'" in str(outcome.error)
        assert db.at("v").table("v").to_arrow().num_rows == 1


def test_a_lazy_answer_of_a_stranger(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = making.query_recipe

    def forged(query: str, *given: object, **named: object) -> object:
        """The recipe of another query, that only a stranger would store."""
        assert "upper(city)" in query
        return stored(query.replace("upper(city)", f"CAST({SECRET} AS STRING)"), *given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch, livingdb.open(place) as db:
        patch.setattr(making, "query_recipe", forged)
        text = "SELECT id, upper(city) AS x FROM orders"
        db.branch("main").derive("v", sql=text, materialize="none", engine="embedded", key="id")
    with livingdb.open(place, trust=[]) as db:
        with pytest.raises(livingdb.Untrusted, match="current_setting"):
            db.at("v").table("v").to_arrow()
        with pytest.raises(livingdb.Untrusted, match="current_setting"):
            db.branch("main").sql("SELECT * FROM v")


def test_variables_of_spark_are_plain_text(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.sql("UPDATE orders SET city = '${env:HOME}'")
    assert main.table("orders").get(1) == {"id": 1, "city": "${env:HOME}"}
    (row,) = main.sql("SELECT '${env:HOME}' AS a, '${spark.app.name}' AS b, '${hiveconf:x}' AS c")
    assert row == {"a": "${env:HOME}", "b": "${spark.app.name}", "c": "${hiveconf:x}"}


def test_names_of_branches_need_no_trust(place: Path) -> None:
    """What a database names and may not run does not matter to what its branches are called."""
    guard = livingdb.condition.function("os.path:exists", action="hold")
    with livingdb.open(place, trust=["os.path"]) as db:
        main = db.branch("main")
        main.clone("dev")
        main.derive("v", "SELECT id FROM orders", when="deferred", engine="embedded")
        db.sync("v").alter(conditions=[guard])
    with livingdb.open(place, trust=[]) as db:
        db.rename_branch("dev", "trial")
        db.rename_branch("main", "trunk")
        db.set_default_branch("trial")
        sync = db.sync("v")
        sync.alter(when="on demand", alerts=[livingdb.alert.log()])
        assert (sync.state, sync.when, sync.sources) == ("active", "on demand", ["trunk"])
        assert sync.condition_texts == [{"text": guard.text, "action": "hold"}]
        with pytest.raises(livingdb.LivingDBError):
            db.rename_branch("v", "w")
        with pytest.raises(livingdb.NotFound):
            db.set_default_branch("nothing")
        assert db.default_branch.name == "trial"


def test_what_may_not_run_is_not_made_immediate(place: Path) -> None:
    guard = livingdb.condition.function("os.path:exists", action="hold")
    with livingdb.open(place, trust=["os.path"]) as db:
        db.branch("main").derive("v", "SELECT id FROM orders", when="deferred", engine="embedded")
        db.sync("v").alter(conditions=[guard])
    with livingdb.open(place, trust=[]) as db:
        db.branch("main").insert("orders", [{"id": 2, "city": "Rome"}])
        head = db.branch("v").head
        with pytest.raises((livingdb.Untrusted, livingdb.RuleViolation)):
            db.sync("v").alter(when="immediate")
        assert db.sync("v").when == "deferred"
        assert db.branch("v").head == head
