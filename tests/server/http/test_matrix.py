"""Every operation over HTTP by every role: what it takes, and that nothing is said elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest
from tests.new_postgres import new_postgres
from tests.server.http.conftest import Served, make_shop, serve

import livingdb
from livingdb.server.http.door import OPEN_PATHS

ROLES = ["reader", "writer", "maintainer", "owner"]
READER, WRITER, MAINTAINER, OWNER = range(4)
ROWS = {"rows": [{"id": 1, "city": "x"}]}
SELECT = "SELECT id FROM orders"

# Per operation: the role it takes, its query and its body.  B is a branch of its own, N a name
# that nobody has; those without a role are about who asks alone.
Asked = tuple[int, dict[str, Any], Any]
TABLE: dict[str, Asked] = {
    "metrics": (OWNER, {}, None),
    "about": (READER, {}, None),
    "who_am_i": (READER, {}, None),
    "log_out": (READER, {}, None),
    "list_branches": (READER, {}, None),
    "create_branch": (WRITER, {}, {"name": "N", "from": "B"}),
    "get_branch": (READER, {"name": "B"}, None),
    "rename_branch": (MAINTAINER, {}, {"name": "B", "to": "N"}),
    "drop_branch": (MAINTAINER, {"name": "B"}, None),
    "set_default_branch": (MAINTAINER, {}, {"name": "main"}),
    "list_movements": (READER, {"name": "B"}, None),
    "reset_branch": (MAINTAINER, {}, {"branch": "B", "ref": "B~1"}),
    "revert_snapshot": (WRITER, {}, {"branch": "B", "ref": "B"}),
    "cherry_pick_snapshot": (WRITER, {}, {"branch": "B", "ref": "ahead"}),
    "list_tags": (READER, {}, None),
    "create_tag": (WRITER, {}, {"name": "N", "ref": "B"}),
    "drop_tag": (MAINTAINER, {"name": "N"}, None),
    "list_snapshots": (READER, {"ref": "B"}, None),
    "get_snapshot": (READER, {"ref": "B"}, None),
    "get_graph": (READER, {}, None),
    "list_tables": (READER, {"ref": "B"}, None),
    "create_table": (
        MAINTAINER,
        {"branch": "B"},
        {"name": "t", "columns": {"id": "int"}, "key": "id"},
    ),
    "get_table": (READER, {"ref": "B", "table": "orders"}, None),
    "read_rows": (READER, {"ref": "B", "table": "orders"}, None),
    "read_row": (READER, {"ref": "B", "table": "orders", "key": "1"}, None),
    "write_rows": (WRITER, {"branch": "B", "table": "orders"}, ROWS),
    "run_sql": (WRITER, {}, {"branch": "B", "sql": "DELETE FROM orders WHERE id = 1"}),
    "open_session": (READER, {}, {"branch": "B"}),
    "list_sessions": (READER, {}, None),
    "run_in_session": (READER, {}, {"sql": SELECT}),
    "insert_in_session": (READER, {"table": "orders"}, ROWS),
    "list_session_tables": (READER, {"branch": "B"}, None),
    "close_session": (READER, {}, None),
    "diff": (READER, {"before": "B~1", "after": "B"}, None),
    "diff_rows": (READER, {"before": "B~1", "after": "B", "table": "orders"}, None),
    "preview_merge": (READER, {}, {"source": "ahead", "into": "B"}),
    "merge": (WRITER, {}, {"source": "ahead", "into": "B"}),
    "explain_schema_change": (
        READER,
        {},
        {"branch": "B", "changes": ["ALTER TABLE orders DROP COLUMN city"]},
    ),
    "change_schema": (
        MAINTAINER,
        {},
        {"branch": "B", "changes": ["ALTER TABLE orders DROP COLUMN city"]},
    ),
    "retire_version": (MAINTAINER, {}, {"branch": "B"}),
    "migrate": (MAINTAINER, {}, {"branch": "B"}),
    "create_view": (MAINTAINER, {}, {"name": "N", "branch": "B", "sql": SELECT}),
    "create_clone": (MAINTAINER, {}, {"name": "N", "branch": "B", "sync": "forward"}),
    "refresh_view": (WRITER, {}, {"name": "totals"}),
    "view_at": (READER, {}, {"name": "totals", "source": "main"}),
    "propagate": (MAINTAINER, {}, None),
    "list_syncs": (READER, {}, None),
    "get_sync": (READER, {"name": "main/totals"}, None),
    "alter_sync": (MAINTAINER, {}, {"name": "main/totals", "on_break": "detach"}),
    "act_on_sync": (MAINTAINER, {}, {"name": "main/totals", "action": "approve"}),
    "list_alerts": (READER, {}, None),
    "list_watches": (READER, {}, None),
    "add_watch": (MAINTAINER, {}, {"name": "N", "on": {"event": "merge", "into": "main"}}),
    "drop_watch": (MAINTAINER, {"name": "N"}, None),
    "check_watches": (MAINTAINER, {}, None),
    "blame": (READER, {"ref": "B", "table": "orders", "key": "1"}, None),
    "row_history": (READER, {"ref": "B", "table": "orders", "key": "1"}, None),
    "row_lineage": (READER, {"view": "totals"}, None),
    "column_lineage": (READER, {"view": "totals"}, None),
    "forward_lineage": (READER, {"ref": "B", "table": "orders", "key": "1"}, None),
    "whereabouts": (READER, {"branch": "B", "table": "orders", "key": "1"}, None),
    "provenance": (READER, {"ref": "B"}, None),
    "get_status": (READER, {}, None),
    "get_storage": (READER, {}, None),
    "get_retention": (READER, {}, None),
    "set_retention": (MAINTAINER, {}, {}),
    "collect_garbage": (MAINTAINER, {}, {}),
    "compact": (MAINTAINER, {}, None),
    "check": (MAINTAINER, {}, {}),
    "tune": (MAINTAINER, {}, {"seconds": 0.1}),
    "list_advice": (MAINTAINER, {}, None),
    "act_on_advice": (MAINTAINER, {}, {"action": "undo"}),
    "run_upkeep": (MAINTAINER, {}, None),
    "erase_rows": (OWNER, {}, {"table": "orders", "keys": [[9]], "reason": "x"}),
    "back_up": (OWNER, {}, {"name": "N-backup"}),
    "export_tables": (OWNER, {}, {"name": "N-export", "ref": "main"}),
    "list_merge_requests": (READER, {}, None),
    "request_merge": (WRITER, {}, {"source": "B", "into": "main"}),
    "get_merge_request": (READER, {}, None),
    "preview_merge_request": (READER, {}, None),
    "diff_merge_request": (READER, {}, None),
    "check_merge_request": (READER, {}, None),
    "act_on_merge_request": (READER, {}, {"action": "comment", "text": "hm"}),
    "merge_merge_request": (WRITER, {}, {}),
    "get_merge_rule": (READER, {"branch": "B"}, None),
    "set_merge_rule": (OWNER, {}, {"branch": "B", "approvals": 1}),
    "list_users": (OWNER, {}, None),
    "add_user": (OWNER, {}, {"name": "N"}),
    "remove_user": (OWNER, {"name": "spare"}, None),
    "grant_role": (OWNER, {}, {"name": "spare", "role": "reader", "branches": "N"}),
    "withdraw_role": (OWNER, {"name": "spare"}, None),
    "grant_object": (MAINTAINER, {}, {"name": "spare", "object": "totals"}),
    "list_objects": (OWNER, {"name": "spare"}, None),
    "withdraw_object": (MAINTAINER, {"name": "spare", "object": "totals"}, None),
    "issue_token": (OWNER, {}, {"name": "spare"}),
    "list_tokens": (OWNER, {"name": "spare"}, None),
    "revoke_token": (OWNER, {"id": "none"}, None),
    "read_audit": (OWNER, {}, None),
    "list_jobs": (READER, {}, None),
    "get_job": (READER, {}, None),
    "cancel_job": (READER, {}, None),
    "act_on_alert": (READER, {}, {"action": "resolve"}),
}
OF_NOBODY = {
    *("about", "who_am_i", "log_out", "list_jobs", "list_sessions"),
    *("list_branches", "list_tags", "list_syncs", "list_alerts", "list_watches"),
    *("list_merge_requests", "get_graph"),
}
"""What is answered to who sees nothing: with nothing in it."""
_numbers = count()


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
def url(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str | None]:
    """Where the database is, if it is in no folder."""
    if request.param == "sqlite":
        yield None
        return
    with new_postgres(
        request.getfixturevalue("postgres_url"), tmp_path_factory.mktemp("p")
    ) as made:
        yield made


@pytest.fixture(scope="module")
def matrix(url: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("matrix")
    with make_shop(folder, url) as db:
        main = db.branch("main")
        main.clone("ahead").update("orders", [{"id": 5, "city": "secret-city"}])
        main.derive("totals", "SELECT city FROM orders GROUP BY city", when="immediate")
        db.request_merge("ahead", "main", title="secret-title")
        for role in ROLES:
            db.people.add(f"{role}-all", role, "*")
        db.people.add("stranger", "owner", "elsewhere/*")
        db.people.add("spare")
        places = {"backup_place": str(folder / "b"), "export_folder": str(folder / "e")}
        made = serve(db, limits={"jobs": 1000, "sessions": 1000}, **places)
        for role in ROLES:
            made.tokens[role] = db.people.issue_token(f"{role}-all")
        made.tokens["stranger"] = db.people.issue_token("stranger")
        yield made
        made.close()


def operations(served: Served) -> dict[str, tuple[str, str]]:
    found = {}
    for path, methods in served.server.app.openapi()["paths"].items():
        for method, told in methods.items():
            if path not in OPEN_PATHS and told["operationId"] != "listen_to_events":
                found[told["operationId"]] = (method.upper(), path)
    return found


def named(given: Any, branch: str, new: str) -> Any:
    """What is asked, about a branch of its own."""
    if isinstance(given, dict):
        return {name: named(value, branch, new) for name, value in given.items()}
    if isinstance(given, str) and (given in ("B", "N") or given.startswith(("B~", "N-"))):
        return {"B": branch, "N": new}[given[0]] + given[1:].replace("/", "-")
    return given


def ask(served: Served, client: httpx.Client, name: str, place: tuple[str, str]) -> httpx.Response:
    _, query, body = TABLE[name]
    number = next(_numbers)
    branch, new = f"own-{number}", f"new-{number}"
    if "'B" in f"{query}{body}":
        made = served.db.branch("main").clone(branch)
        made.update("orders", [{"id": 7, "city": "secret-city"}])
    if name == "drop_tag":
        served.db.tag(new, "main")
    if name == "drop_watch":
        served.db.watch(new, livingdb.alert.on_merge("main"))
    method, path = place
    path = path.replace("{operation}", "upsert").replace("{number}", "1")
    path = path.replace("{job}", "none").replace("{session}", "none")
    return client.request(
        method,
        path,
        params=named(query, branch, new),
        json=named(body, branch, new),
    )


def is_refused(served: Served, client: httpx.Client, answer: httpx.Response) -> bool:
    if answer.status_code == 202 and "id" in answer.json():
        error = served.wait(client, answer)["error"]
        return error is not None and error["code"] == "forbidden"
    return answer.status_code == 403


def test_the_table_is_whole(matrix: Served) -> None:
    assert set(operations(matrix)) == set(TABLE)


@pytest.mark.parametrize("role", ROLES)
def test_what_a_role_may_do(matrix: Served, role: str) -> None:
    client, wrong = matrix.client(role), []
    for name, place in operations(matrix).items():
        answer = ask(matrix, client, name, place)
        refused = is_refused(matrix, client, answer)
        if refused != (ROLES.index(role) < TABLE[name][0]):
            wrong.append((name, answer.status_code, answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong))


def test_what_is_said_to_who_sees_nothing(matrix: Served) -> None:
    client, wrong = matrix.client("stranger"), []
    for name, place in operations(matrix).items():
        answer = ask(matrix, client, name, place)
        shown = answer.status_code < 300 and not is_refused(matrix, client, answer)
        if (shown and name not in OF_NOBODY) or "secret" in answer.text:
            wrong.append((name, answer.status_code, answer.text[:200]))
    assert not wrong, "\n".join(map(str, wrong))
