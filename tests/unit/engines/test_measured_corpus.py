"""Whatever a portable query asks for, it is answered the same where its values are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from tests.spark.portable_cases import (
    aggregates,
    calls,
    casts,
    portable_only,
    windows,
)
from tests.spark.portable_cases import tables as tables_of_cases
from tests.spark.portable_engines import EmbeddedTables, Failed, check_same
from tests.spark.portable_queries import ORDERED, PORTABLE, listed, shop

from livingdb.engines.embedded import duckdb_dialect, session, value_sizes

pytestmark = pytest.mark.slow


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let every value that may grow be measured from now on, and none be too large."""

    def begin() -> None:
        monkeypatch.setattr(session, "_memory_limit", "512 MB")
        monkeypatch.setattr(session, "_instances", {})
        monkeypatch.setattr(value_sizes, "_FEW_BYTES", -1)
        monkeypatch.setattr(session, "are_too_large", _none_are)

        def looked_at(query: object, most_bytes: int, **given: bool) -> None:
            value_sizes.limit_value_sizes(query, value_sizes.VECTOR_ROWS, **given)  # type: ignore[arg-type]

        monkeypatch.setattr(duckdb_dialect, "limit_value_sizes", looked_at)

    return begin


def _none_are(sizes: pa.ChunkedArray, most: pa.ChunkedArray) -> pa.Array:
    return pa.repeat(pa.scalar(False), len(sizes))


def _answer(tables: EmbeddedTables, text: str) -> pa.Table | str:
    try:
        return tables.embedded(text)
    except Failed:
        return "refused"


def _check(tables: Mapping[str, pa.Table], texts: list[str], measure: Callable[[], None]) -> None:
    over = EmbeddedTables()
    for name, table in tables.items():
        over.add(name, table)
    plain = [_answer(over, text) for text in texts]
    measure()
    for text, wanted in zip(texts, plain, strict=True):
        found = _answer(over, text)
        if isinstance(found, str) or isinstance(wanted, str):
            assert found == wanted, text
        else:
            check_same(text, found, wanted, ordered=False)


def test_whole_queries(measure: Callable[[], None]) -> None:
    _check(shop(), [*listed(PORTABLE), *listed(ORDERED)], measure)


def test_a_case_of_every_form(measure: Callable[[], None]) -> None:
    seen: Counter[str] = Counter()
    texts = []
    for case in portable_only([*calls(), *casts(), *aggregates(), *windows()]):
        seen[case.form] += 1
        if seen[case.form] == 1:
            texts.append(case.query)
    _check(tables_of_cases(), texts, measure)
