"""SQL over HTTP: statements with parameters, sessions with transactions, and their limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pyarrow as pa
import pytest
from tests.server.http.conftest import ARROW, Served

from livingdb.engines.embedded import session
from livingdb.errors import NotFound
from livingdb.server.http import sql_sessions
from livingdb.server.http.sql_sessions import SqlSessions
from livingdb.server.settings import Limits


def test_a_query_and_a_change(olga: httpx.Client) -> None:
    query = {
        "sql": "SELECT id, city FROM orders WHERE id < :n AND amount IS NULL ORDER BY id",
        "parameters": {"n": {"type": "bigint", "value": "3"}},
        "limit": 2,
    }
    told = olga.post("/v1/sql", json=query).json()
    assert told["rows"] == [{"id": 0, "city": "Oslo"}, {"id": 1, "city": "Rome"}]
    assert (told["more"], told["snapshot"], told["engine"]) == (True, None, "embedded")
    change = {"sql": "UPDATE orders SET amount = ? WHERE id = 7", "branch": "dev/one"}
    value = {"type": "decimal(10,2)", "value": "7.25"}
    told = olga.post("/v1/sql", json={**change, "parameters": [value], "message": "seven"}).json()
    assert told["changed"] == 1
    seen = olga.get("/v1/snapshot", params={"ref": "dev/one"}).json()
    assert (seen["id"], seen["message"], seen["author"]) == (told["snapshot"], "seven", "olga")
    past = {"sql": "SELECT amount FROM orders WHERE id = 7", "ref": "dev/one~1"}
    assert olga.post("/v1/sql", json=past).json()["rows"] == [{"amount": None}]
    answer = olga.post("/v1/sql", json={**past, "ref": "dev/one"}, headers={"Accept": ARROW})
    assert str(pa.ipc.open_stream(answer.content).read_all()["amount"][0]) == "7.25"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"sql": "SELECT 1 AS a, 2 AS a"}, "invalid_data"),
        ({"sql": "SELEC"}, None),
        ({"sql": "SELECT * FROM nothing"}, "not_found"),
        ({"sql": "SELECT :n"}, "invalid_data"),
        ({"sql": "SELECT 1", "ref": "main", "branch": "main"}, "invalid_data"),
        ({"sql": "SELECT 1", "colour": "red"}, "invalid_request"),
        ({"sql": 1}, "invalid_request"),
    ],
)
def test_statements_that_are_not_understood(
    olga: httpx.Client, body: dict[str, object], code: str | None
) -> None:
    answer = olga.post("/v1/sql", json=body)
    assert answer.status_code in (404, 422), answer.text
    assert code is None or answer.json()["code"] == code


def test_a_body_that_is_no_json_or_not_said_to_be(olga: httpx.Client) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = olga.post("/v1/sql", content=b'{"sql": "SELECT 1"}', headers=form)
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")
    assert "Content-Type: application/json, not application/x-www" in answer.json()["message"]
    broken = {"Content-Type": "application/json"}
    answer = olga.post("/v1/sql", content=b'{"sql":', headers=broken)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert answer.json()["message"] == "the body is no JSON"


def test_a_session_has_a_transaction(olga: httpx.Client, served: Served) -> None:
    dev = served.db.branch("main").clone("dev/session")
    opened = olga.post("/v1/sql/sessions", json={"branch": "dev/session"}).json()
    place = f"/v1/sql/sessions/{opened['id']}"

    def run(sql: str) -> dict[str, object]:
        answer = olga.post(f"{place}/statements", json={"sql": sql})
        assert answer.status_code == 200, answer.text
        told: dict[str, object] = answer.json()
        return told

    run("BEGIN")
    assert run("DELETE FROM orders WHERE id < 10")["changed"] == 10
    assert run("SELECT count(*) AS n FROM orders")["rows"] == [{"n": len(dev.table("orders")) - 10}]
    (listed,) = olga.get("/v1/sql/sessions").json()["sessions"]
    assert listed["in_transaction"]
    assert dev.table("orders").get(3) is not None
    run("ROLLBACK")
    run("BEGIN")
    run("DELETE FROM orders WHERE id = 3")
    assert run("COMMIT")["snapshot"] == dev.head.id
    assert dev.table("orders").get(3) is None
    will = served.client("will")
    for asked in (will.delete(place), will.post(f"{place}/statements", json={"sql": "SELECT 1"})):
        assert asked.status_code == 404
    assert olga.delete(place).status_code == 200
    assert olga.delete(place).status_code == 404


def test_a_session_takes_rows_and_tells_its_tables(olga: httpx.Client, served: Served) -> None:
    dev = served.db.branch("main").clone("dev/rows")
    opened = olga.post("/v1/sql/sessions", json={"branch": "dev/rows"}).json()
    place = f"/v1/sql/sessions/{opened['id']}"
    olga.post(f"{place}/statements", json={"sql": "BEGIN"})
    rows = {"rows": [{"id": 1000, "amount": "1.50"}, {"id": "1001"}]}
    answer = olga.post(f"{place}/rows", params={"table": "orders"}, json=rows)
    assert (answer.status_code, answer.json()) == (200, {"changed": 2}), answer.text
    assert answer.headers["LivingDB-Transaction"] == "changed"
    assert answer.headers["LivingDB-Branch"] == "dev/rows"
    assert dev.table("orders").get(1000) is None
    told = olga.get(f"{place}/tables", params={"table": "orders"}).json()["tables"]
    assert told["orders"]["key"] == ["id"]
    assert olga.get(f"{place}/tables", params={"table": "none"}).json() == {"tables": {}}
    for table, kind, status in (("none", "application/json", 404), ("orders", "text/csv", 415)):
        options = {"params": {"table": table}, "headers": {"Content-Type": kind}}
        assert olga.post(f"{place}/rows", json=rows, **options).status_code == status
    answer = olga.post(f"{place}/statements", json={"sql": "COMMIT"})
    assert answer.headers["LivingDB-Transaction"] == "none"
    assert str(dev.table("orders").get(1000)["amount"]) == "1.50"
    olga.delete(place)
    gone = olga.get(f"{place}/tables")
    assert (gone.status_code, gone.json()["details"]) == (404, {"missing": "session"})


def test_a_session_that_nobody_uses_ends(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    moment = 1000.0
    monkeypatch.setattr(sql_sessions.clock, "monotonic", lambda: moment)
    sessions = SqlSessions(Limits(idle_seconds=60))
    branch = served.db.branch("main")
    used, idle = (sessions.open(served.db, branch, "ann") for _ in range(2))
    idle.session.begin()
    moment += 50
    with sessions.use(used.id, "ann"):
        pass
    moment += 50
    assert [one.id for one in sessions.all("ann")] == [used.id]
    assert not idle.session.is_open
    with pytest.raises(NotFound, match="may have ended"):
        sessions.find(idle.id, "ann")


def test_no_more_is_computed_than_is_sent(served: Served, olga: httpx.Client) -> None:
    many = "SELECT a.id FROM range(1000000) a CROSS JOIN range(1000000) b WHERE a.id + b.id >= 0"
    said = {"sql": many, "limit": 3}
    session = olga.post("/v1/sql/sessions", json={}).json()["id"]
    for path in ("/v1/sql", f"/v1/sql/sessions/{session}/statements"):
        told = olga.post(path, json=said).json()
        assert (len(told["rows"]), told["more"], told["engine"]) == (3, True, "embedded")
    said = {"sql": "SELECT id FROM range(3)", "limit": 3}
    assert olga.post("/v1/sql", json=said).json()["more"] is False
    olga.post(f"/v1/sql/sessions/{session}/statements", json={"sql": "BEGIN"})
    told = olga.post(f"/v1/sql/sessions/{session}/statements", json=said).json()
    assert (len(told["rows"]), told["more"]) == (3, False)
    olga.delete(f"/v1/sql/sessions/{session}")


def test_queries_have_their_time_and_answers_their_rows(serve_shop: Callable[..., Served]) -> None:
    served = serve_shop(limits={"seconds": 0.3, "page_rows": 10, "sessions": 1})
    olga = served.client()
    long = "SELECT count(*) AS n FROM range(100000) a, range(100000) b WHERE a.id * b.id % 7 = 3"
    answer = olga.post("/v1/sql", json={"sql": long, "engine": "embedded"})
    assert (answer.status_code, answer.json()["code"]) == (429, "limit_exceeded"), answer.text
    assert "0.3 seconds" in answer.json()["message"]
    told = olga.post("/v1/sql", json={"sql": "SELECT id FROM orders", "limit": 1000}).json()
    assert (len(told["rows"]), told["more"]) == (10, True)
    assert olga.post("/v1/sql/sessions", json={}).status_code == 201
    assert olga.post("/v1/sql/sessions", json={}).json()["code"] == "limit_exceeded"


def test_a_typed_parameter_fits_its_type(olga: httpx.Client) -> None:
    for kind, value, code in (
        ("int", 2**40, "invalid_data"),
        ("tinyint", 300, "invalid_data"),
        ("decimal(4,2)", "12345.67", "invalid_data"),
        ("map<string,int>", [["a", 1]], "unsupported"),
    ):
        said = {"sql": "SELECT ? AS a", "parameters": [{"type": kind, "value": value}]}
        assert olga.post("/v1/sql", json=said).json().get("code") == code, kind
    said = {"sql": "SELECT ? AS a", "parameters": [{"type": "decimal(4,2)", "value": "9.50"}]}
    assert olga.post("/v1/sql", json=said).json()["rows"] == [{"a": "9.50"}]


def test_a_decimal_has_all_its_digits_and_no_exponent(olga: httpx.Client) -> None:
    sql = "SELECT CAST(x AS decimal(38,10)) AS a FROM VALUES (0), (-1e-10), (12345678901) AS t(x)"
    told = olga.post("/v1/sql", json={"sql": sql}).json()
    assert [row["a"] for row in told["rows"]] == [
        "0.0000000000",
        "-0.0000000001",
        "12345678901.0000000000",
    ]


def test_queries_of_users_take_a_part_of_the_memory(
    serve_shop: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[str] = []
    start = session._start

    def recorded(isolates_failures: bool, memory_limit: str) -> Any:
        limits.append(memory_limit)
        return start(isolates_failures, memory_limit)

    served = serve_shop()
    monkeypatch.setattr(session, "_memory_limit", "161 MB")
    monkeypatch.setattr(session, "_start", recorded)
    asked = {"sql": "SELECT count(*) AS n FROM orders"}
    assert served.client("rita").post("/v1/sql", json=asked).json()["rows"] == [{"n": 100}]
    assert limits == ["40250000B"]
