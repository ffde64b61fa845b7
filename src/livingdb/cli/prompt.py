"""A prompt for SQL: several lines until a semicolon, history, completion, a few words of its own.

Errors are told and end nothing; Ctrl-C takes back what was typed or stops what runs, Ctrl-D ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer, Completion
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from livingdb.cli.commands.sql import tell_result
from livingdb.cli.exits import is_interrupt
from livingdb.cli.interrupts import exit_on_second_interrupt
from livingdb.cli.output import Format
from livingdb.cli.statements import is_complete, statements
from livingdb.cli.tell_errors import tell_error, tell_usage
from livingdb.database.sql_session import SqlSession
from livingdb.errors import LivingDBError

if TYPE_CHECKING:
    from livingdb import Branch, Database
    from livingdb.cli.open_database import Settings

__all__ = ["prompt"]

HISTORY_VARIABLE = "LIVINGDB_HISTORY"
_WORDS = """
    ADD ALTER AND AS ASC BETWEEN BY CASE CAST COLUMN COUNT CREATE CROSS DEFAULT DELETE DESC DISTINCT
    DROP ELSE END EXISTS FALSE FROM FULL GROUP HAVING IN INNER INSERT INTO IS JOIN KEEP KEY LEFT
    LIKE LIMIT MATCHED MATERIALIZED MERGE NOT NULL OF ON OR ORDER OUTER OVER PARTITION PRIMARY
    RENAME RIGHT SELECT SET SUM SYNC TABLE THEN TIMESTAMP TO TRUE UNION UPDATE USING VALUES VERSION
    VIEW WHEN WHERE WITH
"""
KEYWORDS = _WORDS.split()
HELP = """\
SQL ends with a semicolon and may go over several lines.
.tables         the tables of the branch
.schema TABLE   the columns of a table, and its key
.views          the views of the branch
.branches       the branches
.use BRANCH     work on another branch
.timer on|off   tell how long each statement takes
.help           this
.quit           the end (so are exit, quit and Ctrl-D)"""


def prompt(db: Database, settings: Settings, limit: int) -> None:
    """Ask for statements and run them until there are no more."""
    _Prompt(db, settings, limit).run()


class _Prompt:
    def __init__(self, db: Database, settings: Settings, limit: int):
        self.db = db
        self.statements = SqlSession(db, settings.open_branch(db))
        self.is_timed = False
        self.output = settings.output()
        self.limit = limit
        self.is_over = False
        self.session: PromptSession[str] = PromptSession(
            history=_history(),
            completer=_Words(self),
            complete_while_typing=False,
            multiline=Condition(self._is_incomplete),
            prompt_continuation=lambda width, _line, _soft: "→ ".rjust(width),
        )

    @property
    def branch(self) -> Branch:
        """Where statements run."""
        return self.statements.branch

    def _is_incomplete(self) -> bool:
        """Whether what stands at the prompt is no whole statement yet."""
        text = self.session.default_buffer.text
        return not (text.lstrip().startswith(".") or _is_end(text) or is_complete(text))

    def run(self) -> None:
        while not self.is_over:
            try:
                sign = "*>" if self.statements.is_open else ">"
                text = self.session.prompt(f"{self.branch.name}{sign} ").strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            try:
                self.answer(text)
            except (LivingDBError, OSError) as error:
                tell_error(error, self.output.kind)
            except (KeyboardInterrupt, RuntimeError) as error:
                if not is_interrupt(error):
                    raise
                typer.echo("interrupted", err=True)

    def answer(self, text: str) -> None:
        """Run what was typed."""
        if text.startswith("."):
            self._run_word(*text.rstrip(";").split(maxsplit=1))
            return
        if _is_end(text):
            self.is_over = True
            return
        for statement in statements(text):
            start = perf_counter()
            with exit_on_second_interrupt():
                result = self.statements.execute(statement)
            tell_result(self.output, statement, result, self.limit)
            if self.is_timed:
                typer.echo(f"{perf_counter() - start:.3f} s", err=True)

    def _run_word(self, word: str, rest: str = "") -> None:
        """One of the prompt's own words."""
        name = rest.strip()
        if word == ".tables":
            self.output.write_list(("table",), [{"table": each} for each in self.branch.tables()])
        elif word == ".views":
            shown = self.branch.sql("SHOW VIEWS").to_arrow()
            self.output.write_list(
                ("view", "when", "state"),
                [{**row, "view": row["name"]} for row in shown.to_pylist()],
            )
        elif word == ".timer" and name.lower() in ("on", "off"):
            self.is_timed = name.lower() == "on"
        elif word == ".branches":
            rows = [{"branch": each.name, "head": each.head.id} for each in self.db.branches()]
            self.output.write_list(("branch", "head"), rows, ("head",))
        elif word == ".schema" and name:
            self._show_schema(name)
        elif word == ".use" and name:
            self.statements.execute(f"USE BRANCH `{name}`")
        elif word in (".quit", ".exit"):
            self.is_over = True
        elif word != ".help" and self.output.kind is Format.json:
            tell_usage(f"{word} is not understood here; .help tells what is")
        else:
            typer.echo(HELP, err=word != ".help")

    def _show_schema(self, name: str) -> None:
        from livingdb.tables.type_names import type_name

        table = self.branch.table(name)
        rows = [
            {
                "column": field.name,
                "type": type_name(field.type),
                "nullable": field.nullable,
                "key": field.name in table.key,
            }
            for field in table.schema
        ]
        self.output.write_list(("column", "type", "nullable", "key"), rows)


def _is_end(text: str) -> bool:
    """Whether somebody says good-bye, as at any other prompt."""
    return text.strip().rstrip(";").strip().lower() in ("exit", "quit")


def _history() -> History:
    """What was typed before: $LIVINGDB_HISTORY, or a file among the user's state."""
    given = os.environ.get(HISTORY_VARIABLE)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    file = Path(given) if given else Path(state) / "livingdb" / "history"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError as error:
        typer.echo(f"livingdb: nothing typed here is remembered: {error}", err=True)
        return InMemoryHistory()
    return FileHistory(str(file))


class _Words(Completer):
    """Completes keywords, tables, columns, branches, and the prompt's own words."""

    def __init__(self, prompt: _Prompt):
        self._prompt = prompt

    def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
        """What the word before the cursor may become."""
        word = document.get_word_before_cursor(WORD=False)
        line = document.text_before_cursor.lstrip()
        if line.startswith(".") and " " not in line:
            words = tuple(line.split()[0] for line in HELP.splitlines()[1:])
            yield from (Completion(w, -len(line)) for w in words if w.startswith(line))
            return
        if not word or word.isspace():
            return
        for name in sorted(self._names()):
            if name.startswith(word):
                yield Completion(name, -len(word))
        for keyword in KEYWORDS:
            if keyword.startswith(word.upper()):
                shown = keyword if word.isupper() else keyword.lower()
                yield Completion(shown, -len(word))

    def _names(self) -> set[str]:
        """Branches, tables and columns there are; none if they cannot be read now."""
        try:
            head = self._prompt.branch.head
            tables = head.tables()
            columns = {name for table in tables for name in head.table(table).schema.names}
            return {*map(str, self._prompt.db.branches()), *tables, *columns}
        except LivingDBError:
            return set()
