"""ALTER TABLE: every spelling is made as it is meant, or refused by what is not understood."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from tests.thinned import thinned
from tests.unit.sql.alter_cases import CASES, Case
from tests.unit.sql.alter_meaning import BASE, ROWS, base_tables, describe, describe_statement

import livingdb
from livingdb.errors import InvalidData, LivingDBError, NotFound, Unsupported
from livingdb.evolution.plan import definitions_of
from livingdb.graph.graph import tables_of
from livingdb.sql.alter_forms import FORMS, REFUSED
from livingdb.sql.parse import tokenize
from livingdb.sql.table_statements import parse_schema_statement

ALL = [case for cases in CASES.values() for case in cases]
TABLES = base_tables()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path_factory.mktemp("alter") / "shop.ldb") as db:
        main = db.branch("main")
        main.evolve(list(BASE))
        for table, rows in ROWS.items():
            main.insert(table, rows)
        yield db


@pytest.fixture
def branch(
    prepared: livingdb.Database, request: pytest.FixtureRequest
) -> Iterator[livingdb.Branch]:
    """A branch with the tables, which goes with all that the test makes."""
    before = {branch.name for branch in prepared.branches()}
    yield prepared.branch("main").clone("tried")
    for made in [made for made in prepared.branches() if made.name not in before]:
        prepared.drop_branch(made.name, detach=True)


def schemas(branch: livingdb.Branch) -> dict[str, str]:
    """What the schemas of a branch say."""
    graph = branch.database._graph
    found = definitions_of(graph, tables_of(graph, branch._head()))
    return {name: describe(definition.schema) for name, definition in found.items()}


# --- what is made ------------------------------------------------------------------------------


def test_each_form_has_cases() -> None:
    assert [form for form in FORMS if not CASES.get(form)] == []
    assert set(CASES) - set(FORMS) == {"several clauses"}


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.text)
def test_statements_mean_what_they_say(branch: livingdb.Branch, case: Case) -> None:
    """One snapshot for all clauses, with the schema and the rows that are meant."""
    assert describe_statement(case.text, TABLES) == case.description
    before = branch.head.id
    made = branch.sql(case.text).snapshot
    if made is None:
        assert "EXISTS" in case.text
        made = branch.head
        assert made.id == before
    else:
        assert made.edge.kind == "schema_change"
    rows = branch.database.at(made.id).table(case.table).to_arrow().to_pylist()
    assert [tuple(row.values()) for row in rows] == list(case.rows)
    assert not branch.database.check().problems


def test_both_sides_of_a_sync_stay_in_step(branch: livingdb.Branch) -> None:
    """Several clauses are one two-way sync, which takes writes of either side."""
    branch.sql(
        "ALTER TABLE t ADD COLUMN x INT DEFAULT 1 FIRST, RENAME c TO note, DROP CONSTRAINT pair, "
        "ALTER a SET DEFAULT 9 SYNC BOTH KEEP old"
    )
    old = branch.database.branch("old")
    assert schemas(old)["t"] == describe(TABLES["t"].schema)
    branch.insert("t", [{"id": 3, "b": 5, "note": "n", "d": "Oslo"}])
    old.insert("t", [{"id": 4, "a": 4, "b": 4, "c": "m", "d": None}])
    old.update("t", [{"id": 1, "c": "later"}])
    assert branch.table("t").to_arrow().to_pylist() == [
        {"x": 1, "id": 1, "a": 7, "b": 10, "note": "later", "d": "Oslo"},
        {"x": 1, "id": 2, "a": 8, "b": 20, "note": None, "d": None},
        {"x": 1, "id": 3, "a": 9, "b": 5, "note": "n", "d": "Oslo"},
        {"x": 1, "id": 4, "a": 4, "b": 4, "note": "m", "d": None},
    ]
    assert old.table("t").get(3) == {"id": 3, "a": 9, "b": 5, "c": "n", "d": "Oslo"}


def test_types_change_both_ways(branch: livingdb.Branch) -> None:
    """A value that the old type does not hold is refused."""
    branch.sql("ALTER TABLE t CHANGE b bb BIGINT, ALTER c TYPE INT USING length(c) KEEP none")
    branch.sql("ALTER TABLE t MODIFY bb INT NOT NULL SYNC BOTH KEEP wide")
    wide = branch.database.branch("wide")
    branch.update("t", [{"id": 1, "bb": 5}])
    assert wide.table("t").get(1) == {"id": 1, "a": 7, "bb": 5, "c": 4, "d": "Oslo"}
    with pytest.raises(LivingDBError, match="does not fit int"):
        wide.update("t", [{"id": 1, "bb": 1 << 40}])


def test_later_clauses_see_what_earlier_ones_made(branch: livingdb.Branch) -> None:
    branch.sql(
        "ALTER TABLE t RENAME a TO x, ADD COLUMN a INT GENERATED ALWAYS AS (x + 1), RENAME TO u, "
        "ADD CONSTRAINT more CHECK (a > x), MODIFY c STRING FIRST, DROP COLUMN IF EXISTS c, DROP d"
    )
    assert schemas(branch)["u"] == (
        "id bigint, x int not null, b int = 3, a int as (x + 1); key id; check small (`x` < 100); "
        "check more (a > x); unique pair (x, b)"
    )


def test_names_of_foreign_keys_stay(branch: livingdb.Branch) -> None:
    """A foreign key keeps its name: when its column has another, elsewhere, after a revert."""
    branch.sql("ALTER TABLE t ADD CONSTRAINT town FOREIGN KEY (c) REFERENCES cities")
    branch.sql("ALTER TABLE t RENAME c TO e")
    copy = branch.clone("copy")
    with pytest.raises(InvalidData, match="'town' already"):
        copy.sql("ALTER TABLE t ADD CONSTRAINT town CHECK (a > 0)")
    with pytest.raises(InvalidData, match="'town' already"):
        copy.sql("ALTER TABLE t ADD CONSTRAINT town UNIQUE (b)")
    dropped = copy.sql("ALTER TABLE t DROP CONSTRAINT town").snapshot
    assert "town" not in schemas(copy)["t"]
    copy.revert(dropped.id)
    assert "link town e to cities" in schemas(copy)["t"]
    assert "link town e to cities" in schemas(branch)["t"]
    branch.sql("ALTER TABLE t DROP COLUMN e")
    branch.sql("ALTER TABLE t ADD CONSTRAINT town CHECK (a > 0)")


def test_names_of_foreign_keys_come_with_a_merge(branch: livingdb.Branch) -> None:
    """Also from a branch that is in step with another, and to a column of another name."""
    database = branch.database
    other = branch.clone("other")
    other.sql(
        "ALTER TABLE t ADD CONSTRAINT town FOREIGN KEY (c) REFERENCES cities SYNC BOTH KEEP v1"
    )
    branch.sql("ALTER TABLE t RENAME c TO e")
    database.merge("other", into=branch.name)
    assert "link town e to cities" in schemas(branch)["t"]
    with pytest.raises(LivingDBError):
        database.branch("v1").update("t", [{"id": 1, "c": "nowhere"}])
    branch.sql("ALTER TABLE t DROP FOREIGN KEY town")
    assert "town" not in schemas(branch)["t"]
    assert not database.check(deep=True).problems


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("beginning", REFUSED)
def test_clauses_that_there_are_not_are_refused_by_name(beginning: str) -> None:
    for rest in ("", " x", " ('a' = 'b')", " = 5"):
        text = f"ALTER TABLE t {beginning}{rest}"
        with pytest.raises(Unsupported) as caught:
            describe_statement(text, TABLES)
        assert f"{beginning}{rest}: {beginning} is not possible" in str(caught.value)
        assert REFUSED[beginning] in str(caught.value)


REFUSALS = [
    ("ADD COLUMN x INT COMMENT 'c'", Unsupported, "hold no comments"),
    ("ALTER COLUMN a COMMENT 'c'", Unsupported, "hold no comments"),
    ("ADD COLUMN x INT IDENTITY", Unsupported, "GENERATED BY DEFAULT AS IDENTITY"),
    ("ADD COLUMN x INT GENERATED ALWAYS AS IDENTITY (CACHE 5)", InvalidData, "INCREMENT BY"),
    ("ADD COLUMN x INT GENERATED BY DEFAULT AS (a)", InvalidData, "always computed"),
    ("MODIFY b INT AUTO_INCREMENT", Unsupported, "'b' cannot be made GENERATED"),
    ("MODIFY b INT AS (a)", Unsupported, "'b' cannot be made GENERATED"),
    ("ADD COLUMN x INT AS (a) VIRTUAL", Unsupported, "VIRTUAL"),
    ("ADD COLUMN x INT UNSIGNED", Unsupported, "UNSIGNED"),
    ("ADD COLUMN x STRING COLLATE UTF8_BINARY", Unsupported, "COLLATE"),
    ("ADD COLUMN x TIMESTAMP(3)", Unsupported, "TIMESTAMP"),
    ("ADD COLUMN x FOO", Unsupported, "ADD COLUMN x FOO.*no type 'foo'"),
    ("ADD COLUMN IF NOT EXISTS b FOO", Unsupported, "no type 'foo'"),
    ("ADD COLUMN x", InvalidData, "'x' has no type"),
    ("ADD COLUMN x NOT NULL", InvalidData, "'x' has no type"),
    ("ADD COLUMN x INT NOT NULL NULL", InvalidData, "said twice"),
    ("ADD COLUMN x INT DEFAULT a + 1", Unsupported, "'a \\+ 1' is no value"),
    ("ADD COLUMN x INT DEFAULT current_date()", Unsupported, "a default is a value"),
    ("ADD COLUMN x INT DEFAULT 'many'", InvalidData, "does not fit"),
    ("ADD COLUMN x INT PRIMARY KEY", InvalidData, "DROP PRIMARY KEY, ADD PRIMARY KEY"),
    ("ADD COLUMN x.y INT", Unsupported, "fields of a struct"),
    ("ADD COLUMN x INT CONSTRAINT n NOT NULL", Unsupported, "CONSTRAINT n"),
    ("ADD COLUMN x STRING REFERENCES cities (size)", Unsupported, "is \\(name\\)"),
    ("ADD COLUMN x STRING REFERENCES cities ON DELETE CASCADE", Unsupported, "ON DELETE CASCADE"),
    ("ADD COLUMN x INT FIRST AFTER a", InvalidData, "said twice"),
    ("ADD COLUMN x INT AFTER y", NotFound, "'y'"),
    ("ADD COLUMN x INT AFTER x", InvalidData, "after itself"),
    ("ADD COLUMN x INT banana", InvalidData, "'banana' is not understood"),
    ("ADD COLUMN x INT,", InvalidData, "ends too early"),
    ("ADD COLUMN 'x' INT", InvalidData, "name of a column"),
    ("ADD PRIMARY KEY (a)", InvalidData, "DROP PRIMARY KEY, ADD PRIMARY KEY \\(a\\)"),
    ("DROP PRIMARY KEY", Unsupported, "needs a key"),
    ("DROP PRIMARY KEY, ADD CONSTRAINT k PRIMARY KEY (a)", Unsupported, "has no name"),
    ("ADD CONSTRAINT f FOREIGN KEY (a, b) REFERENCES cities", Unsupported, "one column"),
    ("ADD FOREIGN KEY (c) REFERENCES towns", NotFound, "'towns'"),
    ("ADD CHECK (a > 0) NOT ENFORCED", Unsupported, "NOT ENFORCED"),
    ("ADD CHECK (a > 0) NOT VALID", Unsupported, "NOT VALID"),
    ("ADD CHECK a > 0", InvalidData, "CHECK \\(condition\\)"),
    ("ADD CHECK (a >)", InvalidData, "'a >' cannot be read"),
    ("ADD CONSTRAINT small CHECK (a > 0)", InvalidData, "'small' already"),
    ("ADD CONSTRAINT one UNIQUE two (a)", InvalidData, "'one' and 'two'"),
    ("ADD UNIQUE (a) USING BTREE", Unsupported, "USING"),
    ("DROP COLUMN c CASCADE", Unsupported, "CASCADE"),
    ("DROP COLUMN a", InvalidData, "check 'small'"),
    ("DROP COLUMN x", NotFound, "'x'"),
    ("DROP CONSTRAINT x", NotFound, "small, pair"),
    ("DROP CHECK pair", NotFound, "there are: small"),
    ("DROP FOREIGN KEY c", NotFound, "there are: d"),
    ("RENAME COLUMN c TO d", InvalidData, "'d' already"),
    ("RENAME COLUMN c d", InvalidData, "TO is missing"),
    ("ADD COLUMN x INT, rename STRING", InvalidData, "RENAME TO name"),
    ("RENAME TO main.u", Unsupported, "main"),
    ("ALTER COLUMN c", InvalidData, "ends too early"),
    ("ALTER COLUMN c TYPE", InvalidData, "'c' has no type"),
    ("ALTER COLUMN b TYPE BIGINT NOT NULL", InvalidData, "'NOT NULL' is not understood"),
    ("ALTER COLUMN b SET STATISTICS 5", InvalidData, "'SET STATISTICS 5' is not understood"),
    ("ALTER COLUMN c SET NOT NULL", InvalidData, "null|NULL"),
    ("MODIFY b INT", InvalidData, "already"),
    ("MODIFY x INT", NotFound, "'x'"),
    ("CHANGE b", InvalidData, "name of a column"),
    ("CHANGE b d INT", InvalidData, "'d' already"),
    ("REPLACE COLUMNS (a INT, b INT)", InvalidData, "in the key"),
    ("REPLACE COLUMNS (id BIGINT, A INT, a INT, b INT)", InvalidData, "twice"),
    ("REPLACE (id BIGINT)", InvalidData, "not understood"),
    ("DROP COLUMN c SYNC SIDEWAYS", InvalidData, "'SYNC SIDEWAYS' is not understood"),
    ("DROP COLUMN c KEEP", InvalidData, "name of a branch"),
    ("DROP COLUMN c; DROP TABLE t", InvalidData, "one statement"),
    ("", InvalidData, "ends too early"),
    ("FROBNICATE", InvalidData, "a clause begins with|'FROBNICATE' has no type"),
]


@pytest.mark.parametrize(("clause", "error", "words"), REFUSALS, ids=str)
def test_what_is_not_possible_is_refused(
    branch: livingdb.Branch, clause: str, error: type[LivingDBError], words: str
) -> None:
    """Nothing of the statement is done then, whatever stands before it."""
    before, head = schemas(branch), branch.head.id
    for text in (f"ALTER TABLE t {clause}", f"ALTER TABLE t ADD COLUMN seen INT, {clause}"):
        with pytest.raises(error, match=words):
            branch.sql(text)
    assert (schemas(branch), branch.head.id) == (before, head)


def test_other_things_are_refused_by_name(branch: livingdb.Branch) -> None:
    for text, words in (
        ("ALTER DATABASE shop SET x = 1", "ALTER DATABASE"),
        ("ALTER VIEW t AS SELECT 1", "ALTER VIEW"),
        ("ALTER INDEX i RENAME TO j", "ALTER INDEX"),
        ("CREATE UNIQUE INDEX i ON t (a)", "ALTER TABLE … ADD UNIQUE"),
        ("COMMENT ON TABLE t IS 'x'", "COMMENT"),
        ("COMMENT ON COLUMN t.a IS 'x'", "COMMENT"),
        ("ALTER TABLE main.t DROP c", "main"),
    ):
        with pytest.raises(Unsupported, match=words):
            branch.sql(text)
    with pytest.raises(NotFound, match="'nothing'"):
        branch.sql("ALTER TABLE nothing DROP c")


# --- every word counts -------------------------------------------------------------------------

NOISE = {
    *("COLUMN", "COLUMNS", "TO", "AS", "KEY", "INDEX", "STORED", "RESTRICT", "ENFORCED", "ONLY"),
    *("PRECISION", ":", "NULL", ";", "CONSTRAINT", "DATE"),
}
"""Words that may be left out of some clauses, which then say the same."""
STRANGE = ("banana", "`banana`", "'banana'", "banana()", ".banana", "banana,")
MISPLACED = (
    *("NOT", "CASCADE", "COMMENT", "VIRTUAL", "DEFAULT", "5", "'x'", "IF", "EXISTS", "ADD", "DROP"),
    *("TYPE", "USING a", "CHECK", "UNIQUE", "REFERENCES", "FIRST", "SYNC", "KEEP", "(", ")", ","),
)


def spans_of(text: str) -> list[tuple[int, int]]:
    """Where the words and signs of a statement begin and end."""
    found = {(token.start, token.end + 1) for token in tokenize(text)}
    whole = [(at, end) for at, end in found if re.fullmatch(r"\w+(?:\s+\w+)+", text[at:end])]
    for at, end in whole:
        found.remove((at, end))
        found |= {
            (at + word.start(), at + word.end()) for word in re.finditer(r"\w+", text[at:end])
        }
    return sorted(found)


def may_go(text: str, start: int, end: int) -> bool:
    """Whether a statement may say the same without a word."""
    word, before, after = text[start:end].upper(), text[:start].rstrip(), text[end:].lstrip()
    goes_on = before.endswith(",") and word in ("ADD", "DROP", "ALTER")
    return word in NOISE or goes_on or (word == "DEFAULT" and after.startswith("NULL"))


def meaning(text: str) -> str | None:
    """What a statement means; None if it is refused."""
    try:
        return describe_statement(text, TABLES)
    except LivingDBError:
        return None


@pytest.mark.parametrize("case", thinned(ALL), ids=lambda case: case.text)
def test_no_strange_word_is_passed_over(case: Case) -> None:
    """Wherever it stands, the statement is refused, or something is called by it."""
    text = case.text
    for at in [*(start for start, _ in spans_of(text)), len(text)]:
        found = meaning(f"{text[:at]} banana {text[at:]}")
        assert found is None or "banana" in found, (text[at:], found)


@pytest.mark.parametrize("case", thinned(ALL, first=1), ids=lambda case: case.text)
def test_no_word_is_there_for_nothing(case: Case) -> None:
    """Without it, the statement is refused or means something else."""
    text = case.text
    for start, end in spans_of(text):
        found = meaning(f"{text[:start]} {text[end:]}")
        assert found != case.description or may_go(text, start, end), text[start:]


@pytest.mark.parametrize("case", thinned(ALL), ids=lambda case: case.text)
def test_no_word_is_said_twice_for_nothing(case: Case) -> None:
    text = case.text
    for start, end in spans_of(text):
        found = meaning(f"{text[:end]} {text[start:]}")
        is_null = (
            text[:end].upper().endswith("DEFAULT NULL")
        )  # and NULL, which may stand there, too
        assert found != case.description or text[start:end] == ";" or is_null, text[start:]


def reading(text: str) -> str | None:
    """What a statement means, and its clauses, of which IF EXISTS may leave nothing to do."""
    found = meaning(text)
    return None if found is None else f"{found} {parse_schema_statement(text)}"


@pytest.mark.slow
@pytest.mark.parametrize("case", thinned(ALL, first=1), ids=lambda case: case.text)
def test_no_word_in_a_wrong_place_is_passed_over(case: Case) -> None:
    text = case.text
    whole = reading(text)
    for at in [*(start for start, _ in spans_of(text)), len(text)]:
        for word in STRANGE:
            found = reading(f"{text[:at]} {word} {text[at:]}")
            assert found is None or "banana" in found, (word, text[at:], found)
        for word in MISPLACED:
            found = reading(f"{text[:at]} {word} {text[at:]}")
            goes_on = text[:at].rstrip().endswith(",") and word in ("ADD", "DROP")
            assert found != whole or goes_on, (word, text[at:])
