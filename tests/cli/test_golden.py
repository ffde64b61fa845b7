"""What every command tells, as text, JSON and CSV, compared with what it told before.

LIVINGDB_GOLDEN=write writes the files anew.
"""

from __future__ import annotations

import os
import shlex
from datetime import timedelta
from pathlib import Path

import pytest
from tests.cli.telling import normal, squashed, tell
from tests.clock import NOON, stopped

from livingdb.cli.commands import COMMANDS

TOLD = NOON + timedelta(minutes=90)
"""The shop was made at noon."""
GOLDEN = Path(__file__).parent / "golden"
ALTER = "ALTER TABLE visits ADD COLUMN guests INT DEFAULT 1"
CASES: dict[str, list[list[str]]] = {
    "init": [["init", "other.ldb"]],
    "import": [["import", "cities.csv", "--table", "cities"]],
    "sql": [
        ["sql", "SELECT * FROM orders VERSION AS OF 'v1' ORDER BY id"],
        ["sql", "UPDATE visits SET count = count + 1; SELECT * FROM visits;"],
        ["sql", "ALTER TABLE visits ADD COLUMN guests INT"],
        ["sql", "SELECT id FROM orders WHERE id > 99"],
        ["sql", "SHOW TABLES; DESCRIBE orders; SHOW BRANCHES LIKE 'd*'"],
        ["sql", "BEGIN; DELETE FROM visits; ROLLBACK; BEGIN; DELETE FROM visits; COMMIT"],
        ["sql", "CREATE BRANCH trial FROM dev~1; USE BRANCH trial; SELECT id FROM orders LIMIT 1"],
        ["sql", "DELETE FROM totals"],
    ],
    "log": [["log"], ["log", "dev~1", "-n", "2"], ["log", "dev", "--movements"]],
    "branch": [
        ["branch"],
        ["branch", "create", "audit", "main~1"],
        ["branch", "reset", "dev", "v1"],
        ["branch", "rename", "dev", "trial"],
        ["branch", "drop", "dev"],
        ["branch", "rename", "trial", "main"],
        ["branch", "rename", "totals", "sums"],
        ["branch", "default"],
        ["branch", "drop", "main", "--detach"],
        ["branch", "default", "trial"],
        ["--branch", "trial", "branch", "drop", "trial"],
        ["branch", "drop", "main", "--detach"],
        ["branch", "default"],
        ["branch", "drop", "trial", "--force"],
        ["branch", "default"],
    ],
    "tag": [["tag"], ["tag", "create", "v2"], ["tag", "drop", "v1"]],
    "diff": [
        ["diff", "main", "dev"],
        ["diff", "v1", "dev", "--rows"],
        ["diff", "v1", "v1"],
        ["diff", "main~1", "main", "--table", "visits"],
    ],
    "merge": [
        ["merge", "dev", "--into", "main", "--preview"],
        ["merge", "dev", "--into", "main"],
        ["merge", "dev", "--granularity", "cell", "-m", "both"],
    ],
    "request": [
        ["request"],
        ["request", "create", "dev", "--into", "main", "--title", "visits"],
        ["request", "comment", "1", "why not", "--by", "bob"],
        ["request", "approve", "1", "--by", "bob"],
        ["request", "show", "1"],
        ["request", "close", "1"],
        ["request", "reopen", "1"],
        ["request", "merge", "1"],
        ["request", "list"],
        ["request", "show", "7"],
    ],
    "user": [
        ["user"],
        ["user", "add", "ann", "--role", "writer", "--branches", "dev/*"],
        ["user", "add", "bob"],
        ["user", "grant", "ann", "--role", "reader", "--branches", "main"],
        ["user", "grant", "ann", "--role", "king"],
        ["user", "withdraw", "ann", "--role", "writer"],
        ["user", "allow", "bob", "totals"],
        ["user", "allow", "bob", "dev"],
        ["user", "deny", "bob", "totals"],
        ["user", "tokens", "bob"],
        ["user", "list"],
        ["branch", "protect", "main"],
        ["branch", "protect", "main", "--off"],
        ["user", "remove", "bob"],
        ["user", "audit", "-n", "3"],
    ],
    "blame": [["blame", "orders"], ["blame", "orders", "--key", "1", "--columns"]],
    "history": [["history", "orders", "1"], ["history", "visits", "Oslo,2024-01-01"]],
    "provenance": [["provenance", "totals"], ["provenance", "main", "--depth", "1"]],
    "revert": [["revert", "main"], ["log", "-n", "1"], ["revert", "v1"]],
    "cherry-pick": [["cherry-pick", "dev"], ["cherry-pick", "dev~1", "--on-conflict", "theirs"]],
    "evolve": [
        ["evolve", "--explain", ALTER],
        ["evolve", "--explain", "ALTER TABLE visits ALTER COLUMN city TYPE VARCHAR(3)"],
        ["evolve", ALTER, "--keep", "old", "--sync", "both"],
        ["evolve", '{"change": "RenameTable", "table": "visits", "to": "guests"}'],
    ],
    "retire": [
        ["evolve", ALTER, "--keep", "old", "--sync", "both"],
        ["evolve", "ALTER TABLE visits DROP COLUMN guests", "--keep", "middle", "--sync", "both"],
        ["--branch", "middle", "sql", "UPDATE visits SET guests = 5 WHERE city = 'Oslo'"],
        ["retire", "dev"],
        ["retire", "middle"],
        ["retire", "middle", "--policy", "truncate"],
        ["retire", "main"],
        ["branch", "default", "old"],
        ["retire", "main"],
        ["branch", "default", "main"],
        ["retire", "old"],
    ],
    "derive": [
        ["derive", "cities", "--sql", "SELECT DISTINCT city FROM visits", "--when", "immediate"],
        ["derive", "cities", "--sql", "SELECT city FROM visits"],
        ["derive", "cities", "--sql", "SELECT city, count FROM visits", "--replace", "--when",
         "immediate"],
    ],
    "refresh": [["refresh", "totals"]],
    "propagate": [["propagate"]],
    "syncs": [["syncs"]],
    "sync": [
        ["sync", "totals"],
        ["sync", "totals", "alter", "--when", "every 10 minutes", "--condition", "rows >= 1",
         "--condition", "max_changed_share(0.2)", "--action", "hold", "--alert", "log",
         "--by", "eva"],
        ["sync", "totals", "alter", "--no-conditions", "--no-alerts"],
        ["sync", "totals", "alter", "--when", "never"],
        ["sync", "totals", "alter", "--when", "deferred", "--condition", "rows >= 1",
         "--action", "fail"],
        ["sync", "totals", "alter"],
        ["sync", "totals", "alter", "--action", "hold"],
        ["sync", "totals", "alter", "--condition", "rows >= 1", "--no-conditions"],
        ["sync", "totals", "detach", "--when", "deferred"],
        ["sync", "nothing", "alter", "--when", "deferred"],
        ["sync", "totals", "detach", "--reason", "repairs"],
    ],
    "alerts": [["alerts"], ["alerts", "--state", "resolved"], ["alerts", "ack", "1"]],
    "status": [["status"], ["alerts", "resolve", "1"], ["status"]],
    "check": [["check"]],
    "storage": [["storage"]],
    "compact": [["compact"]],
    "gc": [
        ["gc", "--policy"],
        ["gc"],
        ["gc", "--policy", "--keep", '{"snapshots": 2, "branches": {"agent/*": {"days": 2}}}'],
        ["gc", "--policy", "--keep", '{"weeks": 2}'],
        ["gc", "--why", "v1"],
    ],
    "erase": [
        ["erase", "orders", "1", "--reason", "she asked", "--dry-run"],
        ["erase", "orders", "1", "--reason", "she asked"],
        ["erase", "orders", "1", "--reason", "she asked"],
        ["erase", "nothing", "1", "--reason", "she asked"],
    ],
}  # fmt: skip
SQUASHED = {"status", "check", "storage", "compact"}
"""These tell sizes, which follow the versions of libraries."""
ELSEWHERE = {
    "backup",
    "restore",
    "export",
    "graph",
    "lineage",
    "serve",
    "demo",
    "bench",
    "completion",
}


def test_every_command_has_its_file() -> None:
    assert {*CASES} | ELSEWHERE == {*COMMANDS}


@pytest.mark.parametrize("form", ["text", "json", "csv"])
@pytest.mark.parametrize("command", CASES)
def test_golden(command: str, form: str, shop: Path) -> None:
    Path("cities.csv").write_text("id,city,founded\n1,Oslo,1048-01-01\n2,Bodø,1816-05-20\n")
    parts = []
    for case in CASES[command]:
        with stopped(TOLD):
            told = tell("-o", form, *case, db=shop)
        heading = f"$ livingdb -o {form} {shlex.join(case)}\n"
        said = "".join(f"! {line}\n" for line in told.err.splitlines())
        text = normal(told.out + said, [(str(shop.parent), "")])
        if command in SQUASHED:
            text = squashed(text, thousands=form == "text")
        parts.append(f"{heading}{text}[{told.code}]\n")
    found = "\n".join(parts)
    file = GOLDEN / f"{command}.{form}.txt"
    if os.environ.get("LIVINGDB_GOLDEN") == "write":
        file.write_text(found, encoding="utf-8")
    assert found == file.read_text(encoding="utf-8")
