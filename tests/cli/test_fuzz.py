"""Whatever is typed, a command ends with one of the codes that are written down."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.cli.telling import tell
from tests.property.trying import tries

from livingdb.cli.app import app
from livingdb.cli.commands import COMMANDS
from livingdb.cli.commands.propagate import StopSignal
from livingdb.errors import Unsupported

CODES = {0, 1, 2, 3, 4, 5, 6, 7}
FUZZED = sorted({*COMMANDS} - {"demo", "bench"})
STRAYS = ["--nothing", "-o", "--help", "--", "-", "--db", "-x"]
WORDS = """
    main dev v1 totals large notes orders visits main~1 main~99 dev~ id:00 main@2026-11-15 main@
    create drop list reset show detach reattach resume approve ack resolve append upsert replace
    csv parquet json arrow text html svg mermaid both forward reverse none auto embedded bash zsh
    ours theirs fail orders.amount=theirs row cell immediate deferred incremental full lazy hold
    1 2 0 -1 99999999999999999999 1.5 NaN Oslo Oslo,2024-01-01 id city,day cities.csv bad.csv . ..
    statements.sql cities.json absent.csv open acknowledged max_changed_share(0.2) log:
""".split()  # noqa: SIM905
TEXTS = [
    "",
    " ",
    "SELECT 1",
    "SELECT * FROM orders",
    "SELECT count(*) AS n FROM orders GROUP BY city;",
    "DELETE FROM visits",
    "INSERT INTO orders (id) VALUES (77)",
    "UPDATE orders SET amount = 'x'",
    "ALTER TABLE orders ADD COLUMN vat DOUBLE",
    "ALTER TABLE orders DROP COLUMN city",
    "DROP TABLE visits",
    "CREATE TABLE t (id INT PRIMARY KEY)",
    "CREATE VIEW w AS SELECT id FROM orders",
    "every 10 minutes",
    "on demand",
    "* * * * *",
    '{"change": "DropTable", "table": "visits"}',
    '[{"change": "AddColumn"}]',
    '{"a": 1}',
    "[1, 2]",
    '["Oslo", "2024-01-01"]',
    '"x"',
    "webhook:https://127.0.0.1:1/",
    "zip=string",
    "a=",
    "'; --",
]
REFS = ["main", "dev", "v1", "main~1", "main~3", "totals", "large", "dev~1"]
TABLES = ["orders", "visits", "cities"]
NAMES = ["main", "dev", "totals", "large", "notes", "new", "x/y"]
QUERIES = ["SELECT city, count(*) AS n FROM orders GROUP BY city", *TEXTS]
LIKELY = {
    **dict.fromkeys(("before", "after", "ref", "at", "source", "into"), REFS),
    **dict.fromkeys(("name", "view", "keep", "to"), NAMES),
    **dict.fromkeys(("statement", "sql", "changes"), QUERIES),
    **dict.fromkeys(("table", "forward"), TABLES),
    "key": ["1", "2", "Oslo", "Oslo,2024-01-01", '["Oslo", "2024-01-01"]', "id", "city"],
    "files": ["cities.csv", "cities.json", "bad.csv", "absent.csv"],
    "file": ["statements.sql", "absent.sql", "bad.csv"],
    "when": ["immediate", "deferred", "on demand", "every 10 minutes", "never"],
    "condition": ["max_changed_share(0.2)", "no_nulls(city)", "x", "max_changed_share("],
    "alert": ["log:", "webhook:https://127.0.0.1:1/", "x"],
    "number": ["0", "1", "2", "-1"],
    "types": ["city=string", "id=int", "city=date", "x=y", "id"],
    "on_conflict": ["ours", "theirs", "fail", "orders.amount=theirs", "orders=ours"],
}
GARBAGE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), max_size=12)
WORD = st.one_of(st.sampled_from(WORDS), st.sampled_from(TEXTS), GARBAGE)


def lines(command: Any) -> st.SearchStrategy[list[str]]:
    """Lines that suit the parameters of a command, for the most part."""
    if hasattr(command, "commands") and command.commands:
        inner = [
            lines(each).map(lambda w, n=name: [n, *w]) for name, each in command.commands.items()
        ]
        return st.one_of(*inner, options(command), st.just([]))
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    words = st.tuples(*(word(p) for p in arguments)).map(list)
    fewer = words.flatmap(lambda w: st.integers(0, len(w)).map(lambda n: w[:n]))
    both = st.tuples(st.one_of(words, words, fewer), options(command), STRAY)
    return both.map(lambda parts: [w for part in parts for w in part])


def word(parameter: Any) -> st.SearchStrategy[str]:
    """A value for a parameter: one of its choices, if it has any, or anything."""
    choices = [str(choice.value) for choice in parameter.type_descriptor.choices or ()]
    likely = st.sampled_from(choices or LIKELY.get(parameter.name, WORDS))
    return st.one_of(likely, likely, likely, WORD)


def options(command: Any) -> st.SearchStrategy[list[str]]:
    """Some options of a command, each with a value if it takes one."""
    known = [
        p
        for p in command.params
        if p.param_type_name == "option" and not {"--watch", "--host"} & {*p.opts}
    ]
    if not known:
        return st.just([])
    each = [
        st.just([p.opts[0]])
        if p.is_flag
        else word(p).map(lambda value, name=p.opts[0]: [name, value])
        for p in known
    ]
    return st.lists(st.one_of(each), max_size=3).map(lambda parts: [w for p in parts for w in p])


STRAY = st.one_of(st.just([]), st.just([]), st.just([]), st.lists(WORD | st.sampled_from(STRAYS)))
GROUP = typer.main.get_command(app)
LINE = st.one_of(
    *(lines(GROUP.get_command(None, name)).map(lambda w, n=name: [n, *w]) for name in FUZZED),
    st.lists(WORD, min_size=1, max_size=3),
)
FORM = st.sampled_from([[], ["-o", "json"], ["-o", "csv"], ["-o", "text"]])
BRANCH = st.sampled_from([[], [], ["--branch", "dev"], ["--branch", "totals"], ["--branch", ""]])


@pytest.fixture(scope="module")
def place(shop_made: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("inner") / "fuzz"
    folder.mkdir()
    shutil.copytree(shop_made, folder / "shop.ldb")
    (folder / "cities.csv").write_text("id,city\n1,Oslo\n2,Bodø\n")
    (folder / "cities.json").write_text('[{"id": 1, "city": "Oslo"}]')
    (folder / "bad.csv").write_bytes(b'id,"ci\xff\n1\n,2,3\n"')
    (folder / "statements.sql").write_text("SELECT 1; DELETE FROM orders WHERE id = 1")

    def refuse(*_: Any, **__: Any) -> None:
        raise Unsupported("there is no Spark here")

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.delenv("LIVINGDB", raising=False)
        patched.setattr("livingdb.spark.start_session._start", refuse)
        # Who serves waits for a signal, which comes at once here.
        patched.setattr(StopSignal, "wait", lambda stop, _seconds: stop.ask())
        yield folder


@settings(
    max_examples=tries(500),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(form=FORM, branch=BRANCH, words=LINE, stdin=WORD)
def test_no_line_breaks_it(
    place: Path, form: list[str], branch: list[str], words: list[str], stdin: str
) -> None:
    line = [*form, *branch, *words]
    told = tell(*line, db=place / "shop.ldb", stdin=stdin)
    assert told.code in CODES, (line, told)
    assert "Traceback" not in told.err
    assert told.err or told.code in {0, 1, 6}


@settings(
    max_examples=tries(100),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(db=WORD | st.sampled_from(["postgresql://127.0.0.1:1/x", "s3://", "cities.csv", "file:"]))
def test_no_place_breaks_it(place: Path, db: str) -> None:
    told = tell("log", db=db)
    assert told.code in CODES
    assert "Traceback" not in told.err
