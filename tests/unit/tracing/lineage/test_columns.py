"""What the columns of derived objects are computed from."""

from __future__ import annotations

import pytest
from tests.property.view_shapes import SCHEMAS_OF_SHAPES

import livingdb
from livingdb.derivation.column_lineage.query_columns import columns_of_query
from livingdb.derivation.column_lineage.sync_columns import sources_of_columns
from livingdb.errors import NotFound
from livingdb.evolution import (
    AddColumn,
    ConcatColumns,
    Decompose,
    DropColumn,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitColumn,
    SplitTable,
    UnionTables,
)
from livingdb.sql.parse import parse_statement

# Of each query, for each column what it is computed from, and what else the query looks at.
QUERIES = {
    "SELECT id, x * 2 + u AS y, 1 AS one FROM t WHERE g = 'a'": (
        ["t.id", "t.u t.x", ""],
        {"filter": "t.g"},
    ),
    "SELECT g, sum(x) AS s, count(*) AS n FROM t GROUP BY g HAVING max(d) > 1": (
        ["t.g", "t.x", ""],
        {"filter": "t.d", "group": "t.g"},
    ),
    "SELECT t.id, u.name FROM t LEFT JOIN u ON t.u = u.u AND t.x > 1": (
        ["t.id", "u.name"],
        {"join": "t.u t.x u.u"},
    ),
    "SELECT id, sum(x) OVER (PARTITION BY g ORDER BY day) AS s FROM t": (
        ["t.id", "t.x"],
        {"window": "t.day t.g"},
    ),
    "WITH a AS (SELECT g, x + 1 AS y FROM t WHERE d > 0) SELECT g, max(y) AS m FROM a GROUP BY 1": (
        ["t.g", "t.x"],
        {"filter": "t.d", "group": "t.g"},
    ),
    "SELECT g FROM t UNION SELECT name FROM u": (["t.g u.name"], {}),
    "SELECT g FROM t EXCEPT SELECT name FROM u WHERE v > 1": (
        ["t.g"],
        {"filter": "u.v", "set": "u.name"},
    ),
    "SELECT id, (SELECT max(w) FROM u WHERE u.u = t.u) AS m FROM t": (
        ["t.id", "u.w"],
        {"filter": "t.u u.u"},
    ),
    "SELECT id FROM t WHERE u IN (SELECT u FROM u WHERE v > 1)": (
        ["t.id"],
        {"filter": "t.u u.u u.v"},
    ),
    "SELECT id, CASE WHEN x > 1 THEN g ELSE 'no' END AS c FROM t ORDER BY c, f LIMIT 3": (
        ["t.id", "t.g t.x"],
        {"order": "t.f t.g t.x"},
    ),
    "SELECT id, e FROM t LATERAL VIEW explode(array(x, u)) z AS e": (["t.id", "t.u t.x"], {}),
    "SELECT x + 1 AS y, y * f AS z FROM t": (["t.x", "t.f t.x"], {}),
    "SELECT q.b FROM (SELECT id, g FROM t) AS q(a, b) WHERE q.a > 1": (
        ["t.g"],
        {"filter": "t.id"},
    ),
    "SELECT a.k, b.label FROM s a JOIN s b ON a.parent = b.k": (
        ["s.k", "s.label"],
        {"join": "s.k s.parent"},
    ),
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY g ORDER BY x) = 1": (
        ["t.id"],
        {"window": "t.g t.x"},
    ),
}


def told(columns: object) -> str:
    return " ".join(sorted(f"{table}.{column}" for table, column in columns))  # type: ignore[attr-defined]


@pytest.mark.parametrize("query", QUERIES)
def test_queries(query: str) -> None:
    found = columns_of_query(parse_statement(query), SCHEMAS_OF_SHAPES)  # type: ignore[arg-type]
    values, used = QUERIES[query]
    assert [told(some) for some in found.values] == values
    assert {use: told(some) for use, some in found.used.items() if use in used} == used
    assert set(found.used) - set(used) <= {"filter"}


def test_a_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive(
        "sums",
        "SELECT sum(o.amount) / count(*) AS mean, c.name FROM orders o "
        "JOIN customers c ON o.customer = c.id WHERE o.city IS NOT NULL GROUP BY c.name",
    )
    found = db.column_lineage("sums")
    assert found == {"mean": ["orders.amount"], "name": ["customers.name"]}
    assert found.used == {
        "filter": ["orders.city"],
        "group": ["customers.name"],
        "join": ["customers.id", "orders.customer"],
    }
    assert found.masked == {}
    assert found.places["mean"] == [("main", "orders", "amount")]
    assert str(found).splitlines()[:3] == [
        "sums",
        "  mean <- orders.amount",
        "  name <- customers.name",
    ]
    with pytest.raises(NotFound, match="'main' is not a derived object"):
        db.column_lineage("main")


def test_views_on_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("large", "SELECT id, city AS town, amount + 1 AS more FROM orders WHERE note = ''")
    main.derive("towns", "SELECT town, max(more) AS most FROM large GROUP BY town")
    found = db.column_lineage("towns")
    assert found == {"town": ["orders.city"], "most": ["orders.amount"]}
    assert found.used == {"filter": ["orders.note"], "group": ["orders.city"]}
    step = db.column_lineage("towns", base=False)
    assert step == {"town": ["large.town"], "most": ["large.more"]}
    assert step.used == {"group": ["large.town"]}


