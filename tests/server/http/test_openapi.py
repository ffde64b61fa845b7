"""The OpenAPI document says what there is, and nothing that it allows makes the server fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from tests.property.trying import tries
from tests.server.http.conftest import Served, make_shop, serve

from livingdb.server.http.door import EVENTS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "http.md"
SEED = 7
KNOWN = {
    "table": ["orders"],
    "ref": ["main", "dev/one", "main~1"],
    "branch": ["main", "dev/one"],
    "name": ["dev/one", "totals", "ann", "new"],
    "from": ["main"],
    "source": ["dev/one"],
    "into": ["main"],
    "view": ["totals"],
    "before": ["main~1"],
    "after": ["main"],
    "key": [["1"], ["x"]],
    "sql": ["SELECT * FROM orders", "DELETE FROM orders WHERE id = 2", "SHOW TABLES"],
    "where": ["id < 5", "city = 'Oslo'"],
    "columns": [["id"]],
    "changes": [["ALTER TABLE orders ADD COLUMN extra INT"], [{"change": "DropColumn"}]],
    "rows": [[{"id": 1, "city": "Rome"}], [{"id": "2"}]],
    "keys": [[[1]]],
    "number": ["1"],
    "policy": ["reject"],
    "when": ["immediate", "deferred", "sometimes"],
    "object": ["totals"],
}
"""What exists, put in the place of what was drawn, so that more than names is tried."""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with make_shop(tmp_path_factory.mktemp("tried")) as db:
        db.branch("main").derive(
            "totals", "SELECT city, count(*) AS n FROM orders GROUP BY city", when="immediate"
        )
        db.request_merge("dev/one", "main")
        made = serve(db, limits={"seconds": 5, "jobs": 100, "sessions": 100})
        yield made
        made.close()


def with_known(draw: Any, given: Any) -> Any:
    """What was drawn, with names that exist in some places."""
    if isinstance(given, dict):
        return {
            name: draw(st.sampled_from([with_known(draw, value), *KNOWN.get(name, ())]))
            for name, value in given.items()
        }
    return given


def try_operations(tried: Served, examples: int) -> set[str]:
    """Ask everything that can be asked, so often each; what was asked."""
    document = tried.server.app.openapi()
    token = {"Authorization": f"Bearer {tried.tokens['olga']}"}
    asked: set[str] = set()
    for found in schemathesis.openapi.from_dict(
        json.loads(json.dumps(document))
    ).get_all_operations():
        operation = found.ok()
        if operation.path == EVENTS:
            continue
        cases = st.one_of(
            operation.as_strategy(GenerationMode.POSITIVE),
            operation.as_strategy(GenerationMode.NEGATIVE),
        )

        @settings(
            max_examples=examples,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(cases, st.data())
        def answers(case: Any, data: Any) -> None:
            if data.draw(st.integers(0, 9)):  # what a job answers is not seen here
                case.headers.pop("Prefer", None)
            case.query = with_known(data.draw, case.query)
            case.body = with_known(data.draw, case.body)
            if "number" in (case.path_parameters or {}):
                case.path_parameters = with_known(data.draw, case.path_parameters)
            answer = case.call(base_url=tried.server.address, headers=token, timeout=60)
            label = f"{case.method} {case.operation.path} {case.query} {case.body!r:.500}"
            assert answer.status_code < 500, f"{label}: {answer.content!r:.500}"
            if answer.status_code >= 400:
                assert {"code", "message", "details"} == set(json.loads(answer.content)), label
            asked.add(f"{case.method} {case.operation.path}")

        answers()
    return asked


def test_nothing_that_can_be_asked_makes_it_fail(tried: Served) -> None:
    assert len(try_operations(tried, 1)) > 80


@pytest.mark.slow
def test_nothing_at_all_makes_it_fail(tried: Served) -> None:
    assert len(try_operations(tried, tries(100))) > 80


def test_every_operation_is_described(tried: Served) -> None:
    document = tried.server.app.openapi()
    names = []
    for path, operations in document["paths"].items():
        for method, told in operations.items():
            names.append(told["operationId"])
            assert told["summary"], (method, path)
            assert told["description"], (method, path)
            assert re.fullmatch(r"[a-z_]+", told["operationId"])
            assert "422" in told["responses"]
    assert len(names) == len(set(names))


def test_every_path_is_on_the_page(tried: Served) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for path in tried.server.app.openapi()["paths"]:
        last = re.sub(r"\{.*\}", "", path.removeprefix("/v1/")).rstrip("/").rpartition("/")[2]
        assert last in text, path
