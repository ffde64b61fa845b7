"""What a view's query reads: tables by branch, under plain names, with its stars spelled out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import livingdb
from livingdb import evolution as ev
from livingdb.derivation import source_tables
from livingdb.derivation.source_tables import query_view, resolve_sources
from livingdb.derivation.view import SourceTable
from livingdb.errors import LivingDBError, NotFound, Unsupported, Untrusted
from livingdb.sql.parse import parse_statement
from livingdb.sql.render_query import render

STRUCT = "struct<a: bigint, b: string>"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    path: Path = tmp_path_factory.mktemp("sources") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double", "s": STRUCT}, key="id")
        main.create_table("u", {"id": "bigint", "w": "string"}, key="id")
        main.derive("view", "SELECT id, v FROM t", when="immediate")
        main.clone("dev").create_table("only_dev", {"id": "bigint"}, key="id")
        yield database


def resolve(db: livingdb.Database, text: str) -> tuple[str, dict[str, SourceTable]]:
    graph = db._graph
    bound, tables = resolve_sources(graph, graph.branch("main"), text)
    query = render(bound, bound.tables, stars=True)
    assert isinstance(query, str)
    return parse_statement(query).sql("spark").replace("`", ""), tables


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("SELECT * FROM u", "u.id, u.w"),
        ("SELECT u.* FROM u", "u.id, u.w"),
        ("SELECT U.*, 1 AS one FROM u", "u.id, u.w, 1 AS one"),
        ("SELECT a.*, t.v FROM u AS a JOIN t ON a.id = t.id", "a.id, a.w, t.v"),
        ("SELECT * FROM u AS a JOIN u AS b ON a.id = b.id", "a.id, a.w, b.id, b.w"),
        ("SELECT * FROM (SELECT * FROM u) AS x", "x.id, x.w"),
        ("SELECT * FROM u AS x(a, b)", "x.a, x.b"),
        ("SELECT *, upper(w) AS x FROM main.u", "u.id, u.w, UPPER(w) AS x"),
        ("SELECT * FROM t LEFT SEMI JOIN u ON t.id = u.id", "t.id, t.v, t.s"),
    ],
)
def test_a_star_becomes_the_columns_there_are(db: livingdb.Database, text: str, shown: str) -> None:
    query, _ = resolve(db, text)
    assert query.startswith(f"SELECT {shown} FROM ")


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("WITH c AS (SELECT * FROM u) SELECT * FROM c", "SELECT c.id, c.w FROM c"),
        ("WITH c(a, b) AS (SELECT * FROM u) SELECT * FROM c", "SELECT c.a, c.b FROM c"),
        ("SELECT id FROM u UNION ALL SELECT * FROM (SELECT id FROM t) AS x", "SELECT x.id FROM ("),
        (
            "SELECT id FROM t WHERE EXISTS (SELECT * FROM u WHERE u.id = t.id)",
            "EXISTS(SELECT u.id, u.w FROM u",
        ),
    ],
)
def test_stars_are_spelled_out_inside_of_a_query(
    db: livingdb.Database, text: str, inner: str
) -> None:
    assert inner in resolve(db, text)[0]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * EXCEPT (v) FROM t",
        "SELECT * FROM t JOIN u USING (id)",
        "SELECT * FROM t NATURAL JOIN u",
    ],
)
def test_a_star_whose_columns_are_not_known_stays(db: livingdb.Database, text: str) -> None:
    assert "SELECT *" in resolve(db, text)[0]


def test_a_count_of_rows_is_no_star(db: livingdb.Database) -> None:
    assert "COUNT(*)" in resolve(db, "SELECT count(*) AS n FROM t")[0]


@pytest.mark.parametrize("text", ["SELECT id, x.* FROM u", "SELECT x.* FROM u"])
def test_a_star_of_nothing_is_refused(db: livingdb.Database, text: str) -> None:
    with pytest.raises(LivingDBError, match="x"):
        resolve(db, text)


def test_a_star_of_a_struct_is_its_fields(db: livingdb.Database) -> None:
    query, _ = resolve(db, "SELECT id, s.* FROM t")
    assert "s.*" in query or ("s.a" in query and "s.b" in query)


def named(found: Mapping[str, SourceTable]) -> dict[str, SourceTable]:
    """Tables by what they are called alone."""
    return {plain: replace(source, id="") for plain, source in found.items()}


def test_tables_are_known_by_branch_and_name(db: livingdb.Database) -> None:
    main, dev = (db._graph.branch(name).id for name in ("main", "dev"))
    _, found = resolve(db, "SELECT a.id FROM T AS a JOIN dev.only_dev AS b ON a.id = b.id")
    assert named(found) == {"t": SourceTable(main, "t"), "only_dev": SourceTable(dev, "only_dev")}
    tables = db._graph.tables(db.branch("main").head._row)
    version = db._graph.versions.require(tables["t"])
    assert found["t"].id == db._graph.versions.definition(version).id


def test_one_table_under_two_names_is_read_once(db: livingdb.Database) -> None:
    _, found = resolve(db, "SELECT a.id FROM t AS a JOIN main.T AS b ON a.id = b.id")
    assert list(found) == ["t"]


def test_tables_of_one_name_get_two(db: livingdb.Database) -> None:
    main, dev = (db._graph.branch(name).id for name in ("main", "dev"))
    query, found = resolve(
        db,
        "SELECT t.id FROM t JOIN dev.t AS b ON t.id = b.id "
        "JOIN t VERSION AS OF 'main' AS c ON t.id = c.id",
    )
    head = db.branch("main").head.id
    assert named(found) == {
        "t": SourceTable(main, "t"),
        "t_2": SourceTable(dev, "t"),
        "t_3": SourceTable(main, "t", head),
    }
    assert "t_2 AS b" in query
    assert "t_3 AS c" in query


def test_a_view_is_read_where_its_rows_are(db: livingdb.Database) -> None:
    _, found = resolve(db, "SELECT * FROM view")
    target = db._graph.branch("view")
    assert named(found) == {"view": SourceTable(target.id, "view")}


@pytest.mark.parametrize(
    ("text", "error", "word"),
    [
        ("SELECT id + :x AS y FROM t", Unsupported, "parameters"),
        ("SELECT id + ? AS y FROM t", Unsupported, "parameters"),
        ("SELECT * FROM livingdb.branches", Unsupported, "system tables"),
        ("SELECT * FROM t TIMESTAMP AS OF '2026-01-01'", Unsupported, "VERSION AS OF"),
        ("SELECT * FROM nowhere", NotFound, "nowhere"),
        ("SELECT * FROM nobody.t", NotFound, "nobody"),
        ("SELECT * FROM nowhere VERSION AS OF 'main'", NotFound, "nowhere"),
        ("SELECT * FROM only_dev", NotFound, "only_dev"),
    ],
)
def test_what_a_view_cannot_read_is_refused_by_name(
    db: livingdb.Database, text: str, error: type[LivingDBError], word: str
) -> None:
    with pytest.raises(error, match=word):
        resolve(db, text)


def test_the_query_that_was_given_stays_as_it_is(db: livingdb.Database) -> None:
    graph = db._graph
    bound, _ = resolve_sources(graph, graph.branch("main"), "select  * FROM t -- all")
    assert bound.text == "select  * FROM t -- all"


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are read."""
    found: list[str] = []
    read = source_tables.parse_statement
    monkeypatch.setattr(source_tables, "parse_statement", lambda t: found.append(t) or read(t))
    return found