def test_two_branches(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.clone("dev")
    query = "SELECT a.id, a.amount - b.amount AS gap FROM orders a JOIN dev.orders b ON a.id = b.id"
    main.derive("gaps", query, when="deferred")
    assert db.column_lineage("gaps")["gap"] == ["main.orders.amount", "dev.orders.amount"]


def test_functions_may_use_everything(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive(
        "model", model="tests.unit.tracing.lineage.functions:train", tables=["customers", "orders"]
    )
    found = db.column_lineage("model")
    assert found["data"] == [
        "customers.id",
        "customers.name",
        *(f"orders.{name}" for name in ("amount", "city", "customer", "id", "note")),
    ]


# --- schema changes -----------------------------------------------------------------------------

CHANGES = {
    "rename": (RenameColumn("orders", "city", "town"), "orders.town", ["orders.city"]),
    "retitle": (RenameTable("orders", "sales"), "sales.city", ["orders.city"]),
    "add": (AddColumn("orders", "vat", "double", default=0.5), "orders.vat", []),
    "compute": (
        AddColumn("orders", "twice", "bigint", computed="amount * 2"),
        "orders.twice",
        ["orders.amount"],
    ),
    "drop": (DropColumn("orders", "note"), "orders.city", ["orders.city"]),
    "retype": (RetypeColumn("orders", "amount", "double"), "orders.amount", ["orders.amount"]),
    "split": (
        SplitColumn("customers", "name", ["first", "last"], separator=" "),
        "customers.last",
        ["customers.name"],
    ),
    "concat": (
        ConcatColumns("orders", ["city", "note"], "label", separator="/"),
        "orders.label",
        ["orders.city", "orders.note"],
    ),
    "decompose": (
        Decompose("orders", {"a": ["customer", "city"], "b": ["amount", "note"]}),
        "b.amount",
        ["orders.amount"],
    ),
    "join": (
        JoinTables("orders", "customers", "wide", "customer"),
        "wide.name",
        ["customers.name"],
    ),
    "normalize": (Normalize("orders", ["city"], "cities"), "cities.city", ["orders.city"]),
    "reference": (Normalize("orders", ["city"], "cities"), "orders.cities_id", ["orders.city"]),
    "partition": (
        SplitTable("orders", {"small": "amount < 50", "large": "amount > 20"}),
        "large.city",
        ["orders.city"],
    ),
}


@pytest.mark.parametrize("when", ["immediate", "deferred"])
@pytest.mark.parametrize("case", CHANGES)
def test_schema_changes(db: livingdb.Database, main: livingdb.Branch, case: str, when: str) -> None:
    change, column, wanted = CHANGES[case]
    main.clone("next", transform=[change], sync="forward", when=when)
    table, name = column.split(".")
    assert db.column_lineage(f"next.{table}")[name] == wanted
    (sync,) = db._graph.catalog.syncs.all()
    assert sorted(f"{t}.{c}" for t, c in sources_of_columns(db._graph, sync)[column]) == wanted


def test_a_union(db: livingdb.Database, main: livingdb.Branch) -> None:
    for name in ("north", "south"):
        main.create_table(name, {"id": "bigint", "x": "string"}, key="id")
    main.evolve(UnionTables(["north", "south"], "all", "origin"), to="next", sync="forward")
    found = db.column_lineage("next.all")
    assert (found["x"], found["origin"]) == (["north.x", "south.x"], [])


@pytest.mark.parametrize("when", ["immediate", "deferred"])
@pytest.mark.parametrize(
    ("mask", "masked"),
    [
        (MaskColumn("customers", "name"), ["customers.name"]),
        (MaskColumn("customers", "name", "null"), []),
        (MaskColumn("customers", "name", "expression", "left(name, 1)"), ["customers.name"]),
    ],
)
def test_masks(
    db: livingdb.Database,
    main: livingdb.Branch,
    mask: MaskColumn,
    masked: list[str],
    when: str,
) -> None:
    main.clone(
        "public", transform=[mask, RenameTable("customers", "people")], sync="forward", when=when
    )
    db.branch("public").derive(
        "loud", "SELECT upper(name) AS name, count(*) AS n FROM people GROUP BY 1", when="deferred"
    )
    for found in (db.column_lineage("public.people"), db.column_lineage("loud")):
        assert found["name"] == masked
        assert found.masked == ({"name": masked} if masked else {})
    syncs = {sync.target: sync for sync in db._graph.catalog.syncs.all()}
    sync = syncs[db._graph.branch("public").id]
    found = sources_of_columns(db._graph, sync)
    assert found["people.name"] == set()
    assert found["people.id"] == {("customers", "id")}
    assert not any(("customers", "name") in columns for columns in found.values())


def test_a_view_that_can_be_written(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("prices", "SELECT id, amount AS price FROM orders WHERE city = 'Oslo'", sync="both")
    assert db.column_lineage("prices") == {"id": ["orders.id"], "price": ["orders.amount"]}
