"""Tools that change rows and schemas, on the agent's own branch and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from livingdb.errors import InvalidData
from livingdb.server.http.json_values import rows_to_tabular
from livingdb.server.mcp.call import Answer
from livingdb.server.mcp.session import AgentSession
from livingdb.server.mcp.statements import ChangeKind, change_kind
from livingdb.server.mcp.tools.parameters import Message, TableName

if TYPE_CHECKING:
    from livingdb.database.branch import Branch

__all__ = ["WorkTools"]


class WorkTools:
    """Changes on a branch that is the agent's own."""

    def __init__(self, session: AgentSession):
        self._session = session

    def start_work(
        self,
        task: Annotated[
            str,
            Field(description="What you are going to do, in a line for people.", max_length=500),
        ],
        source: Annotated[
            str | None,
            Field(description="The ref to start from. Left out: the default branch."),
        ] = None,
    ) -> Answer:
        """Make the branch that is yours: a copy of a ref that costs nothing and disturbs nobody.

        A session has one such branch, and all its changes go there. Call it before the first change
        if you want to start from another ref than the default branch. Calling it again tells which
        branch it is.
        """
        branch, is_new = self._session.begin(source, task)
        return {
            "branch": branch.name,
            "source": self._session.source(branch),
            "head": branch.head.id[:12],
            "note": "" if is_new else "it was there already: go on with it",
        }

    def change(
        self,
        statements: Annotated[
            list[str],
            Field(
                description="INSERT, UPDATE, DELETE, MERGE INTO or CREATE TABLE … AS SELECT in "
                "Spark's SQL, one a text: all of them are one transaction. Or, alone, one CREATE "
                "TABLE, ALTER TABLE or DROP TABLE.",
                min_length=1,
            ),
        ],
        message: Message,
    ) -> Answer:
        """Change rows or the schema by SQL, on your own branch; all of it, or nothing if one fails.

        Tables are named without a branch. Your branch is made if you have none. Look at what you
        did with diff, take it back with undo. Other branches cannot be written from here.
        """
        limits = self._session.limits
        limits.check("statements", len(statements))
        for text in statements:
            limits.check("sql_characters", len(text))
        kinds = {change_kind(text) for text in statements}
        if ChangeKind.SCHEMA in kinds and len(statements) > 1:
            raise InvalidData(
                "CREATE, ALTER and DROP TABLE stand alone: make one call for each of them"
            )
        branch, _ = self._session.begin(task=message)
        if kinds == {ChangeKind.SCHEMA}:
            done = branch.sql(statements[0], message=message, author=self._session.author)
            return _changed(branch, done.snapshot, None)
        with branch.transaction(message, self._session.author) as tx:
            count = sum(tx.sql(text).changed for text in statements)
        return _changed(branch, tx.snapshot, count)

    def change_rows(
        self,
        table: TableName,
        operation: Annotated[
            Literal["insert", "upsert", "update", "delete"],
            Field(
                description="insert: keys must be new; upsert: put in place of rows with the same "
                "keys; update: key and the columns to set; delete: the key columns alone."
            ),
        ],
        rows: Annotated[
            list[dict[str, Any]],
            Field(
                description="The rows, as objects by column name. Dates and times as ISO 8601 "
                "texts, decimals as texts, binary as base64.",
                min_length=1,
            ),
        ],
        message: Message,
    ) -> Answer:
        """Change rows that you have at hand, on your own branch; all of them, or none.

        Values are taken as they are, so there is nothing to quote. For what can be computed from
        rows that are there, `change` with SQL is shorter.
        """
        self._session.limits.check("given_rows", len(rows))
        branch, _ = self._session.begin(task=message)
        given = rows_to_tabular(rows, branch.table(table).schema)
        said = {"message": message, "author": self._session.author}
        made = getattr(branch, operation)(table, given, **said)
        return _changed(branch, made, len(rows))

    def undo(
        self,
        message: Message,
        snapshot: Annotated[
            str | None,
            Field(description="The id of the commit to undo. Left out: the newest of your branch."),
        ] = None,
    ) -> Answer:
        """Undo what one commit of your branch changed, by a new commit; nothing is lost.

        Rows that were changed since are a conflict, and then nothing is undone.
        """
        branch = self._session.own_branch()
        author = self._session.author
        made = branch.revert(snapshot or branch.name, message=message, author=author)
        return _changed(branch, made, None)

    def catch_up(
        self,
        on_conflict: Annotated[
            Literal["fail", "ours", "theirs"],
            Field(
                description="Where both changed one row: fail tells the rows and changes nothing, "
                "ours keeps what your branch has, theirs takes what the source has."
            ),
        ] = "fail",
    ) -> Answer:
        """Bring what changed on the source since you began onto your own branch.

        Use it when preview_merge shows conflicts, or when your branch is old. The source itself is
        not changed.
        """
        branch = self._session.own_branch()
        source = self._session.target(branch, None)
        made = self._session.database.merge(
            source,
            branch.name,
            on_conflict,
            message=f"what changed on {source}",
            author=self._session.author,
        )
        return _changed(branch, made, None)


def _changed(branch: Branch, made: object | None, count: int | None) -> Answer:
    return {
        "branch": branch.name,
        "snapshot": None if made is None else str(made)[:12],
        "rows_changed": count,
        "note": "nothing was to be changed" if made is None else "",
    }
