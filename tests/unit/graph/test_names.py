"""What branches, tags and tables may be called."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import livingdb
from livingdb import AlreadyExists, InvalidName
from livingdb.evolution import RenameTable
from livingdb.graph.names import LENGTH_LIMIT, check_branch, check_table, check_tag
from livingdb.graph.refs import parse_time

GOOD = ["main", "dev", "fix/1", "a.b", "été", "v1.0-rc_2", "UPPER", "日本", "x" * LENGTH_LIMIT]
BAD = [
    "",
    "x" * (LENGTH_LIMIT + 1),
    "a b",
    "a\tb",
    "a\n",
    " a",
    "a~1",
    "a^",
    "a:b",
    "id:abcdef",
    "main@2026",
    "what?",
    "a*",
    "a[1]",
    "a\\b",
    "it's",
    'say "hi"',
    "a`b",
    "a;b",
    "-a",
    "/a",
    ".a",
    "a/",
    "a.",
    "a//b",
    "a..b",
    "id",
    "ID",
    "livingdb",
    "LivingDB",
    "liv\u0131ngdb",  # which Spark does not tell from it
    "a\x00b",
    "\ud800",
]


@pytest.mark.parametrize("check", [check_branch, check_tag])
@pytest.mark.parametrize("name", GOOD)
def test_good_names_of_branches_and_tags(check: Callable[[object], str], name: str) -> None:
    assert check(name) == name


@pytest.mark.parametrize("check", [check_branch, check_tag])
@pytest.mark.parametrize("name", BAD)
def test_bad_names_of_branches_and_tags(check: Callable[[object], str], name: str) -> None:
    with pytest.raises(InvalidName):
        check(name)


@pytest.mark.parametrize("check", [check_branch, check_tag, check_table])
@pytest.mark.parametrize("name", [None, 1, b"main", ["main"]])
def test_names_are_texts(check: Callable[[object], str], name: object) -> None:
    with pytest.raises(InvalidName):
        check(name)


@pytest.mark.parametrize("name", ["orders", "order lines", "a.b", "été", "a~1", "1", "x" * 200])
def test_good_names_of_tables(name: str) -> None:
    assert check_table(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        " a",
        "a ",
        "a`b",
        'a"b',
        "it's",
        "a\\b",
        "a/b",
        "a;b",
        "a\nb",
        "a\x00",
        "x" * 201,
        "~a",
        "livıngdb",
    ],
)
def test_bad_names_of_tables(name: str) -> None:
    with pytest.raises(InvalidName):
        check_table(name)


@given(name=st.text(max_size=12))
def test_no_good_name_reads_as_another_kind_of_ref(name: str) -> None:
    """`~`, `@` and `id:` are for refs alone, so a name never means two things."""
    try:
        check_branch(name)
    except InvalidName:
        return
    assert name
    assert not set("~@: \t\n") & set(name)
    assert not name.startswith("id:")
    assert name == name.strip()


@given(text=st.text(max_size=20))
def test_what_is_no_time_is_an_invalid_name(text: str) -> None:
    with suppress(InvalidName):
        assert isinstance(parse_time(text), int)


def test_a_refused_name_leaves_nothing_behind(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        for call in (
            lambda: main.clone("a b"),
            lambda: db.tag("a~1", "main"),
            lambda: main.create_table("a;b", {"id": "bigint"}, key="id"),
        ):
            with pytest.raises(InvalidName):
                call()
        assert db.branches() == ["main"]
        assert db.tags() == {}
        assert main.tables() == []
        assert len(db.snapshots()) == 1


def test_taken_names(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint"}, key="id")
        db.tag("v1", "main")
        for call in (
            lambda: main.clone("main"),
            lambda: main.clone("v1"),
            lambda: main.evolve(RenameTable("t", "u"), keep="v1", sync="both"),
            lambda: main.derive("v1", sql="SELECT id FROM t", when="immediate"),
            lambda: db.tag("v1", "main~1"),
            lambda: db.tag("main", "main~1"),
            lambda: main.create_table("t", {"id": "bigint"}, key="id"),
            lambda: livingdb.create(tmp_path / "shop.ldb"),
        ):
            with pytest.raises(AlreadyExists):
                call()
        assert db.at("v1") == main.head


def test_no_table_of_a_user_is_hidden(tmp_path: Path) -> None:
    """It would be in no list, and no clone would have it."""
    with livingdb.create(tmp_path / "db", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int"}, key="id")
        for make in (
            lambda: main.create_table("~t", {"id": "int"}, key="id"),
            lambda: main.sql("CREATE TABLE `~t` (id INT PRIMARY KEY)"),
            lambda: main.evolve(RenameTable("t", "~t")),
        ):
            with pytest.raises(InvalidName, match="hidden"):
                make()
        assert main.tables() == ["t"]
