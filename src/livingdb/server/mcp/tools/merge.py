"""Tools that compare, and ask people to merge; none of them merges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from livingdb.errors import Forbidden
from livingdb.server.mcp.answers import rows_answer
from livingdb.server.mcp.call import Answer
from livingdb.server.mcp.session import AgentSession
from livingdb.server.mcp.tools.parameters import Rows

if TYPE_CHECKING:
    from livingdb.database.diff import SnapshotDiff
    from livingdb.database.merge_request import MergeRequest

__all__ = ["MergeTools"]

Into = Annotated[
    str | None,
    Field(description="The branch to merge into. Left out: the one your branch was made from."),
]
Number = Annotated[int, Field(description="The number of the merge request.")]
_SHOWN_REQUESTS = 50
_COMPARED_ROWS = 200_000
"""Rows that differ are laid side by side, before the first of them are told."""


class MergeTools:
    """What the agent's branch changed, and the way from there to a merge."""

    def __init__(self, session: AgentSession):
        self._session = session

    def diff(
        self,
        table: Annotated[
            str | None,
            Field(description="The table whose rows to tell. Left out: all tables, counted."),
        ] = None,
        before: Annotated[
            str | None,
            Field(description="The ref to compare with. Left out: where your branch began."),
        ] = None,
        after: Annotated[
            str | None, Field(description="The ref that is compared. Left out: your own branch.")
        ] = None,
        rows: Rows = None,
    ) -> Answer:
        """What changed between two refs: schema changes, and rows inserted, updated and deleted.

        Without refs it is what you have changed on your branch. Look at it before you request a
        merge: without a table the counts, with one the rows as they were before and are after.
        """
        session, db, limits = self._session, self._session.database, self._session.limits
        if before is None and after is None:
            branch = session.own_branch()
            found = self._own_diff(branch.name, session.target(branch, None), table)
        else:
            wanted = None if table is None else [table]
            found = db.diff(before or session.home, after or session.ref(None), wanted)
        told: dict[str, Any] = {
            "schema_changes": [change.title for change in found.schema],
            "tables": {name: dict(part.summary()) for name, part in found.items()},
            "notes": list(found.notes),
        }
        if table is None:
            return told
        part = next(iter(found.values()), None)
        if part is None:
            return {**told, "note": f"nothing differs in {table!r}"}
        most = min(rows or limits.rows, limits.rows)
        counted = part.summary().total
        told["tables"] = {part.table: dict(part.summary())}
        if counted > _COMPARED_ROWS:
            note = f"{counted:,} rows differ, too many to tell: join both tables in a query"
            return {**told, "note": note}
        more = f"query livingdb.diff('before', 'after', {table!r}) for others of the {counted:,}"
        return {**told, **rows_answer(part.to_arrow().slice(0, most + 1), most, limits, more=more)}

    def _own_diff(self, branch: str, target: str, table: str | None) -> SnapshotDiff:
        db = self._session.database
        base = db.merge_base(branch, target)
        return db.diff(target if base is None else base, branch, None if table is None else [table])

    def preview_merge(self, into: Into = None, rows: Rows = None) -> Answer:
        """What merging your branch would do, and the rows in conflict; nothing is written.

        A conflict is a row that both branches changed since yours began. Settle it with catch_up,
        or by changing the row on your branch, before you request a merge.
        """
        session, limits = self._session, self._session.limits
        branch = session.own_branch()
        target = session.target(branch, into)
        seen = session.database.preview_merge(branch.name, target)
        most = min(rows or 20, limits.rows)
        more = "settle these first"
        conflicts = {
            name: rows_answer(found, most, limits, more=more)
            for name, found in seen.conflicts.items()
        }
        return {
            "into": target,
            "is_clean": seen.is_clean,
            "changes": {name: dict(counts) for name, counts in seen.changes.items()},
            "schema_changes": [change.title for change in seen.schema],
            "conflicts": conflicts or None,
            "schema_conflicts": dict(seen.schema_conflicts) or None,
            "refusal": seen.refusal or None,
        }

    def request_merge(
        self,
        title: Annotated[
            str, Field(description="What is to be merged, in a line.", min_length=1, max_length=200)
        ],
        description: Annotated[
            str,
            Field(
                description="What was changed and why, how it was checked, and what is left open.",
                max_length=10_000,
            ),
        ],
        into: Into = None,
    ) -> Answer:
        """Ask people to look at your branch and to merge it. This is how your work ends.

        It never merges by itself. Look with diff and preview_merge before. Until it is merged or
        closed you can go on changing your branch; what was approved before is then to be approved
        anew.
        """
        session = self._session
        branch = session.own_branch()
        target = session.target(branch, into)
        made = session.database.request_merge(
            branch.name, target, title, description, author=session.author
        )
        return _told(made)

    def merge_requests(
        self,
        number: Annotated[
            int | None, Field(description="One request, with all that was said. Left out: a list.")
        ] = None,
        state: Annotated[
            str | None, Field(description="Of the list: open, merged or closed. Left out: all.")
        ] = None,
    ) -> Answer:
        """Merge requests: what is asked for, what people said and approved, what stands in the way.

        Use it to see whether your request was merged, and what is asked of you.
        """
        db = self._session.database
        if number is None:
            found = db.merge_requests(state)
            more = len(found) - _SHOWN_REQUESTS
            return {
                "requests": [_brief(one) for one in found[:_SHOWN_REQUESTS]],
                "note": f"and {more:,} older ones" if more > 0 else "",
            }
        return _told(db.merge_request(number))

    def comment_merge_request(
        self,
        number: Number,
        text: Annotated[
            str, Field(description="What you have to say.", min_length=1, max_length=5_000)
        ],
    ) -> Answer:
        """Say something about a merge request of your own, in answer to what people asked."""
        session = self._session
        found = session.database.merge_request(number)
        if found.source != session.branch_name:
            raise Forbidden(
                f"merge request {number} is of the branch {found.source!r}, not of yours: an agent "
                "speaks about its own requests"
            )
        found.comment(text, by=session.author)
        return _told(found)


def _brief(one: MergeRequest) -> dict[str, Any]:
    names = ("number", "state", "title", "author", "source", "target", "time")
    return {name: getattr(one, name) for name in names}


def _told(one: MergeRequest) -> dict[str, Any]:
    """A request with what was said and what stands in the way."""
    is_open = one.state == "open"
    return {
        **_brief(one),
        "description": one.description,
        "changes": {n: dict(c) for n, c in one.preview().changes.items()} if is_open else None,
        "in_the_way": one.problems() if is_open else None,
        "notes": [
            {"time": note.time, "author": note.author, "kind": note.kind, "text": note.text}
            for note in one.notes
        ],
        "merged_as": None if one.snapshot is None else one.snapshot.id[:12],
    }
