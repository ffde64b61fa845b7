"""The embedded engine and Spark give the same for portable queries."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.property.trying import HAS_TIME
from tests.spark.portable_cases import (
    Case,
    aggregates,
    calls,
    casts,
    portable_only,
    tables,
    windows,
)
from tests.spark.portable_engines import Engines, Failed, check_same
from tests.spark.portable_queries import NOT_PORTABLE, ORDERED, PORTABLE, listed, shop
from tests.thinned import thinned

from livingdb.engines.portable.signatures import AGGREGATES, FUNCTIONS, WINDOWED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CALLS = [*calls(), *casts(), *aggregates(), *windows()]
"""Of every signature; a few with these arguments are refused."""
FORMS = list(dict.fromkeys(case.form for case in CALLS))
_TOGETHER = 120
"""So many expressions are asked for in one query."""
_EVERY = 1 if HAS_TIME else 4
"""How many cases of a form there are for one that is tried."""


@cache
def portable_forms() -> dict[str, list[Case]]:
    """The cases of every form that are not refused."""
    found: dict[str, list[Case]] = {form: [] for form in FORMS}
    for case in portable_only(CALLS):
        found[case.form].append(case)
    return found


def cases_of(form: str) -> list[Case]:
    """Those of a form that are tried."""
    return portable_forms()[form][::_EVERY]


class Answers:
    """Answers to cases; Spark is asked for many in one query."""

    def __init__(self, engines: Engines):
        self._engines = engines
        self._ours: dict[Case, tuple[pa.Table, list[int]]] = {}
        self._theirs: dict[Case, pa.Table] = {}

    def ours(self, case: Case) -> tuple[pa.Table, list[int]]:
        """The embedded engine's answer, and the rows it leaves out because it fails on them."""
        if case not in self._ours:
            try:
                self._ours[case] = self._engines.embedded(case.query), []
            except Failed:
                left_out = self._failing(case)
                if not left_out:
                    raise
                self._ours[case] = self._engines.embedded(case.query + _without(left_out)), left_out
        return self._ours[case]

    def _failing(self, case: Case) -> list[int]:
        """The rows of arguments that give null or fail, though no argument is null."""
        rows = self._engines.tables[case.table].select(["n", *case.columns])
        given = {row["n"] for row in rows.to_pylist() if None not in row.values()}
        return sorted(given & set(self._engines.null_rows(case.query)))

    def theirs(self, case: Case) -> pa.Table:
        """Spark's answer, without the rows that are left out."""
        if case not in self._theirs:
            tried = (item for form in FORMS for item in cases_of(form))
            alike = [item for item in tried if item.shared == case.shared]
            start = alike.index(case) // _TOGETHER * _TOGETHER
            self._theirs.update(self._together(alike[start : start + _TOGETHER]))
        found, left_out = self._theirs[case], self.ours(case)[1]
        if not left_out:
            return found
        return found.filter(pc.invert(pc.is_in(found.column(0), pa.array(left_out, pa.int32()))))

    def _together(self, cases: list[Case]) -> dict[Case, pa.Table]:
        columns = [f"{self._guarded(case)} AS v{at}" for at, case in enumerate(cases)]
        one = cases[0]
        text = f"SELECT {one.key}, {', '.join(columns)} FROM {one.table} {one.tail}"
        try:
            found = self._engines.spark(text)
        except Failed:
            return {case: self._alone(case) for case in cases}
        keys = found.num_columns - len(cases)
        return {
            case: pa.table([*found.columns[:keys], found[f"v{at}"]], [*"abc"[:keys], "v"])
            for at, case in enumerate(cases)
        }

    def _guarded(self, case: Case) -> str:
        left_out = ", ".join(map(str, self.ours(case)[1]))
        return f"CASE WHEN n NOT IN ({left_out}) THEN {case.text} END" if left_out else case.text

    def _alone(self, case: Case) -> pa.Table:
        try:
            return self._engines.spark(case.query + _without(self.ours(case)[1]))
        except Failed as failure:
            return pa.table({"failure": [str(failure)]})


def _without(rows: list[int]) -> str:
    return f" WHERE n NOT IN ({', '.join(map(str, rows))})" if rows else ""


@pytest.fixture(scope="module")
def engines(spark: SparkSession) -> Engines:
    both = Engines(spark)
    for name, table in tables().items():
        both.add(name, table)
    return both


@pytest.fixture(scope="module")
def answers(engines: Engines) -> Answers:
    return Answers(engines)


@pytest.mark.parametrize("form", FORMS)
def test_every_signature(answers: Answers, form: str) -> None:
    for case in cases_of(form):
        check_same(str(case), answers.ours(case)[0], answers.theirs(case), ordered=False)


def test_no_signature_is_left_out() -> None:
    tried = [case.text for form in FORMS for case in cases_of(form)]
    for line in FUNCTIONS + AGGREGATES + WINDOWED:
        form = re.escape(line.text).replace(r"\{", "{").replace(r"\}", "}")
        pattern = re.compile(re.sub(r"{\d?}", ".+", form))
        assert any(map(pattern.match, tried)), line.text


OF_ROWS = list(dict.fromkeys(case.form for case in CALLS if case.key == "n"))


@pytest.mark.parametrize("form", thinned(OF_ROWS, every=6))
def test_every_form_fails_where_spark_fails(answers: Answers, engines: Engines, form: str) -> None:
    """One value on which it fails, if there is any."""
    for case in cases_of(form):
        left_out = answers.ours(case)[1]
        if left_out:
            engines.compare(f"{case.query} WHERE n = {left_out[-1]}")
            return


@pytest.mark.slow
@pytest.mark.parametrize("form", OF_ROWS)
def test_every_failure(answers: Answers, engines: Engines, form: str) -> None:
    for case in cases_of(form):
        rows = answers.ours(case)[1]
        for row in rows[:: max(len(rows) // 3, 1)]:
            engines.compare(f"{case.query} WHERE n = {row}")


@pytest.fixture(scope="module")
def shopped(engines: Engines) -> Engines:
    for name, table in shop().items():
        engines.add(name, table)
    return engines


@pytest.mark.parametrize("query", thinned(listed(PORTABLE), every=8))
def test_queries(shopped: Engines, query: str) -> None:
    shopped.compare(query)


@pytest.mark.parametrize("query", thinned(listed(ORDERED)))
def test_ordered_queries(shopped: Engines, query: str) -> None:
    shopped.compare(query, ordered=True)


@pytest.mark.parametrize("query", listed(NOT_PORTABLE))
def test_what_is_not_portable_is_refused_with_a_reason(shopped: Engines, query: str) -> None:
    reason = shopped.portable(query)
    assert isinstance(reason, str), "it was accepted"
    assert len(reason.split()) > 3
