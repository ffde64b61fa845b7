"""Statements about branches, tags, views and syncs, and those that begin and end transactions.

CREATE BRANCH b [FROM ref]      DROP BRANCH [IF EXISTS] b    MERGE BRANCH a INTO b
CREATE TAG t [AT ref]           DROP TAG [IF EXISTS] t       USE BRANCH b
REFRESH VIEW v                  ALTER SYNC s DETACH | REATTACH | RESUME | SET WHEN 'every 1 hour'
CREATE MERGE REQUEST a INTO b [TITLE 'text']
ALTER MERGE REQUEST 7 APPROVE | COMMENT 'text' | CLOSE | REOPEN | MERGE
BEGIN [TRANSACTION] [ISOLATION LEVEL SNAPSHOT | SERIALIZABLE]      COMMIT      ROLLBACK
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from livingdb.sql.clause_reader import ClauseReader
from livingdb.sql.parse import tokenize

__all__ = ["SESSION_ACTIONS", "DatabaseStatement", "parse_database_statement"]

_MAY_BE = re.compile(
    r"\b(?:branch|tag|sync|request|refresh|use|begin|start|commit|rollback)\b", re.IGNORECASE
)
"""Most texts are queries, and need not be read for their first words."""
SESSION_ACTIONS = ("BEGIN", "COMMIT", "ROLLBACK", "USE BRANCH")
"""What holds for the statements that follow, where statements follow each other."""
_FORMS = {
    "CREATE BRANCH": "write CREATE BRANCH name [FROM ref]",
    "DROP BRANCH": "write DROP BRANCH [IF EXISTS] name",
    "MERGE BRANCH": "write MERGE BRANCH name INTO name",
    "USE BRANCH": "write USE BRANCH name",
    "CREATE TAG": "write CREATE TAG name [AT ref]",
    "DROP TAG": "write DROP TAG [IF EXISTS] name",
    "REFRESH VIEW": "write REFRESH VIEW name",
    "ALTER SYNC": "write ALTER SYNC name DETACH | REATTACH | RESUME | SET WHEN 'every 1 hour'",
    "CREATE MERGE": "write CREATE MERGE REQUEST name INTO name [TITLE 'text']",
    "ALTER MERGE": (
        "write ALTER MERGE REQUEST number APPROVE | COMMENT 'text' | CLOSE | REOPEN | MERGE"
    ),
    "BEGIN": "write BEGIN [TRANSACTION] [ISOLATION LEVEL SNAPSHOT | SERIALIZABLE]",
    "COMMIT": "write COMMIT [TRANSACTION]",
    "ROLLBACK": "write ROLLBACK [TRANSACTION]",
}
_OTHERS = {"REFRESH": "REFRESH VIEW", "USE": "USE BRANCH", "START": "BEGIN"}
"""What begins with a word that only one of these begins with."""


@dataclass(frozen=True)
class DatabaseStatement:
    """What is to be done, with what, and what more was said: a ref, a branch, a time, a level.

    An action is one of the words above; those of ALTER are its last word and what it is about.
    """

    action: str
    name: str = ""
    argument: str | None = None
    if_exists: bool = False
    text: str = ""


def parse_database_statement(text: object) -> DatabaseStatement | None:
    """What a statement says; None if it is another one.  `InvalidData` for a word too many."""
    if not isinstance(text, str) or not _MAY_BE.search(text):
        return None
    tokens = [token.text.upper() for token in tokenize(text)[:2]]
    action = next((form for form in _FORMS if tokens[: len(form.split())] == form.split()), None)
    if action is None and tokens:
        action = _OTHERS.get(tokens[0])
    if action is None:
        return None
    reader = ClauseReader(text, "")
    form = _FORMS[action]
    words = ("START", "TRANSACTION") if tokens[0] == "START" else tuple(action.split())
    if action.endswith(" MERGE"):
        words = (*words, "REQUEST")
    if not reader.take(*words):
        raise reader.unsupported("this is not possible", form)
    reader.title = action
    reader.begin_clause()
    if action.endswith(" MERGE"):
        found = _about_a_request(reader, action, form)
    elif " " in action:
        found = _about_a_name(reader, action, form)
    else:
        found = _about_a_transaction(reader, action, form)
    if not reader.is_done:
        raise reader.unknown(form)
    return found


def _about_a_name(reader: ClauseReader, action: str, form: str) -> DatabaseStatement:
    if_exists = action.startswith("DROP") and reader.take("IF", "EXISTS")
    name = _value(reader, "the name", form)
    if action == "ALTER SYNC":
        return _alter_sync(reader, name, form)
    argument = None
    if action == "MERGE BRANCH":
        reader.expect("INTO", instead=form)
        argument = _value(reader, "the branch to merge into", form)
    elif (action == "CREATE BRANCH" and reader.take("FROM")) or (
        action == "CREATE TAG" and reader.take("AT")
    ):
        argument = _value(reader, "the ref", form)
    return DatabaseStatement(action, name, argument, if_exists)


def _alter_sync(reader: ClauseReader, name: str, form: str) -> DatabaseStatement:
    word = reader.take_one("DETACH", "REATTACH", "RESUME")
    if word is not None:
        return DatabaseStatement(f"{word} SYNC", name)
    reader.expect("SET", "WHEN", instead=form)
    when = [_value(reader, "when it runs", form)]
    while not reader.is_done:  # every 1 hour, without quotes
        when.append(_value(reader, "when it runs", form))
    return DatabaseStatement("SET SYNC WHEN", name, " ".join(when))


def _about_a_request(reader: ClauseReader, action: str, form: str) -> DatabaseStatement:
    if action == "CREATE MERGE":
        source = _value(reader, "the branch", form)
        reader.expect("INTO", instead=form)
        target = _value(reader, "the branch to merge into", form)
        text = _value(reader, "the title", form) if reader.take("TITLE") else ""
        return DatabaseStatement("CREATE MERGE REQUEST", source, target, text=text)
    number = _value(reader, "the number", form)
    word = reader.take_one("APPROVE", "COMMENT", "CLOSE", "REOPEN", "MERGE")
    if word is None:
        raise reader.unknown(form)
    text = _value(reader, "the comment", form) if word == "COMMENT" else ""
    return DatabaseStatement(f"{word} REQUEST", number, text=text)


def _about_a_transaction(reader: ClauseReader, action: str, form: str) -> DatabaseStatement:
    reader.take_one("TRANSACTION", "WORK")
    level = None
    if action == "BEGIN" and reader.take("ISOLATION", "LEVEL"):
        level = reader.take_one("SNAPSHOT", "SERIALIZABLE")
        if level is None:
            raise reader.unknown(form)
    return DatabaseStatement(action, argument=None if level is None else level.lower())


def _value(reader: ClauseReader, what: str, form: str) -> str:
    found = reader.take_value()
    if found is None:
        raise reader.unknown(f"{what} is missing: {form}")
    return found