def test_a_query_over_tables_of_the_same_columns_is_read_once(
    db: livingdb.Database, parsed: list[str]
) -> None:
    graph, text = db._graph, "SELECT w, id AS once FROM u"
    views = {}
    for name in ("main", "dev"):
        views[name] = query_view(graph, graph.branch(name), "v", text, ())
        assert set(parsed) == {text}
        if name == "main":
            first = len(parsed)
    assert len(parsed) == first, "over another branch it is not read again"
    assert views["main"].query == views["dev"].query
    assert views["main"].bindings == views["dev"].bindings
    sources = {name: view.tables["u"].branch for name, view in views.items()}
    assert sources == {name: graph.branch(name).id for name in sources}, "each its own branch's"


def test_a_query_over_other_columns_is_another(db: livingdb.Database) -> None:
    graph, text = db._graph, "SELECT * FROM u"
    other = db.branch("main").clone("wider")
    before = query_view(graph, graph.branch("wider"), "v", text, ())
    other.evolve([ev.AddColumn("u", "more", "int")])
    after = query_view(graph, graph.branch("wider"), "v", text, ())
    assert "more" not in before.query
    assert "more" in after.query
    assert query_view(graph, graph.branch("main"), "v", text, ()).query == before.query


def test_what_one_database_trusts_another_does_not(db: livingdb.Database) -> None:
    graph, text = db._graph, "SELECT shop_price(id) AS p FROM u"
    home = graph.branch("main")
    for _ in range(2):
        assert query_view(graph, home, "v", text, ["spark:shop_*"]).tables
        with pytest.raises(Untrusted, match="shop_price"):
            query_view(graph, home, "v", text, ["spark:other"])
        with pytest.raises(Untrusted, match="shop_price"):
            query_view(graph, home, "v", text, ())
