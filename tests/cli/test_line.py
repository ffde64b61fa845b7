"""The line as a whole: options anywhere on it, errors as JSON, advice for a shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.telling import tell

from livingdb.cli.advice import shell_advice


@pytest.mark.parametrize(
    "line",
    [
        ["-o", "csv", "--branch", "dev", "log", "-n", "1"],
        ["log", "-n", "1", "--branch", "dev", "-o", "csv"],
        ["log", "--branch=dev", "-n", "1", "--output=csv"],
        ["log", "-ocsv", "-n", "1", "--branch", "dev"],
    ],
)
def test_global_options_stand_anywhere(shop: Path, line: list[str]) -> None:
    told = tell(*line, "--db", str(shop))
    assert (told.code, told.err) == (0, "")
    assert told.out == tell("-o", "csv", "log", "dev", "-n", "1", db=shop).out
    inner = tell("branch", "create", "trial", "--db", str(shop), "-o", "json", "--branch", "dev")
    assert (
        inner.json["head"]
        == tell("-o", "json", "log", "dev", "-n", "1", db=shop).json[0]["snapshot"]
    )


def test_a_value_is_no_global_option(shop: Path) -> None:
    told = tell("sql", "DELETE FROM visits", "-m", "--branch", "--db", str(shop))
    assert told.code == 0
    assert tell("-o", "json", "log", "-n", "1", db=shop).json[0]["message"] == "--branch"
    assert tell("log", "--db", str(shop), "--", "-o").code == 3
    assert tell("log", "--db").code == 2


def test_errors_are_json_where_json_is_asked_for(shop: Path) -> None:
    told = tell("log", "nothing", "-o", "json", db=shop)
    found = json.loads(told.err)
    assert (told.code, told.out, found["error"], found["exit_code"]) == (3, "", "not_found", 3)
    assert "nothing" in found["message"]
    assert tell("log", "nothing", "-o", "csv", db=shop).err.startswith("livingdb: ")


def test_advice_is_for_a_shell(shop: Path) -> None:
    told = tell("branch", "drop", "main", "--detach", db=shop)
    assert told.code == 4
    assert "livingdb branch default NAME" in told.err
    assert "--force" in told.err
    assert "livingdb init" in tell("log", db="nowhere.ldb").err
    assert "the next livingdb tune," in tell("tune", "--undo", "5", db=shop).err
    said = shell_advice("it is held; db.sync('totals').resume() or .approve(by=…) lets it go on")
    assert said == "it is held; livingdb sync totals resume, or approve, lets it go on"


def test_a_merge_that_changes_nothing_says_so(shop: Path) -> None:
    tell("branch", "create", "trial", db=shop)
    assert tell("merge", "trial", db=shop).out.endswith(": it has all of trial already\n")


def test_a_table_that_is_near_is_named_alone(shop: Path) -> None:
    told = tell("sql", "SELECT * FROM ordrs", db=shop)
    assert told.err == "livingdb: there is no table 'ordrs'; did you mean 'orders'?\n"


def test_without_a_default_branch_every_command_says_how_to_choose_one(shop: Path) -> None:
    tell("branch", "drop", "main", "--detach", "--force", db=shop)
    for line in (["log"], ["sql", "SELECT 1"], ["provenance"], ["revert", "dev"], ["tag", "create",
                 "v9"], ["branch", "create", "x"], ["merge", "dev"], ["blame", "orders"],
                 ["history", "orders"], ["evolve", "DROP TABLE visits"]):  # fmt: skip
        told = tell(*line, db=shop)
        assert told.code == 3, line
        assert "livingdb branch default NAME chooses another one" in told.err
    assert tell("branch", "default", "dev", db=shop).code == 0
    assert tell("log", db=shop).code == 0


def test_a_graph_of_one_branch_and_few_snapshots(shop: Path) -> None:
    whole, part = tell("graph", db=shop), tell("graph", "--limit", "2", "--branch", "dev", db=shop)
    assert (whole.code, part.code) == (0, 0)
    assert "main" in whole.out
    assert 0 < len(part.out.splitlines()) < len(whole.out.splitlines())
    assert "gone" in part.out


def test_a_script_leaves_nothing_uncommitted(shop: Path) -> None:
    script = "BEGIN; DELETE FROM visits; SELECT count(*) AS n FROM visits;"
    told = tell("-o", "csv", "sql", stdin=script, db=shop)
    assert told.out.endswith("n\n0\n")
    assert tell("-o", "csv", "sql", "SELECT count(*) AS n FROM visits", db=shop).out == "n\n1\n"
    failed = tell("sql", "BEGIN; DELETE FROM visits; SELECT nope; COMMIT", db=shop)
    assert failed.code == 3
    assert tell("-o", "csv", "sql", "SELECT count(*) AS n FROM visits", db=shop).out == "n\n1\n"
