"""The prompt of `livingdb sql` and other things a person sees in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.telling import tell
from tests.cli.terminal import Terminal, terminal

import livingdb
from livingdb.cli.statements import is_complete, split_statements, statements

MANY = ", ".join(f"orders {letter}" for letter in "abcdefghijklmnopqrst")
ENDLESS = f"SELECT sum(a.id * b.id * t.id) AS endless FROM {MANY}"


@pytest.fixture
def prompt(shop: Path, tmp_path: Path) -> Iterator[Terminal]:
    environment = {"LIVINGDB": str(shop), "LIVINGDB_HISTORY": str(tmp_path / "typed" / "history")}
    with terminal("sql", environment=environment) as found:
        found.see("main>")
        yield found


def test_a_session(prompt: Terminal, shop: Path, tmp_path: Path) -> None:
    prompt.type("SELECT count(*) AS\r")
    prompt.type("orders FROM orders;\r")
    assert "5" in prompt.see("1 row")
    prompt.see("main>")
    prompt.type("SELECT * FROM nothing;\r")
    prompt.see("livingdb: ")
    prompt.see("main>")
    prompt.type(".use nowhere\r")
    prompt.see("nowhere")
    prompt.see("main>")
    prompt.type(".use dev\r")
    prompt.see("dev>")
    prompt.type("DELETE FROM orders WHERE id = 3; SELECT id FROM orders ORDER BY id;\r")
    prompt.see("1 row changed")
    prompt.see("2 rows")
    prompt.see("dev>")
    prompt.type(".tables\r")
    prompt.see("visits")
    prompt.see("dev>")
    prompt.type(".schema visits\r")
    seen = prompt.see("count")
    assert "string" in seen
    prompt.see("dev>")
    prompt.type(".branches\r")
    prompt.see("totals")
    prompt.see("dev>")
    prompt.type(".help\r")
    prompt.see("semicolon")
    prompt.see("dev>")
    prompt.type("exit\r")
    assert prompt.end() == 0
    with livingdb.open(shop) as db:
        assert len(db.branch("dev").table("orders")) == 2
        assert len(db.branch("main").table("orders")) == 5
    assert "SELECT count(*) AS" in (tmp_path / "typed" / "history").read_text()


def test_errors_are_json_where_it_is_asked_for(shop: Path) -> None:
    with terminal("-o", "json", "sql", environment={"LIVINGDB": str(shop)}) as prompt:
        prompt.see("main>")
        prompt.type("SELECT * FROM nothing;\r")
        prompt.see('{"error": "not_found", "message": ')
        prompt.see("main>")
        prompt.type(".nothing\r")
        prompt.see('{"error": "usage", "message": ')
        prompt.see("main>")
        prompt.type("exit\r")
        assert prompt.end() == 0


def test_how_long_a_statement_takes(prompt: Terminal) -> None:
    prompt.type(".timer on\r")
    prompt.see("main>")
    prompt.type("SELECT 7 AS seven;\r")
    prompt.see("1 row")
    assert " s" in prompt.see("main>")
    prompt.type(".views\r")
    prompt.see("totals")
    prompt.see("main>")
    prompt.type("quit\r")
    assert prompt.end() == 0


def test_what_was_typed_before_comes_back(prompt: Terminal) -> None:
    prompt.type("SELECT 'here' || ' again' AS x;\r")
    prompt.see("here again")
    prompt.see("main>")
    prompt.type("\x1b[A\r")
    prompt.see("here again")
    prompt.see("main>")
    prompt.type("\x04")
    assert prompt.end() == 0


def test_names_are_completed(prompt: Terminal) -> None:
    prompt.type("SELECT max(amou\t")
    prompt.see("amou")
    prompt.see("nt")
    prompt.type(") AS top FROM visi\t")
    prompt.see("visi")
    prompt.see("ts")
    prompt.type(", orders;\r")
    assert "9.0" in prompt.see("1 row")
    prompt.see("main>")
    prompt.type("\x04")
    assert prompt.end() == 0


def test_ctrl_c_takes_back_what_was_typed(prompt: Terminal) -> None:
    prompt.type("SELECT 'unfinished\x03")
    prompt.see("main>")
    prompt.type("SELECT 'finished' AS x;\r")
    prompt.see("1 row")
    prompt.see("main>")
    prompt.type("\x04")
    assert prompt.end() == 0


def test_ctrl_c_stops_a_command(shop: Path) -> None:
    asked = f"SELECT 'begun' AS x; {ENDLESS}"
    with terminal("sql", asked, environment={"LIVINGDB": str(shop)}) as screen:
        screen.see("begun")
        screen.interrupt()
        assert screen.end() == 130
        assert "Traceback" not in screen.rest


def test_a_key_is_asked_for(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,number\nOslo,1\nRome,2\n")
    environment = {"LIVINGDB": str(shop)}
    with terminal("import", "cities.csv", "--table", "cities", environment=environment) as screen:
        screen.see("Which columns are the key? [city]: ")
        screen.type("number\r")
        screen.see("importing into cities")
        screen.see("2 rows into cities")
        assert screen.end() == 0
    with livingdb.open(shop) as db:
        assert db.branch("main").table("cities").key == ("number",)


def test_ctrl_c_at_a_question(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "cities.csv").write_text("city,number\nOslo,1\nRome,2\n")
    environment = {"LIVINGDB": str(shop)}
    with terminal("import", "cities.csv", "--table", "cities", environment=environment) as screen:
        screen.see("Which columns are the key? [city]: ")
        screen.interrupt()
        assert screen.end() == 130
        assert "Traceback" not in screen.rest


def test_wide_rows_are_cut_in_a_terminal(shop: Path) -> None:
    query = "SELECT repeat('wide ', 100) AS text, 7 AS seven"
    environment = {"LIVINGDB": str(shop)}
    with terminal("sql", query, environment=environment) as screen:
        seen = screen.see("1 row")
        assert screen.end() == 0
    assert all(len(line) <= 100 for line in seen.splitlines())
    assert "…" in seen
    assert " 7" in seen
    assert "wide " * 100 in tell("sql", query, db=shop).out


@pytest.mark.parametrize("name", ["NO_COLOR", "OTHER"])
def test_no_colour_where_none_is_wanted(name: str, shop: Path) -> None:
    assert "\x1b" not in tell("log", db=shop).out, "there is no terminal"
    with terminal("log", environment={"LIVINGDB": str(shop), name: "1"}) as screen:
        screen.see("refs")
        assert screen.end() == 0
        assert ("\x1b[3" in screen.raw) is False


# --- statements -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "rest"),
    [
        ("", [], ""),
        (";;", [], ""),
        ("a; b ;c", ["a", "b"], "c"),
        ("SELECT ';' ; x", ["SELECT ';'"], "x"),
        ("SELECT 'it''s;' ;", ["SELECT 'it''s;'"], ""),
        (r"SELECT 'a\';' ;", [r"SELECT 'a\';'"], ""),
        ('SELECT "a;b" ;', ['SELECT "a;b"'], ""),
        ("SELECT `a;b` ;", ["SELECT `a;b`"], ""),
        ("a -- b;\n;c", ["a -- b;"], "c"),
        ("a /* b; ' */;c", ["a /* b; ' */"], "c"),
        ("-- only;", [], "-- only;"),
        ("/* only */;", [], ""),
        ("SELECT 'open;", [], "SELECT 'open;"),
        ("a; SELECT /* open;", ["a"], "SELECT /* open;"),
    ],
)
def test_statements(text: str, found: list[str], rest: str) -> None:
    assert split_statements(text) == (found, rest)


@given(st.lists(st.sampled_from(["a", ";", "'", '"', "`", "--", "/*", "*/", "\n", " ", "\\"])))
def test_nothing_gets_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    joined = "".join(statements(text))
    assert joined.count("a") <= text.count("a")
    if is_complete(text):
        *before, last = statements(text + "\n b;")
        assert before == statements(text)
        assert last.endswith("b")
