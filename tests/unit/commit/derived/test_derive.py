"""Views: made once, and brought up to date in the ways there are."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidData,
    InvalidName,
    NotFound,
    ReadOnlyBranch,
    RuleViolation,
    Unsupported,
)
from livingdb.evolution import MaskColumn

TOTALS = "SELECT city, sum(amount) AS total, count(*) AS n FROM orders GROUP BY city"


def rows(branch: livingdb.Branch, name: str) -> list[dict[str, object]]:
    """What a view shows, asked for by name."""
    return branch.sql(f"SELECT * FROM {name}").to_arrow().to_pylist()


# --- making and refreshing -------------------------------------------------------------------


def test_a_view_is_a_branch_with_a_table_of_its_name(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    made = main.derive("totals", TOTALS, message="by city", author="bo")
    assert made == "totals"
    assert db.branches() == ["main", "totals"]
    assert made.tables() == ["totals"]
    assert made.table("totals").key == ("city",)
    assert made.table("totals").to_arrow().to_pylist() == [
        {"city": None, "total": 150, "n": 3},
        {"city": "Oslo", "total": 90, "n": 3},
        {"city": "Rome", "total": 120, "n": 3},
    ]
    assert made.head.parents == ()
    assert (made.head.message, made.head.author) == ("by city", "bo")
    assert made.head.edge.kind == "derive"
    assert made.head.edge.details["query"] == TOTALS
    assert made.head.sources == {"main": main.head.id}
    sync = db.sync("totals")
    assert (sync.name, sync.sources, sync.target) == ("main/totals", ["main"], "totals")
    assert (sync.direction, sync.when, sync.state) == ("forward", "deferred", "active")
    assert sync.lag == 0


def test_a_view_of_nothing_yet(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "string"}, key="id")
    main.derive("v", "SELECT v, count(*) AS n FROM t GROUP BY v", when="immediate")
    main.derive("all_of_it", "SELECT count(*) AS n, max(id) AS m FROM t", when="immediate")
    assert rows(main, "v") == []
    assert rows(main, "all_of_it") == [{"n": 0, "m": None}]
    main.insert("t", [{"id": 1, "v": "a"}, {"id": 2, "v": None}])
    assert rows(main, "v") == [{"v": None, "n": 1}, {"v": "a", "n": 1}]
    assert rows(main, "all_of_it") == [{"n": 2, "m": 2}]
    main.delete("t", [1, 2])
    assert rows(main, "v") == []
    assert rows(main, "all_of_it") == [{"n": 0, "m": None}]


def test_immediate_lands_with_the_commit(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    with main.transaction(message="both", author="cy") as tx:
        tx.upsert("orders", [{"id": 100, "customer": 1, "city": "Oslo", "amount": 7}])
        tx.delete("orders", [1, 4, 7])
        # A transaction sees its own changes in tables; views follow when it ends.
        assert len(tx.table("orders")) == 7
    head = db.branch("totals").head
    assert head.sources == {"main": main.head.id}
    assert (head.message, head.author) == ("both", "cy")
    assert head.edge.kind == "propagate"
    assert head.edge.details["strategy"] == "additive"
    assert head.edge.details["engine"] == "embedded"
    assert rows(main, "totals") == [
        {"city": None, "total": 150, "n": 3},
        {"city": "Oslo", "total": 97, "n": 4},
    ]


def test_a_failed_commit_leaves_views_alone(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    before = db.branch("totals").head
    with pytest.raises(livingdb.DuplicateKey):
        main.insert("orders", [{"id": 1, "customer": 1}])
    with pytest.raises(InvalidData, match="77"):
        main.insert("orders", [{"id": 100, "customer": 77}])
    assert db.branch("totals").head == before


def test_a_commit_that_a_view_does_not_read_costs_it_nothing(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", TOTALS, when="immediate")
    before = db.branch("totals").head
    main.insert("customers", [{"id": 50, "name": "new"}])
    assert db.branch("totals").head == before
    assert db.sync("totals").lag == 0
    assert not db.refresh("totals")


def test_refresh_says_what_it_did(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="on demand")
    nothing = db.refresh("totals")
    assert not nothing
    assert (nothing.snapshot, nothing.strategy) == (None, "none")
    main.update("orders", [{"id": 0, "amount": 5}])
    assert db.propagate() == []
    assert db.sync("totals").lag == 1
    done = db.refresh("totals")
    assert done
    assert done.snapshot == db.branch("totals").head
    assert (done.name, done.strategy, done.reason) == ("totals", "additive", None)
    assert (done.rows, done.engine, done.error) == (1, "embedded", None)
    assert done.seconds > 0
    assert "additive" in repr(done)
    assert rows(main, "totals")[1] == {"city": "Oslo", "total": 95, "n": 3}


def test_a_full_refresh_of_the_same_rows_is_the_same_version(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", TOTALS)
    main.derive("big", "SELECT * FROM totals WHERE total > 100")
    version = db.branch("totals").table("totals").version
    done = db.refresh("totals", full=True)
    assert (done.strategy, done.reason, done.rows) == ("full", "ASKED_FOR", 0)
    assert db.branch("totals").table("totals").version == version
    # So what reads it has nothing to do.
    assert db.propagate() == []


def test_refresh_full_always(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, refresh="full")
    main.delete("orders", [0])
    (done,) = db.propagate()
    assert (done.strategy, done.reason) == ("full", "ASKED_FOR")


def test_propagate_takes_what_others_read_first(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", TOTALS)
    main.derive("big", "SELECT city FROM totals WHERE total > 100")
    main.derive("how_many", "SELECT count(*) AS n FROM big")
    main.derive("other", "SELECT id, amount FROM orders WHERE amount > 50")
    main.update("orders", [{"id": 0, "amount": 100}])
    assert {name: db.sync(name).lag for name in ("totals", "big", "how_many", "other")} == {
        "totals": 1,
        "big": 0,
        "how_many": 0,
        "other": 1,
    }
    seen: list[tuple[int, int, str]] = []
    done = [run.name for run in db.propagate(progress=lambda *step: seen.append(step))]
    assert sorted(done) == ["big", "how_many", "other", "totals"]
    assert done.index("totals") < done.index("big") < done.index("how_many")
    assert seen[-1][:2] == (4, 4)
    assert rows(main, "how_many") == [{"n": 3}]
    assert db.propagate() == []


def test_runs_are_written_down(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS)
    for number in range(3):
        main.update("orders", [{"id": 0, "amount": 1000 + number}])
        db.propagate()
    runs = db.sync("totals").runs
    assert [run["outcome"] for run in runs] == ["done"] * 3
    assert runs[0]["strategy"] == "additive"
    assert runs[0]["time"] >= runs[1]["time"]


def test_explain_shows_the_strategy_before_anything_runs(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", TOTALS)
    main.derive("top", "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 3")
    assert "main → totals: derive, deferred, active" in db.sync("totals").explain()
    assert "additive" in db.sync("totals").explain()
    assert "order by … limit: touched" in db.sync("top").explain()


def test_made_once(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("then", TOTALS, sync="none")
    assert db.syncs() == []
    main.delete("orders", [0])
    assert db.propagate() == []
    assert len(made.table("then")) == 3
    made.delete("then", ["Oslo"])
    assert len(made.table("then")) == 2


@pytest.mark.parametrize("when", ["deferred", "on demand", "every 10 minutes", "lag 5 minutes"])
def test_what_is_made_once_has_no_time_to_be_made_again(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    with pytest.raises(livingdb.InvalidData, match="is that of a sync"):
        main.derive("then", TOTALS, sync="none", when=when)
    with pytest.raises(livingdb.InvalidData, match="is that of a sync"):
        change = MaskColumn("orders", "city", "null")
        main.clone("masked", transform=[change], sync="none", when=when)
    assert db.branches() == [main]
    main.derive("then", TOTALS, sync="none", when="immediate")
    assert db.syncs() == []


# --- keys ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT city, count(*) AS n FROM orders GROUP BY city", ("city",)),
        ("SELECT city AS c, note, max(id) AS m FROM orders GROUP BY city, note", ("c", "note")),
        ("SELECT id, amount FROM orders WHERE amount > 20", ("id",)),
        ("SELECT amount, id AS number FROM orders", ("number",)),
        ("SELECT DISTINCT city, customer FROM orders", ("city", "customer")),
        ("SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id", ("id",)),
        ("SELECT a.id AS a, b.id AS b FROM orders a JOIN orders b ON a.city = b.city", ("a", "b")),
        ("SELECT city FROM orders", ()),
        ("SELECT id, city FROM orders UNION ALL SELECT id, city FROM orders", ()),
    ],
)
def test_the_key_of_a_view(
    db: livingdb.Database, main: livingdb.Branch, query: str, key: tuple[str, ...]
) -> None:
    made = main.derive("v", query, when="immediate")
    assert made.table("v").key == key
    main.upsert("orders", [{"id": 3, "customer": 2, "city": "Bern"}, {"id": 70, "customer": 0}])
    main.delete("orders", [4, 5])
    assert made.table("v").key == key


def test_nulls_in_the_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("totals", TOTALS, when="immediate").table
    assert made("totals").get(None) == {"city": None, "total": 150, "n": 3}
    main.delete("orders", [2])
    assert made("totals").get(None) == {"city": None, "total": 130, "n": 2}
    main.update("orders", [{"id": 0, "city": None}, {"id": 1, "city": ""}])
    assert made("totals").get(None) == {"city": None, "total": 130, "n": 3}
    assert made("totals").get("") == {"city": "", "total": 10, "n": 1}
    main.delete("orders", [0, 5, 8])
    assert made("totals").get(None) is None


def test_a_declared_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    query = "SELECT name, id + 100 AS number FROM customers"
    assert main.derive("bag", query).table("bag").key == ()
    made = main.derive("v", query, key="number", when="immediate")
    assert made.table("v").key == ("number",)
    assert made.table("v").get(101) == {"name": "name 1", "number": 101}
    assert main.derive("two", query, key=["name", "number"]).table("two").key == ("name", "number")


def test_a_declared_key_that_identifies_no_rows(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    with pytest.raises(InvalidData, match=r"\(city\) does not identify"):
        main.derive("v", "SELECT city, amount FROM orders", key="city")
    with pytest.raises(livingdb.LivingDBError, match="nowhere"):
        main.derive("v", "SELECT city, amount FROM orders", key="nowhere")
    assert db.branches() == ["main"]


def test_a_bag_counts_copies(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("bag", "SELECT city, customer FROM orders", when="immediate")
    table = db.branch("bag").table("bag")
    assert table.schema.names == ["city", "customer"]
    assert len(table) == 9
    with pytest.raises(livingdb.LivingDBError, match="key"):
        table.get(("Oslo", 0))
    main.delete("orders", [0])
    main.insert("orders", [{"id": i, "customer": 1, "city": "Rome"} for i in range(20, 25)])
    found = db.branch("bag").table("bag").to_arrow().to_pylist()
    assert found.count({"city": "Oslo", "customer": 0}) == 2
    assert found.count({"city": "Rome", "customer": 1}) == 8


# --- refusals --------------------------------------------------------------------------------


def test_what_cannot_be_written(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("totals", TOTALS)
    with pytest.raises(ReadOnlyBranch, match="main/totals"):
        made.delete("totals", ["Oslo"])
    with pytest.raises(ReadOnlyBranch):
        made.sql("DELETE FROM totals")
    with pytest.raises(ReadOnlyBranch):
        made.create_table("more", {"id": "bigint"}, key="id")
    with pytest.raises(ReadOnlyBranch):
        db.merge("main", into="totals")
    with pytest.raises(livingdb.LivingDBError):
        made.reset(main.head)
    db.sync("totals").detach()
    made.delete("totals", ["Oslo"])
    assert len(made.table("totals")) == 2


def test_names_that_are_taken(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS)
    with pytest.raises(AlreadyExists, match="branch 'totals'"):
        main.derive("totals", TOTALS)
    with pytest.raises(AlreadyExists, match="branch 'main'"):
        main.derive("main", TOTALS)
    with pytest.raises(AlreadyExists, match="table 'customers'"):
        main.derive("customers", TOTALS)
    with pytest.raises(InvalidName):
        main.derive("no name", TOTALS)


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({}, InvalidData, "one of them"),
        ({"sql": TOTALS, "model": "a.b:c"}, InvalidData, "one of them"),
        ({"sql": "DELETE FROM orders"}, InvalidData, "a query"),
        ({"sql": 5}, InvalidData, "a text, not int"),
        ({"sql": "SELECT 1 AS one"}, InvalidData, "at least one table"),
        ({"sql": "SELECT * FROM nowhere"}, NotFound, "nowhere"),
        ({"sql": "SELECT nothing FROM orders"}, livingdb.LivingDBError, "nothing"),
        ({"sql": "SELECT * FROM orders WHERE id = :x"}, Unsupported, "no parameters"),
        ({"sql": TOTALS, "params": {"x": 1}}, InvalidData, "params"),
        ({"sql": TOTALS, "refresh": "daily"}, InvalidData, "refresh='daily'"),
        ({"sql": TOTALS, "materialize": "half"}, InvalidData, "materialize='half'"),
        ({"sql": TOTALS, "engine": "abacus"}, InvalidData, "engine='abacus'"),
        ({"sql": TOTALS, "sync": "reverse"}, InvalidData, "sync='reverse'"),
        ({"sql": TOTALS, "when": "sometimes"}, InvalidData, "when='sometimes'"),
        ({"sql": TOTALS, "when": "immediate", "engine": "spark"}, IllegalSync, "embedded"),
        (
            {"sql": "SELECT id, rand() AS r FROM orders", "refresh": "incremental"},
            IllegalSync,
            "NOT_DETERMINISTIC",
        ),
        (
            {
                "sql": "SELECT array(id) AS ids FROM orders ORDER BY id LIMIT 3",
                "refresh": "incremental",
            },
            IllegalSync,
            "TOP_K",
        ),
        (
            {
                "sql": "SELECT id, row_number() OVER (ORDER BY amount, id) AS r FROM orders",
                "refresh": "incremental",
            },
            IllegalSync,
            "WINDOW_WITHOUT_PARTITION_BY",
        ),
        (
            {"sql": "SELECT id, soundex(city) AS s FROM orders", "when": "immediate"},
            IllegalSync,
            "when='deferred' runs it on Spark",
        ),
    ],
)
def test_refused_with_the_reason(
    db: livingdb.Database,
    main: livingdb.Branch,
    options: dict[str, str],
    error: type[Exception],
    why: str,
) -> None:
    head = main.head
    with pytest.raises(error, match=why):
        main.derive("v", **options)
    assert db.branches() == ["main"]
    assert db.syncs() == []
    assert main.head == head


def test_incremental_only(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, refresh="incremental")
    main.insert("orders", [{"id": i, "customer": 0, "amount": 1} for i in range(100, 2000)])
    (done,) = db.propagate()
    assert (done.strategy, done.reason) == ("additive", None)


def test_a_large_delta_is_made_anew(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS)
    main.insert("orders", [{"id": i, "customer": 0, "amount": 1} for i in range(100, 2000)])
    (done,) = db.propagate()
    assert (done.strategy, done.reason) == ("full", "DELTA_TOO_LARGE")


def test_what_is_not_derived_is_not_refreshed(db: livingdb.Database, main: livingdb.Branch) -> None:
    with pytest.raises(NotFound, match="no derived object 'main'"):
        db.refresh("main")
    with pytest.raises(NotFound, match="there are: none"):
        db.refresh("nowhere")
    main.derive("totals", TOTALS)
    db.sync("totals").detach(reason="by hand")
    with pytest.raises(RuleViolation, match="reattach"):
        db.refresh("totals")


# --- not stored ------------------------------------------------------------------------------


@pytest.mark.parametrize("materialize", ["none", "lazy", "where city > 'C'", "WHERE n >= 2"])
@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_a_view_that_is_not_stored(
    db: livingdb.Database, main: livingdb.Branch, materialize: str, when: str
) -> None:
    made = main.derive("totals", TOTALS, materialize=materialize, when=when)
    assert made.table("totals").key == ("city",)
    assert made.table("totals").get("Oslo") == {"city": "Oslo", "total": 90, "n": 3}
    assert len(made.table("totals")) == 3
    main.insert("orders", [{"id": 50, "customer": 0, "city": "Bern", "amount": 1}])
    db.propagate()
    assert made.table("totals").get("Bern") == {"city": "Bern", "total": 1, "n": 1}
    before = db.diff("totals~1", "totals")["totals"].to_arrow()
    assert before.column("_change_type").to_pylist() == ["insert"]
    assert len(db.at("totals~1").table("totals")) == 3
    assert made.tables() == ["totals"]
    assert db.sync("totals").explain().endswith(f"stored: {materialize}")
    assert not db.check().problems


def test_a_view_that_is_not_stored_writes_no_rows(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.insert("orders", [{"id": i, "customer": 0, "note": f"{i:064}"} for i in range(100, 5000)])
    before = db.storage().journal_bytes
    main.derive("copy", "SELECT * FROM orders", materialize="none")
    assert db.storage().journal_bytes - before < 10_000


def test_a_view_that_only_spark_can_make_is_stored(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    query = "SELECT id, soundex(city) AS s FROM orders"
    with pytest.raises(Unsupported, match="materialize='full'"):
        main.derive("v", query, materialize="none")
