"""Counters: every number once, whoever asks, and blocks that a process keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from livingdb.catalog.catalog import Catalog
from livingdb.graph.generated_values import GeneratedValues
from livingdb.tables.identity_column import NumberRule


def test_numbers_are_taken_in_a_row(catalog: Catalog) -> None:
    counters = catalog.counters
    assert counters.next("a") is None
    assert [counters.take("a", 3), counters.take("a", 2), counters.take("b", 1, 10)] == [1, 4, 10]
    assert (counters.next("a"), counters.next("b")) == (6, 11)


def test_it_moves_on_and_never_back(catalog: Catalog) -> None:
    counters = catalog.counters
    counters.move_to("a", 6)
    counters.move_to("a", 4)
    assert counters.take("a", 1) == 6
    counters.move_to("a", 10)
    assert counters.take("a", 1) == 10
    assert [counters.take("b", 2, -1, -3), counters.take("b", 1, -1, -3)] == [-1, -7]
    counters.move_to("b", -20, -3)
    counters.move_to("b", -11, -3)
    assert counters.take("b", 1, -1, -3) == -20


def test_threads_never_take_the_same(catalog: Catalog) -> None:
    with ThreadPoolExecutor(4) as pool:
        firsts = list(pool.map(lambda _: catalog.counters.take("a", 3), range(40)))
    assert sorted(firsts) == list(range(1, 121, 3))


def test_processes_have_blocks_of_their_own(catalog: Catalog) -> None:
    one, other = GeneratedValues(catalog.counters), GeneratedValues(catalog.counters)

    def drawn(values: GeneratedValues, count: int) -> list[int]:
        found: list[int] = np.asarray(values.draw("a", count, NumberRule(), lambda: None)).tolist()
        return found

    assert (drawn(one, 2), drawn(other, 2), drawn(one, 2)) == ([1, 2], [33, 34], [3, 4])
    assert drawn(one, 40) == [*range(5, 33), *range(65, 77)]
    one.move_past("a", 80, NumberRule())
    assert drawn(one, 1) == [81]
    one.move_past("a", 500, NumberRule())
    assert drawn(one, 1) == [501]
    assert drawn(other, 1) == [35]


def test_a_counter_begins_after_what_is_there(catalog: Catalog) -> None:
    values = GeneratedValues(catalog.counters)
    rule = NumberRule(start=2, increment=3)
    assert values.draw("a", 1, NumberRule(), lambda: 7).tolist() == [8]
    assert values.draw("a", 1, NumberRule(), lambda: None).tolist() == [9]
    assert values.draw("b", 2, rule, lambda: 9).tolist() == [11, 14]
    values.move_past("b", 15, rule)
    assert values.draw("b", 2, rule, lambda: None).tolist() == [17, 20]
