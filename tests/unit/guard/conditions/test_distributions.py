"""How values are distributed, held against plain computations."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.unit.guard.conditions.conftest import order
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c
from livingdb.condition import Condition
from livingdb.errors import InvalidData
from livingdb.guard.conditions.kinds.distances import (
    distinct_count,
    kolmogorov_smirnov,
    population_stability,
    quantile_of,
)
from livingdb.guard.conditions.statistics import ColumnStatistics

numbers = st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=40)


def plain_ks(one: list[int], other: list[int]) -> float:
    one, other = sorted(one), sorted(other)
    return max(
        abs(bisect_right(one, x) / len(one) - bisect_right(other, x) / len(other))
        for x in one + other
    )


def plain_psi(old: list[Any], new: list[Any], bins: int, by_value: bool) -> float:
    def place(value: Any) -> Any:
        if value is None or by_value:
            return value
        return sum(value >= edge for edge in edges)

    known = [value for value in old if value is not None]
    edges: list[float] = []
    if known and not by_value:
        edges = sorted({float(np.quantile(known, i / bins)) for i in range(1, bins)})
    total = 0.0
    for cell in {place(v) for v in [*old, *new]}:
        was = max(sum(place(v) == cell for v in old) / len(old), 1e-4)
        now = max(sum(place(v) == cell for v in new) / len(new), 1e-4)
        total += (now - was) * math.log(now / was)
    return total


@given(numbers, numbers)
def test_kolmogorov_and_smirnov(old: list[int | None], new: list[int | None]) -> None:
    found = kolmogorov_smirnov(pa.array(old, pa.int64()), pa.array(new, pa.int64()))
    one, other = ([v for v in side if v is not None] for side in (old, new))
    if not one or not other:
        assert found is None
    else:
        assert found == pytest.approx(plain_ks(one, other))


@given(numbers, numbers, st.integers(2, 12), st.booleans())
def test_population_stability(
    old: list[int | None], new: list[int | None], bins: int, by_value: bool
) -> None:
    as_text = [[v if v is None else str(v) for v in side] for side in (old, new)]
    one, other = as_text if by_value else (old, new)
    kind = pa.string() if by_value else pa.int64()
    found = population_stability(pa.array(one, kind), pa.array(other, kind), bins)
    if not old or not new:
        assert found is None
    else:
        assert found == pytest.approx(plain_psi(one, other, bins, by_value), abs=1e-12)
        assert found >= 0


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20))
def test_the_deviation_of_integers_is_exact(values: list[int]) -> None:
    found = ColumnStatistics.of(pa.array(values, pa.int64()))
    assert found.deviation == pytest.approx(statistics.pstdev(values), rel=1e-12)


def test_small_deviations_of_large_floats(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    rows = [{"id": i, "weight": 1e9 + i % 2} for i in range(10)]
    main.update("orders", rows)
    assert c.stddev("weight").measure(crossing(db, start, "main")) == pytest.approx(0.5)
    start = main.head
    main.update("orders", [{"id": 0, "weight": 1e300}])
    assert c.mean("weight").measure(crossing(db, start, "main")) == pytest.approx(1e299)
    main.update("orders", [{"id": 0, "weight": math.inf}])
    assert c.mean("weight").measure(crossing(db, start, "main")) == math.inf
    main.update("orders", [{"id": 0, "weight": 1e9}])
    assert c.mean("weight").measure(crossing(db, start, "main")) == pytest.approx(1e9 + 0.5)


def test_the_same_is_no_distance() -> None:
    values = pa.array([1.5, None, float("nan"), -3.0])
    assert population_stability(values, values, 10) == 0
    assert kolmogorov_smirnov(values, values) == 0
    apart = kolmogorov_smirnov(pa.array([1, 2]), pa.array([3, 4]))
    assert apart == 1


@given(numbers, st.floats(0, 1))
def test_quantiles(values: list[int | None], share: float) -> None:
    known = sorted(v for v in values if v is not None)
    found = quantile_of(pa.array(values, pa.int64()), share)
    if not known:
        assert found is None
        return
    place = share * (len(known) - 1)
    low = known[math.floor(place)]
    high = known[math.ceil(place)]
    assert found == pytest.approx(low + (high - low) * (place - math.floor(place)))


@given(numbers)
def test_distinct_counts(values: list[int | None]) -> None:
    wanted = len({v for v in values if v is not None})
    assert distinct_count(pa.array(values, pa.int64())) == wanted
    lists = pa.array([None if v is None else [v] for v in values], pa.list_(pa.int64()))
    assert distinct_count(lists) == wanted


def test_times_and_decimals_are_numbers_and_texts_are_not() -> None:
    days = pa.array([0, 10], pa.date32())
    assert quantile_of(days, 0.5) == 5
    assert quantile_of(pa.array([Decimal("1.5"), Decimal("2.5")]), 0.5) == 2
    with pytest.raises(InvalidData, match="no order of numbers"):
        quantile_of(pa.array(["a"]), 0.5)


# --- statistics kept from change to change ---------------------------------------------------

VALUES = {
    "bigint": st.integers(-(2**62), 2**62),
    "decimal(20,4)": st.decimals(-(10**14), 10**14, places=4, allow_nan=False),
    "double": st.one_of(st.sampled_from([1e300, math.inf, math.nan]), st.floats(-1e6, 1e6)),
    "string": st.text(max_size=3),
}
edits = st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.booleans()), min_size=1, max_size=5)


@settings(max_examples=6, phases=[Phase.explicit, Phase.generate], deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("is_bag", [False, True])
def test_incremental_is_from_scratch(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, kind: str, is_bag: bool
) -> None:
    value = st.one_of(st.none(), VALUES[kind])
    path = tmp_path_factory.mktemp("s") / "s.ldb"
    with livingdb.create(path, engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"k": "bigint", "v": kind}, key="k")
        main.insert("t", [{"k": k, "v": data.draw(value)} for k in range(3)])
        query = "SELECT v FROM t" if is_bag else "SELECT k, v FROM t"
        watched = [c.max_null_rate("v", 1.0)]
        main.derive("view", query, when="immediate", conditions=watched)
        for key, goes, twice in data.draw(edits):
            is_there = main.table("t").get(key) is not None
            if goes and is_there:
                main.delete("t", [key])
            else:
                _put(main, key, data.draw(value))
            if twice:
                _put(main, 7, data.draw(value))
        details = db.at("view").edge.details
        values = main.table("t").to_arrow().column("v")
        whole = ColumnStatistics.of(values)
        kept = list(details.get("statistics", {}).values())
        if not kept:
            assert db.at("view").edge.kind == "derive" or not whole.is_finite
            return
        found = ColumnStatistics.from_json(kept[0][1:])
        assert (found.count, found.nulls) == (whole.count, whole.nulls)
        if kind == "double":
            assert found.total == pytest.approx(whole.total, abs=1e-6)
            assert found.squares == pytest.approx(whole.squares, rel=1e-6, abs=1e-3)
        else:
            assert (found.total, found.squares) == (whole.total, whole.squares)


def _put(branch: livingdb.Branch, key: int, value: object) -> None:
    if branch.table("t").get(key) is None:
        branch.insert("t", [{"k": key, "v": value}])
    else:
        branch.update("t", [{"k": key, "v": value}])


# --- both sides of each threshold ------------------------------------------------------------


def _put_amounts(branch: livingdb.Branch, *amounts: object) -> None:
    branch.update("orders", [{"id": i, "amount": a} for i, a in enumerate(amounts)])


CASES: list[tuple[Condition, list[object], list[object]]] = [
    (c.max_null_rate("amount", 0.2), [None, None], [None, None, None]),
    (c.null_rate("note") >= 1, [], []),
    (c.mean_between("amount", 44, 46), [5], [100]),
    (c.mean("amount") < 46, [9], [10]),
    (c.max_mean_shift("amount", 0.1), [45], [46]),
    (c.stddev_between("amount", at_most=29), [0], [200]),
    (c.max_stddev_shift("amount", 0.1), [10], [500]),
    (c.distinct_count("amount", 9, 10), [10], [10, 10, 10]),
    (c.distinct_count("orders.id", 10, 10), [], []),
    (c.max_distinct_shift("amount", 0.1), [10], [20, 20]),
    (c.quantile_between("amount", 0.5, 44, 46), [1], [100]),
    (c.max_quantile_shift("amount", 1.0, 0.1), [99], [100]),
    (c.max_psi("amount", 0.9, bins=2), [0, 10], [90] * 5),
    (c.psi("city", bins=2) <= 0, [10], []),
    (c.max_ks("amount", 0.2), [10, 20], [90, 90, 90]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].text)
def test_both_sides(
    db: livingdb.Database,
    main: livingdb.Branch,
    case: tuple[Condition, list[object], list[object]],
) -> None:
    one, good, bad = case
    start = main.head
    for of in ("target", "source"):
        text = one.text.replace("')", f"', of => '{of}')").replace(
            ", 0.5)", f", 0.5, of => '{of}')"
        )
        (same,) = c.parse(text)
        if good:
            _put_amounts(main, *good)
            found = same.judge(crossing(db, start, "main"))
            assert found.holds, found.problem
        main.reset(start)
        if bad:
            _put_amounts(main, *bad)
            assert not same.judge(crossing(db, start, "main")).holds
        main.reset(start)


def test_nothing_to_compare_with(db: livingdb.Database, main: livingdb.Branch) -> None:
    first = crossing(db, None, "main")
    for metric in (
        c.mean_shift("amount"),
        c.stddev_shift("amount"),
        c.distinct_shift("amount"),
        c.quantile_shift("amount"),
        c.psi("amount"),
        c.ks("amount"),
    ):
        assert metric.measure(first) is None
        assert (metric <= 0).judge(first).holds
    main.create_table("empty", {"k": "bigint", "v": "bigint"}, key="k")
    nothing = crossing(db, None, "main")
    for metric in (c.mean("v"), c.stddev("v"), c.null_rate("v"), c.quantile("v")):
        assert metric.measure(nothing) is None
    assert c.distinct("v").measure(nothing) == 0
    same = crossing(db, "main", "main")
    assert c.psi("amount").measure(same) == 0
    assert c.mean_shift("amount").measure(same) == 0


def test_a_column_that_came(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.sql("ALTER TABLE orders ADD COLUMN extra bigint")
    given = crossing(db, start, "main")
    assert c.mean("extra").measure(given) is None
    assert c.null_rate("extra").measure(given) == 1
    assert c.psi("extra").measure(given) is None


def test_zscore_against_history(db: livingdb.Database, main: livingdb.Branch) -> None:
    one = c.max_zscore(c.inserted("v"), 3)
    main.derive("v", "SELECT id, amount FROM orders", when="immediate", conditions=[one])
    number = 100
    for count in (1, 2, 3, 2, 1, 2, 3):
        main.insert("orders", [order(number + i) for i in range(count)])
        number += count
        assert db.sync("v").state == "active"
        assert db.at("v").edge.details["conditions"][one.text] == count
    main.insert("orders", [order(number + i) for i in range(4)])
    assert db.sync("v").state == "active"
    number += 4
    main.insert("orders", [order(number + i) for i in range(20)])
    assert db.sync("v").state == "detached"
    assert "zscore" in db.sync("v").reason


def test_zscore_within_others(db: livingdb.Database, main: livingdb.Branch) -> None:
    one = c.max_zscore(c.inserted("v"), 3)
    both = c.authors("ann") & one
    main.derive("v", "SELECT id, amount FROM orders", when="immediate", conditions=[both])
    for number in range(6):
        main.insert("orders", [order(100 + number)])
        assert db.at("v").edge.details["conditions"][one.text] == 1
    main.insert("orders", [order(200 + i) for i in range(2)])
    assert db.sync("v").state == "detached"


def test_zscore_of_what_never_changed(db: livingdb.Database, main: livingdb.Branch) -> None:
    given = crossing(db, None, "main")
    for past, z in (([10.0] * 4, None), ([10.0] * 5, 0.0), ([9.0] * 5, math.inf)):
        given.past_measurements = lambda key, text, last, past=past: past  # type: ignore[method-assign]
        assert c.zscore(c.rows("orders")).measure(given) == z
        assert (c.zscore(c.rows("orders")) <= 3).judge(given).measured == 10
    past = [8.0, 9.0, 10.0, 11.0, 12.0]
    given.past_measurements = lambda key, text, last: past  # type: ignore[method-assign]
    wanted = abs(10 - 10) / statistics.pstdev(past)
    assert c.zscore("rows").measure(given) is not None
    assert c.zscore(c.rows("orders")).measure(given) == wanted
    for wrong in ("nothing", 3, c.zscore(c.rows())):
        with pytest.raises(InvalidData, match="nothing that can be measured"):
            c.zscore(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidData, match="last"):
        c.zscore(c.rows(), last=2)
