"""A merge request as users see it: a wish that others look at before it comes true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from livingdb.access.audit import DONE, entry
from livingdb.access.roles import Role
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.merge_requests import CLOSED, OPEN, STATES, MergeEventRow, MergeRequestRow
from livingdb.database.snapshot import Snapshot, check_limit
from livingdb.errors import InvalidData, MergeConflict, NotFound, RuleViolation
from livingdb.graph.graph import now
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.tables.visible_names import check_visible

if TYPE_CHECKING:
    from livingdb.commit.merging.merge_request import MergeRule
    from livingdb.database.comparing import MergePreview
    from livingdb.database.database import Database
    from livingdb.database.diff import SnapshotDiff

__all__ = [
    "MergeCheck",
    "MergeNote",
    "MergeRequest",
    "every_merge_request",
    "find_merge_request",
    "merge_rule",
    "request_merge",
    "set_merge_rule",
]

_COMMENT, _APPROVE, _CLOSE, _REOPEN = "comment", "approve", "close", "reopen"


@dataclass(frozen=True)
class MergeNote:
    """What somebody said or did about a request.

    `kind` is comment, approve, close, reopen or merge; `head` is where the source was.
    """

    kind: str
    author: str
    time: datetime
    text: str
    head: str


@dataclass(frozen=True)
class MergeCheck:
    """A condition of the target: whether the change meets it, and if not, what is wrong."""

    text: str
    holds: bool
    problem: str | None
    action: str


def request_merge(
    database: Database,
    source: object,
    into: object,
    title: str,
    description: str,
    author: str | None,
) -> MergeRequest:
    """Ask for a merge; `RuleViolation` if a request of the same branches is open already."""
    graph = database._graph
    ends = [graph.branch(str(name)) for name in (source, into)]
    if ends[0].id == ends[1].id:
        raise InvalidData(f"{ends[0].name!r} is not merged into itself")
    _check_text("title", title)
    check_visible("title", title)
    _check_text("description", description)
    names = {"source": ends[0].name, "target": ends[1].name}
    who = database._author_of(author)
    database._require(Role.WRITER, ends[0].name, f"ask for a merge of {ends[0].name!r}")
    requests = graph.catalog.merge_requests
    with graph.catalog.write() as connection:
        for row in requests.all(OPEN):
            if (row.source, row.target) == (ends[0].id, ends[1].id):
                raise RuleViolation(
                    f"merge request {row.number} asks for that already: {row.title!r}"
                )
        number = requests.add(
            connection,
            {
                "source": ends[0].id,
                "target": ends[1].id,
                "title": title or f"merge {ends[0].name} into {ends[1].name}",
                "description": description,
                "author": who,
                "time": now(),
                "details": names,
            },
        )
        database._note_in(connection, "request merge", number)
    return find_merge_request(database, number)


def find_merge_request(database: Database, number: int) -> MergeRequest:
    """The request of that number."""
    is_number = isinstance(number, int) and 0 < number < 2**63
    row = database._graph.catalog.merge_requests.find(number) if is_number else None
    if row is None:
        raise NotFound(f"there is no merge request {number}")
    return MergeRequest(database, row)


def every_merge_request(
    database: Database, state: str | None, limit: int | None, before: int | None
) -> list[MergeRequest]:
    """Requests, newest first; in a state, if one is given, and before the one of a number."""
    if state is not None and state not in STATES:
        raise InvalidData(f"state={state!r}: choose one of {', '.join(STATES)}")
    page = check_limit(limit), check_limit(before, "before")
    rows = database._graph.catalog.merge_requests.all(state, *page)
    return [MergeRequest(database, row) for row in rows]


def merge_rule(database: Database, branch: object) -> MergeRule:
    """What a branch asks of requests that lead to it."""
    from livingdb.commit.merging.merge_request import MergeRule

    graph = database._graph
    return MergeRule.of(graph.catalog.merge_requests.rule(graph.branch(str(branch)).id))


def set_merge_rule(
    database: Database, branch: object, approvals: int, checks: object, merge_only: bool | None
) -> None:
    """Let a branch ask for approvals and conditions; for nothing, if none are given."""
    from livingdb.guard.judge import guard_of

    if not isinstance(approvals, int) or isinstance(approvals, bool) or approvals < 0:
        raise InvalidData(
            f"approvals={approvals!r}: say how many people have to approve, 0 or more"
        )
    conditions = guard_of(checks, None).get("conditions", [])
    for one in conditions:
        if one.get("action") == "quarantine":
            raise InvalidData(f"{one['text']}: a merge is taken as a whole, no rows are set aside")
    if merge_only is not None:
        _check_merge_only(merge_only)

    def changed(rule: MergeRule) -> MergeRule:
        only = rule.merge_only if merge_only is None else merge_only
        return replace(rule, approvals=approvals, checks=conditions, merge_only=only)

    _write_rule(database, branch, changed)


def set_merge_only(database: Database, branch: object, merge_only: bool) -> None:
    """Let a branch take merges only, or not."""
    _check_merge_only(merge_only)
    _write_rule(database, branch, lambda rule: replace(rule, merge_only=merge_only))


def _check_merge_only(given: object) -> None:
    if not isinstance(given, bool):
        raise InvalidData(f"merge_only={given!r}: say True or False")


def _write_rule(
    database: Database, branch: object, change: Callable[[MergeRule], MergeRule]
) -> None:
    """Change the rule of a branch: the next commit knows it."""
    from livingdb.commit.merging.merge_request import MergeRule

    graph = database._graph
    row = graph.branch(str(branch))
    database._require(Role.OWNER, row.name, f"set the rule of {row.name!r}")
    requests = graph.catalog.merge_requests
    with graph.catalog.write() as connection:
        rule = change(MergeRule.of(requests.rule(row.id, connection)))
        requests.set_rule(connection, row.id, rule.to_json())
        noted = entry(database.author, "set rule", row.name, DONE, rule.to_json())
        graph.catalog.audit.add(connection, [noted])
        graph.catalog.raise_epoch(connection)


def _check_text(what: str, given: object) -> None:
    if not isinstance(given, str):
        raise InvalidData(f"a {what} is a text, not {type(given).__name__}")
    if "\0" in given:
        raise InvalidData(f"a {what} holds a null character")


class MergeRequest:
    """A wish that a branch be merged into another; each question is answered as things are now."""

    def __init__(self, database: Database, row: MergeRequestRow):
        self._database = database
        self._row = row

    @property
    def number(self) -> int:
        """Its number."""
        return self._row.number

    @property
    def title(self) -> str:
        """What it is about, in a line."""
        return self._row.title

    @property
    def description(self) -> str:
        """What it is about, at length."""
        return self._row.description

    @property
    def author(self) -> str:
        """Who asked."""
        return self._row.author

    @property
    def time(self) -> datetime:
        """When, in UTC."""
        return to_datetime(self._row.time)

    @property
    def source(self) -> str:
        """The branch that is to be merged, by its name now or the last that is known."""
        return self._name("source", self._row.source)

    @property
    def target(self) -> str:
        """The branch that it is to be merged into."""
        return self._name("target", self._row.target)

    @property
    def state(self) -> str:
        """open, merged or closed."""
        return self._now().state

    @property
    def snapshot(self) -> Snapshot | None:
        """The merge; None if it was not merged."""
        number = self._now().snapshot
        if number is None:
            return None
        return Snapshot(self._database, self._database._graph.snapshots.at(number))

    @property
    def notes(self) -> list[MergeNote]:
        """All that was said and done, in order."""
        return [_note(one) for one in self._events()]

    @property
    def comments(self) -> list[MergeNote]:
        """What was said."""
        return [note for note in self.notes if note.kind == _COMMENT]

    @property
    def approvals(self) -> list[MergeNote]:
        """Who approved what the source is now; what was approved before it changed is not meant."""
        head = self._source_head()
        return [note for note in self.notes if note.kind == _APPROVE and note.head == head]

    # --- looking -----------------------------------------------------------------------------

    def preview(self, on_conflict: Any = "fail", granularity: str = "row") -> MergePreview:
        """What the merge would do: conflicts, changes and schema changes; nothing is written."""
        source, target = self._ends()
        return self._database.preview_merge(source.name, target.name, on_conflict, granularity)

    def diff(self) -> SnapshotDiff:
        """What the source changed since it parted from the target."""
        source, target = (self._database.at(row.name) for row in self._ends())
        base = self._database.merge_base(target, source)
        return self._database.diff(target if base is None else base, source)

    def checks(self) -> list[MergeCheck]:
        """The conditions of the target, judged now; `MergeConflict` if there are conflicts."""
        from livingdb.commit.merging.merge_request import judge_request
        from livingdb.guard.judge import conditions_of

        source, target = self._ends()
        theirs = self._database._graph.snapshots.at(source.head)
        judged = judge_request(self._database._pipeline, self._row, target, theirs)
        if judged is None:
            return []
        broken = {one.text: verdict for one, verdict in judged.broken}
        return [
            MergeCheck(
                one.text,
                one.text not in broken,
                broken[one.text].problem if one.text in broken else None,
                one.action,
            )
            for one in conditions_of(judged.pending.sync)
        ]

    def problems(self) -> list[str]:
        """What stands in the way of the merge, in words; nothing if it can be merged."""
        from livingdb.commit.merging.merge_request import rule_in_step

        found: list[str] = []
        if self.state != OPEN:
            return [f"it is {self.state}"]
        try:
            rule = rule_in_step(self._database._whole_graph, self._ends()[1])
        except RuleViolation as error:
            return [str(error)]
        missing = rule.missing_approvals(self._row, self._events(), self._source_head())
        if missing:
            found.append(f"{missing} more approval{'s are' if missing > 1 else ' is'} needed")
        seen = self.preview()
        found += [f"{table}: rows are in conflict" for table in sorted(seen.conflicts)]
        found += [seen.refusal] if seen.refusal else []
        if not found or not seen.conflicts:
            try:
                failed = [c for c in self.checks() if not c.holds and c.action != "warn"]
            except MergeConflict as error:
                return [*found, str(error)]
            found += [f"{check.text}: {check.problem}" for check in failed]
        return found

    # --- acting ------------------------------------------------------------------------------

    def comment(self, text: str, by: str | None = None) -> None:
        """Say something about it."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidData("a comment is a text with something in it")
        self._add(_COMMENT, text, by)

    def approve(self, by: str | None = None, note: str = "") -> None:
        """Agree with what the source is now.

        It counts for that alone: once the source changes, it is to be approved anew.  What its
        own author says does not count where the target asks for approvals.
        """
        _check_text("note", note)
        self._add(_APPROVE, note, by, OPEN)

    def close(self, by: str | None = None, reason: str = "") -> None:
        """End it without a merge."""
        _check_text("reason", reason)
        self._add(_CLOSE, reason, by, OPEN, CLOSED)

    def reopen(self, by: str | None = None, reason: str = "") -> None:
        """Ask again, after it was closed."""
        _check_text("reason", reason)
        self._add(_REOPEN, reason, by, CLOSED, OPEN)

    def merge(
        self,
        by: str | None = None,
        on_conflict: Any = "fail",
        granularity: str = "row",
        message: str = "",
    ) -> Snapshot:
        """Merge it, if the target's rule allows; the merge, whose edge has the request's record."""
        from livingdb.commit.merging import merge as merging
        from livingdb.commit.merging.merge_request import OpenRequest
        from livingdb.graph.rules import Write, check_write

        database = self._database
        source, target = self._ends()
        resolved = database._resolve(target.name)
        check_write(Write(resolved.branch, target.name))
        who = database._author_of(by)
        row = merging.merge(
            database._pipeline,
            source.name,
            target.name,
            merging.MergeOptions(on_conflict, granularity, fast_forward=False),
            who,
            message or self.title,
            OpenRequest(database._pipeline, self._now(), who),
        )
        return Snapshot(database, row)

    def __repr__(self) -> str:
        return f"MergeRequest({self.number}, {self.source!r} into {self.target!r}, {self.state})"

    # --- inside ------------------------------------------------------------------------------

    def _now(self) -> MergeRequestRow:
        found = self._database._graph.catalog.merge_requests.find(self.number)
        assert found is not None  # requests are never dropped
        return found

    def _events(self) -> list[MergeEventRow]:
        return self._database._graph.catalog.merge_requests.events(self.number)

    def _name(self, end: str, branch: str) -> str:
        found = self._database._graph.branches.by_id(branch)
        return str(self._row.details[end]) if found is None else found.name

    def _ends(self) -> tuple[BranchRow, BranchRow]:
        """The source and the target as they are now; `NotFound` if one was dropped."""
        graph = self._database._graph
        found = graph.branches_by_ids([self._row.source, self._row.target])
        for end, branch in (("source", self._row.source), ("target", self._row.target)):
            if branch not in found:
                raise NotFound(
                    f"the branch {self._row.details[end]!r} was dropped: merge request "
                    f"{self.number} can only be closed"
                )
        return found[self._row.source], found[self._row.target]

    def _source_head(self) -> str:
        graph = self._database._graph
        found = graph.branches.by_id(self._row.source)
        return "" if found is None else graph.snapshots.at(found.head).address.hex()

    def _check_right(self, kind: str, who: str) -> None:
        """To agree takes a writer of the target; to end it, who asked or a maintainer there."""
        role = Role.WRITER if kind == _APPROVE else Role.MAINTAINER
        if kind == _COMMENT or (kind != _APPROVE and who == self.author):
            return
        self._database._require(role, self.target, f"{kind} merge request {self.number}")

    def _add(
        self,
        kind: str,
        text: str,
        by: str | None,
        needed: str | None = None,
        after: str | None = None,
    ) -> None:
        """Write down what somebody says or does; `RuleViolation` if its state is another."""
        from livingdb.commit.merging.merge_request import ended_error

        graph = self._database._graph
        graph.check_writable()
        who = self._database._author_of(by)
        self._check_right(kind, who)
        requests, head = graph.catalog.merge_requests, self._source_head()
        with graph.catalog.write() as connection:
            row = requests.find(self.number, connection)
            assert row is not None
            if needed is not None and row.state != needed:
                raise (
                    ended_error(row)
                    if needed == OPEN
                    else RuleViolation(f"merge request {row.number} is {row.state}, not {needed}")
                )
            if after is not None:
                requests.set_state(connection, self.number, row.state, after)
            event: Mapping[str, Any] = {
                "request": self.number,
                "time": now(),
                "kind": kind,
                "author": who,
                "text": text,
                "head": head,
            }
            requests.add_event(connection, event)
            self._database._note_in(connection, f"{kind} merge request", self.number)


def _note(row: MergeEventRow) -> MergeNote:
    return MergeNote(row.kind, row.author, to_datetime(row.time), row.text, row.head)
