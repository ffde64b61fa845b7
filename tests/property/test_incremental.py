"""The law of views: what is maintained is what the query gives, after every change."""

from __future__ import annotations

import datetime
import decimal
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import tpch_queries
from tests.property.view_lab import Lab
from tests.property.view_shapes import SCHEMAS_OF_SHAPES, SHAPES
from tests.thinned import thinned

from livingdb.derivation.compiler.plan_query import Input, plan
from livingdb.sql.parse import parse_statement

FEW = settings(max_examples=max(settings.default.max_examples // 25, 2))
"""There are many shapes, and each example is several rounds of changes."""
FEWER = settings(max_examples=max(settings.default.max_examples // 25, 1))
"""Of those whose every example is a world of its own."""

SCHEMAS = {
    **SCHEMAS_OF_SHAPES,
    "b": pa.schema([("g", pa.string()), ("x", pa.int32())]),
}
KEYS: dict[str, tuple[str, ...] | None] = {"t": ("id",), "u": ("u", "v"), "s": ("k",), "b": None}

_SMALL = st.integers(0, 4)
_VALUES = {
    pa.int32(): _SMALL,
    pa.int64(): _SMALL,
    pa.string(): st.sampled_from("abc"),
    pa.float64(): st.sampled_from([0.1, 0.2, 0.3, 2.5, 1e10, -1e10]),
    pa.date32(): st.dates(datetime.date(2023, 12, 1), datetime.date(2025, 2, 1)),
}


def _value(field: pa.Field) -> st.SearchStrategy:
    kind = field.type
    if pa.types.is_decimal(kind):
        made = st.integers(-300, 300).map(lambda value: decimal.Decimal(value) / 100)
    else:
        made = _VALUES[kind]
    return made if not field.nullable else st.one_of(st.none(), made, made, made)


def _rows(name: str) -> st.SearchStrategy:
    """Rows of a table: by key, or numbered for a bag."""
    schema, key = SCHEMAS[name], KEYS[name]
    row = st.fixed_dictionaries({field.name: _value(field) for field in schema})
    if key is None:
        return st.dictionaries(st.integers(0, 9), row, max_size=6)
    return st.lists(row, max_size=8).map(
        lambda rows: {tuple(row[column] for column in key): row for row in rows}
    )


def _change(name: str) -> st.SearchStrategy:
    """Rows that come or change, and the places of rows that go."""
    gone = st.lists(st.integers(0, 9), max_size=3)
    return st.one_of(st.none(), st.tuples(_rows(name), gone), st.just(({}, range(20))))


_STATE = st.fixed_dictionaries({name: _rows(name) for name in SCHEMAS})
_ROUNDS = st.lists(
    st.fixed_dictionaries({name: _change(name) for name in SCHEMAS}), min_size=1, max_size=3
)


def _table(name: str, rows: dict) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), schema=SCHEMAS[name])


def test_there_are_enough_shapes() -> None:
    assert len(SHAPES) >= 80


@pytest.mark.parametrize("shape", thinned(SHAPES, every=8), ids=lambda shape: shape[0])
def test_a_view_is_what_its_query_gives(shape: tuple[str, str]) -> None:
    text, strategy = shape

    @FEW
    @given(state=_STATE, rounds=_ROUNDS)
    def law(state: dict, rounds: list) -> None:
        state = {name: dict(rows) for name, rows in state.items()}
        lab = Lab(text, {name: _table(name, rows) for name, rows in state.items()}, KEYS)
        assert lab.plan.stages[-1].strategy == strategy
        assert lab.plan.is_incremental == (strategy != "full")
        assert (lab.plan.reason is None) == lab.plan.is_incremental
        for changes in rounds:
            changed = {}
            for name, change in changes.items():
                if change is None:
                    continue
                rows, gone = change
                kept = list(state[name].items())
                kept = [item for at, item in enumerate(kept) if at not in gone]
                state[name] = {**dict(kept), **rows}
                changed[name] = _table(name, state[name])
            lab.change(changed)

    law()


# --- TPC-H ---------------------------------------------------------------------------------------

_POOLS: dict[str, list[object]] = {
    "r_name": ["EUROPE", "ASIA", "AMERICA"],
    "n_name": ["FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA"],
    "p_type": ["LARGE BRASS", "ECONOMY ANODIZED STEEL", "PROMO TIN", "MEDIUM POLISHED TIN"],
    "p_brand": ["Brand#45", "Brand#23", "Brand#12"],
    "p_container": ["MED BOX", "SM CASE"],
    "p_name": ["forest green", "green", "red"],
    "p_size": [15, 3, 14],
    "c_mktsegment": ["BUILDING", "MACHINERY"],
    "c_phone": ["13-1", "31-2", "99-3"],
    "o_orderpriority": ["1-URGENT", "2-HIGH", "5-LOW"],
    "o_orderstatus": ["F", "O"],
    "o_comment": ["special requests", "none"],
    "s_comment": ["Customer Complaints", "none"],
    "l_returnflag": ["R", "N"],
    "l_linestatus": ["O", "F"],
    "l_shipmode": ["MAIL", "SHIP", "AIR"],
    "l_shipinstruct": ["DELIVER IN PERSON", "NONE"],
    "l_discount": [decimal.Decimal("0.05"), decimal.Decimal("0.06"), decimal.Decimal("0.10")],
    "l_tax": [decimal.Decimal("0.02"), decimal.Decimal("0.08")],
    "l_quantity": [decimal.Decimal(value) for value in (1, 5, 15, 22, 200)],
    "o_orderdate": [
        datetime.date(y, m, 20) for y, m in ((1993, 7), (1993, 11), (1994, 5), (1995, 3), (1996, 1))
    ],
    "l_shipdate": [
        datetime.date(y, m, 20) for y, m in ((1994, 2), (1995, 3), (1995, 9), (1996, 1), (1996, 3))
    ],
    "l_commitdate": [
        datetime.date(1994, 1, 10),
        datetime.date(1994, 6, 1),
        datetime.date(1996, 1, 1),
    ],
    "l_receiptdate": [
        datetime.date(1994, 3, 1),
        datetime.date(1994, 9, 1),
        datetime.date(1996, 1, 2),
    ],
}
_COUNTS = {"region": 3, "nation": 5, "supplier": 4, "customer": 5, "part": 5, "partsupp": 8}
_COUNTS |= {"orders": 8, "lineitem": 14}


def _tpch_value(field: pa.Field, rng: random.Random) -> object:
    if field.name in _POOLS:
        return rng.choice(_POOLS[field.name])
    if field.name.endswith("key") or field.name == "l_linenumber":
        return rng.randrange(6)
    if pa.types.is_integer(field.type):
        return rng.randrange(4)
    if pa.types.is_decimal(field.type):
        return decimal.Decimal(rng.randrange(-500, 50000)) / 100
    return rng.choice(["one", "two"])


def _tpch_rows(name: str, count: int, rng: random.Random) -> dict:
    schema, key = tpch_queries.TABLES[name], tpch_queries.KEYS[name]
    rows = ({f.name: _tpch_value(f, rng) for f in schema} for _ in range(count))
    return {tuple(row[column] for column in key): row for row in rows}


def _tpch_table(name: str, rows: dict) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), schema=tpch_queries.TABLES[name])


