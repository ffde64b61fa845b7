"""Routes of a join: every source is reached once, by the columns that are easiest to read by."""

from __future__ import annotations

from itertools import permutations

import pyarrow as pa
import pytest

from livingdb.derivation.operators.join_routes import Link, RouteHop, routes
from livingdb.derivation.operators.node import Leaf


def leaf(name: str, columns: str, key: str | None = None) -> Leaf:
    types = dict.fromkeys(columns.split(), pa.int64())
    return Leaf(name, types, None if key is None else tuple(key.split()))


def link(one: str, other: str, nulls: bool = False) -> Link:
    left, right = one.split("."), other.split(".")
    return Link((left[0], left[1]), (right[0], right[1]), nulls)


ORDERS = leaf("orders", "id customer product", "id")
CUSTOMERS = leaf("customers", "id city", "id")
LINES = leaf("lines", "orders number product", "orders number")
CITIES = leaf("cities", "name mayor")


def test_one_source_leads_nowhere() -> None:
    assert routes({"o": ORDERS}, []) == {"o": ()}


def test_two_sources_lead_to_each_other() -> None:
    found = routes({"o": ORDERS, "c": CUSTOMERS}, [link("o.customer", "c.id", nulls=True)])
    assert found == {
        "o": (RouteHop("c", "o", (("customer", "id", True),)),),
        "c": (RouteHop("o", "c", (("id", "customer", True),)),),
    }


def test_a_source_that_nothing_leads_to_is_read_as_a_whole() -> None:
    found = routes({"o": ORDERS, "c": CUSTOMERS}, [])
    assert found == {"o": (RouteHop("c", None),), "c": (RouteHop("o", None),)}


def test_a_whole_key_comes_before_the_beginning_of_one_and_that_before_none() -> None:
    sources = {"x": leaf("x", "a b c"), "none": CITIES, "part": LINES, "whole": CUSTOMERS}
    links = [link("x.a", "none.name"), link("x.b", "part.orders"), link("x.c", "whole.id")]
    assert [hop.source for hop in routes(sources, links)["x"]] == ["whole", "part", "none"]


def test_a_column_inside_of_a_key_is_no_beginning() -> None:
    sources = {"x": leaf("x", "a b"), "inside": LINES, "begin": leaf("begin", "k l", "k l")}
    links = [link("x.a", "inside.number"), link("x.b", "begin.k")]
    assert [hop.source for hop in routes(sources, links)["x"]] == ["begin", "inside"]


def test_many_columns_are_better_than_few() -> None:
    sources = {"x": leaf("x", "a b"), "few": leaf("few", "p q"), "many": leaf("many", "p q")}
    links = [link("x.a", "few.p"), link("x.a", "many.p"), link("many.q", "x.b")]
    first, second = routes(sources, links)["x"]
    assert first == RouteHop("many", "x", (("a", "p", False), ("b", "q", False)))
    assert second.source == "few"


def test_a_column_is_asked_for_once() -> None:
    sources = {"x": leaf("x", "a b"), "y": leaf("y", "k", "k")}
    links = [link("x.a", "y.k"), link("x.b", "y.k")]
    assert routes(sources, links)["x"] == (RouteHop("y", "x", (("a", "k", False),)),)


@pytest.mark.parametrize("order", list(permutations(["o", "c", "l", "town"])))
def test_every_source_is_reached_once_by_one_that_was_read(order: tuple[str, ...]) -> None:
    every = {"o": ORDERS, "c": CUSTOMERS, "l": LINES, "town": CITIES}
    links = [
        link("o.customer", "c.id"),
        link("l.orders", "o.id"),
        link("town.name", "c.city"),
        link("l.product", "o.product"),
    ]
    found = routes({name: every[name] for name in order}, links)
    assert set(found) == set(order)
    for start, hops in found.items():
        reached = {start}
        for hop in hops:
            assert hop.by in reached, "there is a way to each of them"
            assert hop.pairs
            reached.add(hop.source)
        assert reached == set(order)
        assert len(hops) == len(order) - 1
