"""Plans of views: their stages, keys and reasons, and how little they read."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.property.view_lab import Lab, Memory, answer

from livingdb.derivation.compiler.plan_query import WEIGHT, Ask, Input, NeedsFull, Plan, plan
from livingdb.derivation.operators.additive_groups import AdditiveGroups, Slot
from livingdb.derivation.operators.node import Leaf, Run
from livingdb.derivation.weighted_rows import consolidate, difference, distinct_rows, semi_join
from livingdb.errors import InvalidData, NotFound
from livingdb.sql.parse import parse_statement

ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("customer", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("units", pa.int64()),
        ("note", pa.string()),
        ("weight", pa.float64()),
    ]
)
CUSTOMERS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("city", pa.string())])
TABLES = {"Orders": Input(ORDERS, ("id",)), "customers": Input(CUSTOMERS, ("id",))}


def made(text: str, key: tuple[str, ...] | None = None) -> Plan:
    return plan(parse_statement(text), TABLES, key)


def orders(*rows: tuple) -> pa.Table:
    names = ORDERS.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=False)) for row in rows], ORDERS)


def customers(*rows: tuple) -> pa.Table:
    return pa.Table.from_pylist([{"id": i, "city": city} for i, city in rows], CUSTOMERS)


def lab(text: str) -> Lab:
    tables = {
        "orders": orders((1, 1, 5, 2, "a", 0.5), (2, 1, 7, 3, "b", 1.5), (3, 2, 1, 1, "c", 2.5)),
        "customers": customers((1, "Ulm"), (2, "Bonn")),
    }
    return Lab(text, tables, {"orders": ("id",), "customers": ("id",)})


# --- what a plan says ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("SELECT id, note FROM orders WHERE units > 1", ("id",)),
        ("SELECT note FROM orders", None),
        ("SELECT id AS number, note FROM orders", ("number",)),
        ("SELECT customer, sum(units) AS s FROM orders GROUP BY customer", ("customer",)),
        ("SELECT sum(units) AS s FROM orders GROUP BY customer", None),
        ("SELECT sum(units) AS s, count(*) AS n FROM orders", ("s",)),
        ("SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id", ("id",)),
        (
            "SELECT o.id, c.id AS cid FROM orders o JOIN customers c ON o.note = c.city",
            ("id", "cid"),
        ),
        ("SELECT o.id, c.city FROM orders o JOIN customers c ON o.note = c.city", None),
        ("SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id", ("id",)),
        ("SELECT DISTINCT note, units FROM orders", ("note", "units")),
        ("SELECT note FROM orders UNION SELECT city FROM customers", ("note",)),
        ("SELECT note FROM orders UNION ALL SELECT city FROM customers", None),
        ("SELECT id, array(units) AS list FROM orders", ("id",)),
        ("SELECT id FROM orders WHERE customer IN (SELECT id FROM customers)", ("id",)),
    ],
)
def test_the_key_of_a_view(text: str, key: tuple[str, ...] | None) -> None:
    assert made(text).stages[-1].key == key


def test_the_caller_may_know_the_key() -> None:
    assert made("SELECT note, units FROM orders", ("note",)).stages[-1].key == ("note",)
    with pytest.raises(InvalidData, match="no column 'nothing'"):
        made("SELECT note FROM orders", ("nothing",))


def test_two_columns_cannot_have_one_name() -> None:
    with pytest.raises(InvalidData, match="several columns 'id'"):
        made("SELECT o.id, c.id FROM orders o JOIN customers c ON o.customer = c.id")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT id, rand() AS r FROM orders", "NOT_DETERMINISTIC"),
        ("SELECT id, uuid() AS r FROM orders", "NOT_DETERMINISTIC"),
        ("SELECT id, current_date() AS today FROM orders", "TIME_DEPENDENT"),
        ("SELECT id, now() AS r FROM orders", "TIME_DEPENDENT"),
        ("SELECT id, unix_timestamp() AS r FROM orders", "TIME_DEPENDENT"),
        ("SELECT id, my_function(units) AS r FROM orders", "UNKNOWN_FUNCTION"),
        ("SELECT id, array(units) AS u FROM orders ORDER BY id LIMIT 3", "TOP_K"),
        ("SELECT id, rank() OVER (ORDER BY units) AS r FROM orders", "WINDOW_WITHOUT_PARTITION_BY"),
        (
            "SELECT note, grouping_id(units) AS n FROM orders GROUP BY CUBE (note, units)",
            "GROUPING_SETS",
        ),
        ("SELECT id FROM orders WHERE units > ALL (SELECT id FROM customers)", "QUANTIFIED"),
        (
            "SELECT o.id FROM orders o LEFT JOIN customers c ON o.id < c.id",
            "OUTER_JOIN_WITHOUT_EQUALITY",
        ),
        ("SELECT 1 AS one", "NO_TABLE"),
    ],
)
def test_why_a_view_is_answered_in_full(text: str, reason: str) -> None:
    found = made(text)
    assert (found.is_incremental, found.reason) == (False, reason)
    assert found.stages[-1].strategy == "full"
    assert any(note[1:] == ("full", reason) for note in found.notes)
    with pytest.raises(NeedsFull, match=reason):
        found.stages[-1].maintain(Memory({}, {}))


def test_what_is_full_inside_leaves_the_rest_incremental() -> None:
    found = made(
        "SELECT c.city, q.note FROM customers c JOIN "
        "(SELECT customer, note, rank() OVER (ORDER BY id) AS r FROM orders) q "
        "ON q.customer = c.id WHERE q.r < 3"
    )
    assert [stage.strategy for stage in found.stages] == ["linear", "full", "join"]
    assert found.is_incremental
    assert found.reason is None


def test_stages_say_what_they_read() -> None:
    found = made(
        "SELECT c.city, sum(o.units) AS s FROM orders o JOIN CUSTOMERS c ON o.customer = c.id "
        "WHERE o.amount > 1 GROUP BY c.city HAVING sum(o.units) > 1"
    )
    first, last = found.stages
    assert (first.name, first.reads) == ("~1", ("Orders", "customers"))
    assert first.columns_used == {
        "Orders": {"customer", "units", "amount"},
        "customers": {"id", "city"},
    }
    assert (last.name, last.reads, dict(last.columns_used)) == ("", ("~1",), {})
    assert isinstance(last.ask, Ask)
    assert last.ask.relations == ("~1",)
    assert ("having", "linear", None) in found.notes
    assert [note[0] for note in found.notes].index("join") < [
        note[0] for note in found.notes
    ].index("group by")


# --- what maintenance reads ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, units + 1 AS u FROM orders WHERE units > 1",
        "SELECT customer, count(*) AS n, sum(units) AS s FROM orders GROUP BY customer",
        "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id",
        "SELECT id, rank() OVER (PARTITION BY customer ORDER BY id) AS r FROM orders",
    ],
)
def test_nothing_is_read_if_nothing_that_matters_changed(text: str) -> None:
    here = lab(text)
    here.change({})
    assert all(not reads for reads in here.reads.values())
    changed = orders((1, 1, 5, 2, "z", 0.5), (2, 1, 7, 3, "b", 1.5), (3, 2, 1, 1, "c", 2.5))
    here.change({"orders": changed})
    assert all(not reads for reads in here.reads.values())


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT id, note FROM orders", []),
        ("SELECT id, units + 1 AS u FROM orders", []),
        ("SELECT id, upper(note) AS u FROM orders", ["answer"]),
        ("SELECT customer, count(*) AS n FROM orders GROUP BY customer", ["held"]),
        (
            "SELECT o.id, c.city FROM orders o JOIN customers c ON o.customer = c.id",
            ["kept customers"],
        ),
        (
            "SELECT o.id, upper(c.city) AS u FROM orders o JOIN customers c ON o.customer = c.id",
            ["matching customers", "answer"],
        ),
        (
            "SELECT o.id, c.city FROM orders o LEFT JOIN customers c ON o.customer = c.id",
            ["matching customers", "answer"],
        ),
        (
            "SELECT customer, avg(weight) AS w FROM orders GROUP BY customer",
            ["matching orders", "answer", "held"],
        ),
        ("SELECT DISTINCT note FROM orders", ["matching orders", "answer", "held"]),
    ],
)
def test_a_row_more_is_little_work(text: str, reads: list[str]) -> None:
    here = lab(text)
    here.change({"orders": pa.concat_tables([here.tables["orders"], orders((9, 2, 1, 1, "n", 1))])})
    assert here.reads[""] == reads


def test_a_larger_extreme_is_folded_and_a_lost_one_is_looked_for() -> None:
    text = "SELECT customer, max(units) AS m, count(*) AS n FROM orders GROUP BY customer"
    here = lab(text)
    before = here.tables["orders"]
    here.change({"orders": pa.concat_tables([before, orders((9, 1, 1, 50, "n", 1))])})
    assert here.reads[""] == ["held"]
    here.change({"orders": before})
    assert here.reads[""] == ["held", "matching orders", "answer"]


def test_the_first_rows_are_looked_for_only_if_too_few_stay() -> None:
    here = lab("SELECT id, units FROM orders ORDER BY units DESC, id LIMIT 2")
    before = here.tables["orders"]
    assert here.held[""].column("id").to_pylist() == [2, 1]
    here.change({"orders": pa.concat_tables([before, orders((9, 1, 1, 50, "n", 1))])})
    assert here.reads[""] == ["held", "answer"]
    here.change({"orders": pa.concat_tables([before, orders((9, 1, 1, 4, "n", 1))])})
    assert here.reads[""] == ["held", "answer"]
    here.change({"orders": before.slice(2)})
    assert here.reads[""] == ["held", "answer", "source orders", "answer"]
    assert here.held[""].column("id").to_pylist() == [3]
    here.change({"orders": before})
    assert here.reads[""] == ["held", "answer"]


@pytest.mark.parametrize(
    ("clause", "sets"),
    [
        ("ROLLUP (note, units)", {(0, 0, 0), (0, 1, 1), (1, 1, 3)}),
        ("note, units WITH ROLLUP", {(0, 0, 0), (0, 1, 1), (1, 1, 3)}),
        ("CUBE (note, units)", {(0, 0, 0), (0, 1, 1), (1, 0, 2), (1, 1, 3)}),
        ("note, units GROUPING SETS (note, units)", {(0, 1, 1), (1, 0, 2)}),
        ("GROUPING SETS ((note, units), ROLLUP (units))", {(0, 0, 0), (1, 0, 2), (1, 1, 3)}),
        ("note, ROLLUP (units)", {(0, 0, 0), (0, 1, 1)}),
        ("GROUPING SETS ((note), (units, note))", {(0, 0, 0), (0, 1, 1)}),
    ],
)
def test_the_sets_of_a_grouping(clause: str, sets: set[tuple[int, int, int]]) -> None:
    """Which columns are null because they are rolled up; a null that was there is none of them."""
    text = (
        "SELECT grouping(note) AS a, grouping(units) AS b, grouping_id(note, units) AS c, note, "
        f"units, count(*) AS n FROM orders GROUP BY {clause}"
    )
    found = made(text)
    assert (found.is_incremental, found.stages[-1].key) == (True, ("c", "note", "units"))
    rows = orders((1, 1, 5, None, None, 0.5), (2, 1, 7, 3, "b", 1.5))
    held: dict[str, pa.Table] = {"Orders": rows}
    for stage in found.stages:
        held[stage.name] = answer(stage.ask, {name: held[name] for name in stage.reads})
    shown = held[""].to_pylist()
    assert {(row["a"], row["b"], row["c"]) for row in shown} == sets
    for at in sets:
        assert sum(row["n"] for row in shown if (row["a"], row["b"], row["c"]) == at) == 2
    held["Orders"] = rows.slice(0, 0)
    assert answer(found.stages[0].ask, {"Orders": held["Orders"]}).num_rows == 0


def test_a_value_that_is_shown_changes_every_row() -> None:
    here = lab("SELECT id, units - (SELECT max(units) FROM orders) AS less FROM orders")
    before = here.tables["orders"]
    here.change({"orders": pa.concat_tables([before, orders((8, 1, 1, 1, "n", 1))])})
    assert here.fulls == []
    here.change({"orders": pa.concat_tables([before, orders((9, 1, 1, 50, "n", 1))])})
    assert here.fulls == ["SCALAR_SUBQUERY_CHANGED"]


def test_a_value_that_is_compared_with_changes_the_rows_in_between() -> None:
    here = lab("SELECT id FROM orders WHERE units >= (SELECT max(units) FROM orders)")
    before = here.tables["orders"]
    here.change({"orders": pa.concat_tables([before, orders((8, 1, 1, 1, "n", 1))])})
    assert here.reads[""] == ["source ~2", "answer"]
    here.change({"orders": pa.concat_tables([before, orders((9, 1, 1, 50, "n", 1))])})
    assert here.reads[""][:4] == ["source orders", "source ~2", "source ~2", "answer"]
    here.change({"orders": before.slice(0, 0)})
    here.change({"orders": before})
    assert here.fulls == []


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT avg(weight) AS w, count(*) AS n FROM orders", {"~1": ["held", "source orders"]}),
        ("SELECT count(DISTINCT note) AS n FROM orders", {"~1": ["held"], "~2": ["held"]}),
    ],
)
def test_the_only_group_is_there_without_rows(text: str, reads: dict[str, list[str]]) -> None:
    here = lab(text)
    before = here.tables["orders"]
    here.change({"orders": before.set_column(1, "customer", pa.array([5, 5, 5], pa.int64()))})
    assert not here.reads["~1"]
    here.change({"orders": pa.concat_tables([before, orders((9, 2, 1, 1, "n", 1))])})
    assert {name: here.reads[name][: len(some)] for name, some in reads.items()} == reads
    here.change({"orders": before.slice(0, 0)})
    assert (here.held[""].num_rows, here.held[""].column("n").to_pylist()) == (1, [0])
    assert here.plan.is_incremental
    assert here.fulls == []


def test_what_nothing_reads_is_not_a_stage() -> None:
    found = made(
        "WITH a AS (SELECT note, count(*) AS n FROM orders GROUP BY note) SELECT id FROM orders"
    )
    assert [stage.name for stage in found.stages] == [""]


def test_a_name_that_may_be_two_things_is_left_to_the_engine() -> None:
    found = made(
        "SELECT customer, sum(units) AS units FROM orders GROUP BY customer, units HAVING units > 1"
    )
    assert found.reason == "AMBIGUOUS_COLUMN"


def test_tables_that_are_not_there() -> None:
    with pytest.raises(NotFound, match="no table 'nothing'"):
        made("SELECT id FROM nothing")


def test_the_query_stays_as_it_is() -> None:
    query = parse_statement(
        "SELECT customer, sum(units) AS s FROM orders WHERE id IN (SELECT id FROM customers) "
        "GROUP BY customer HAVING sum(units) > (SELECT max(id) FROM customers)"
    )
    before = query.sql("spark")
    plan(query, TABLES)
    assert query.sql("spark") == before


# --- nested values -------------------------------------------------------------------------------

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("list", pa.list_(pa.int64())),
        ("parts", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("words", pa.map_(pa.string(), pa.int64())),
        ("x", pa.int64()),
    ]
)


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("SELECT id, c FROM t LATERAL VIEW explode(list) q AS c", "linear"),
        ("SELECT c, count(*) AS n FROM t LATERAL VIEW explode(list) q AS c GROUP BY c", "additive"),
        ("SELECT id, explode(list) AS c FROM t", "linear"),
        ("SELECT parts.a AS a, count(*) AS n FROM t GROUP BY parts.a", "additive"),
        ("SELECT t.parts.b AS b, id FROM t WHERE parts.a > 0", "linear"),
        ("SELECT list, words, x FROM t", "linear"),
        ("SELECT o.id, i.parts FROM t AS o JOIN t AS i ON o.x = i.x", "join"),
        ("SELECT o.id, i.list FROM t AS o LEFT JOIN t AS i ON o.id = i.x", "touched"),
        ("SELECT x, collect_list(id) AS l FROM t GROUP BY x", "touched"),
        ("SELECT parts, count(*) AS n FROM t GROUP BY parts", "full"),
    ],
)
def test_nested_values(text: str, strategy: str) -> None:
    first = [
        (1, [1, 2], {"a": 1, "b": "x"}, [("k", 1)], 1),
        (2, [], None, None, 2),
        (3, None, {"a": 2, "b": None}, [], 1),
    ]
    second = [
        (1, [1, 3], {"a": 1, "b": "y"}, [("k", 2)], 1),
        (3, [7], {"a": 2, "b": None}, [], 1),
        (4, [7], {"a": 2, "b": None}, [], 1),
    ]
    tables = [
        pa.Table.from_pylist([dict(zip(NESTED.names, row, strict=True)) for row in rows], NESTED)
        for rows in (first, second, [])
    ]
    here = Lab(text, {"t": tables[0]}, {"t": ("id",)})
    assert here.plan.stages[-1].strategy == strategy
    for at in (1, 0, 2, 1):
        here.change({"t": tables[at]})
    assert here.fulls == []


# --- sums ----------------------------------------------------------------------------------------


def test_a_sum_that_does_not_fit_is_left_to_the_engine() -> None:
    here = lab("SELECT customer, sum(units) AS s FROM orders GROUP BY customer")
    stage = here.plan.stages[0]
    new = orders((1, 1, 5, 2**62, "a", 0.5), (2, 1, 7, 2**62, "b", 1.5))
    memory = Memory(here.tables, {**here.tables, "orders": new}, here.held[stage.name], stage)
    with pytest.raises(NeedsFull, match="OVERFLOW"):
        stage.maintain(memory)


@pytest.mark.parametrize(
    ("values", "average"),
    [
        (["0.01", "0.02", "0.02"], "0.016667"),
        (["0.01", "0.01", "0.02"], "0.013333"),
        (["-0.01", "-0.02", "-0.02"], "-0.016667"),
        (["0.01"] + ["0.00"] * 7, "0.001250"),
        (["0.01"] + ["0.00"] * 63, "0.000156"),
        (["0.05"] + ["0.00"] * 39999, "0.000001"),
    ],
)
def test_averages_of_decimals_are_rounded_as_spark_does(values: list[str], average: str) -> None:
    """Spark stores decimal(p + 4, s + 4), rounded half up."""
    kind, target = pa.decimal128(10, 2), pa.decimal128(14, 6)
    leaf = Leaf("rows", {"g": pa.int64(), "a": kind}, None)
    groups = AdditiveGroups(
        leaf,
        [("g", "g")],
        [
            Slot("n", "rows"),
            Slot("s", "sum", "a", "n"),
            Slot("m", "avg", "a", "n", "s"),
        ],
    )
    held = pa.schema(
        [("g", pa.int64()), ("n", pa.int64()), ("s", pa.decimal128(20, 2)), ("m", target)]
    ).empty_table()
    exact = pa.array([decimal.Decimal(value) for value in values], kind)
    new = pa.table({"g": pa.array(np.ones(len(values), np.int64)), "a": exact})

    class Held(Memory):
        def held_rows(self, keys: pa.Table) -> pa.Table:
            return held

    found = groups.delta(Run(Held({"rows": new.slice(0, 0)}, {"rows": new})))
    assert found.column("m").to_pylist() == [decimal.Decimal(average)]


# --- weighted rows -------------------------------------------------------------------------------


def test_rows_that_are_alike_become_one() -> None:
    rows = pa.table(
        {
            "a": pa.array([0.0, -0.0, float("nan"), float("nan"), None, None]),
            WEIGHT: pa.array([1, 1, 1, -1, 2, -1]),
        }
    )
    found = consolidate(rows)
    assert sorted(found.to_pylist(), key=str) == [{"a": 0.0, WEIGHT: 2}, {"a": None, WEIGHT: 1}]


def test_nested_rows_are_compared_by_value() -> None:
    kind = pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    values = [
        {"l": [1, 2], "m": [("a", 1)]},
        {"l": [1, 2], "m": [("a", 1)]},
        {"l": [1], "m": [("a", 1)]},
        {"l": [], "m": []},
        {"l": None, "m": None},
        None,
        None,
    ]
    rows = pa.table({"v": pa.array(values, kind)})
    assert distinct_rows(rows).num_rows == 5
    assert difference(rows, rows.slice(1)).to_pylist() == [{"v": rows["v"][0].as_py(), WEIGHT: -1}]
    assert semi_join(rows, ["v"], rows.slice(5, 1)).num_rows == 2


def test_values_are_looked_for_in_other_integers() -> None:
    rows = pa.table({"a": pa.array([1, 2, None], pa.int8())})
    values = pa.table({"a": pa.array([1, 300, None], pa.int64())})
    assert semi_join(rows, ["a"], values).column("a").to_pylist() == [1, None]