@pytest.mark.parametrize("number", thinned(tpch_queries.QUERIES))
def test_tpch_is_what_its_queries_give(number: int) -> None:
    @FEWER
    @given(seed=st.integers(0, 10**6))
    def law(seed: int) -> None:
        rng = random.Random(seed)
        state = {name: _tpch_rows(name, count, rng) for name, count in _COUNTS.items()}
        tables = {name: _tpch_table(name, rows) for name, rows in state.items()}
        lab = Lab(tpch_queries.QUERIES[number], tables, tpch_queries.KEYS)
        for _ in range(2):
            changed = {}
            for name in rng.sample(list(_COUNTS), rng.randint(1, 3)):
                kept = {key: row for key, row in state[name].items() if rng.random() < 0.8}
                state[name] = {**kept, **_tpch_rows(name, 3, rng)}
                changed[name] = _tpch_table(name, state[name])
            lab.change(changed)

    law()


def test_most_of_tpch_is_incremental(record_property: pytest.FixtureRequest) -> None:
    inputs = {
        name: Input(schema, tpch_queries.KEYS[name]) for name, schema in tpch_queries.TABLES.items()
    }
    plans = {n: plan(parse_statement(q), inputs) for n, q in tpch_queries.QUERIES.items()}
    whole = {number for number, made in plans.items() if not made.is_incremental}
    record_property("incremental", len(plans) - len(whole))
    print(f"{len(plans) - len(whole)} of {len(plans)} queries of TPC-H are incremental")
    assert whole == set()
    for made in plans.values():
        assert all(stage.strategy != "full" for stage in made.stages)
