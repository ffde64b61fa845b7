"""The database a command works on, and how it tells what it did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from livingdb.cli.output import Format, Output

if TYPE_CHECKING:
    from livingdb import Branch, Database

__all__ = ["Engine", "EngineName", "Message", "Settings", "Trust"]

Trust = Annotated[
    list[str] | None,
    typer.Option("--trust", help="Functions it may run, like 'shop.*'; may be given again."),
]
Message = Annotated[
    str, typer.Option("-m", "--message", help="What the log says about it.", show_default=False)
]


class EngineName(StrEnum):
    """Who may compute."""

    spark = "spark"
    embedded = "embedded"
    auto = "auto"


Engine = Annotated[
    EngineName | None,
    typer.Option("--engine", help="Who computes what was derived without saying so."),
]


@dataclass(frozen=True)
class Settings:
    """What was said before the command: where the database is, which branch, and how to tell."""

    db: str | None = None
    format: Format = Format.text
    branch: str | None = None

    @classmethod
    def of(cls, context: typer.Context) -> Settings:
        """Those of a command that runs."""
        return context.find_object(cls) or cls()

    def database_url(self) -> str:
        """Where the database is; bad usage if nobody said so."""
        if not self.db:
            raise typer.BadParameter(
                "which database? Say livingdb --db PATH, or set LIVINGDB", param_hint="--db"
            )
        return self.db

    def open(
        self, trust: Sequence[str] | None = None, engine: EngineName | None = None
    ) -> Database:
        """The database; bad usage if nobody said which one."""
        place = self.database_url()
        import livingdb

        chosen = None if engine is None else engine.value
        return livingdb.open(place, trust=trust or (), engine=chosen)

    def open_branch(self, db: Database) -> Branch:
        """The branch to work on."""
        return db.branch(self.branch_name(db))

    def branch_name(self, db: Database) -> str:
        """What the branch to work on is called: as was said, or else the default branch."""
        return db.default_branch.name if self.branch is None else self.branch

    def output(self) -> Output:
        """Who tells."""
        return Output(self.format)
