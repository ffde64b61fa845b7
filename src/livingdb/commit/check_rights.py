"""Whether who proposes a change may make it: on every branch that it writes, and its group.

A change needs its right on each branch that it moves and on all that are in two-way syncs with it.
Rules of merge-only branches hold for the whole group.  What a one-way sync carries from there is
the sync's own doing, which runs with the rights of who made it: see `sync_owners`.

Whatever changes what people may do raises the epoch of the catalog, which every commit compares:
so rights are those of the moment at which the change is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from livingdb.access.acting import Acting, acting, forbidden_error, in_step_with
from livingdb.access.audit import note_action
from livingdb.access.roles import Role
from livingdb.access.user import User, read_user
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.merge_requests import MERGE_ONLY
from livingdb.catalog.pending_note import note_under_way
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.sync_owners import owned_by
from livingdb.commit.drop_branch import DroppedBranch
from livingdb.commit.proposal import Proposal, have_same_schemas
from livingdb.errors import Forbidden
from livingdb.graph.catalog_changes import (
    CatalogChange,
    DroppedSync,
    NewBranch,
    NewSync,
    RedefinedSync,
)
from livingdb.graph.draft import Action, Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.index import Version

__all__ = ["Rights"]


class Rights:
    """Looks at what people may do to the branches of a graph."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known = _Known("", {}, {})

    def checked(self, proposal: Proposal) -> Proposal:
        """The proposal, if who acts here may make it: with a word of who that was.

        `Forbidden` names the right that is missing.
        """
        who = acting(self._graph)
        if who is None:
            note = note_under_way(self._graph.catalog.queries)
            actions = proposal.actions if note is None else [*proposal.actions, note.write]
            return proposal if note is None else replace(proposal, actions=actions)
        known = self._at(_epoch(self._graph, proposal))
        return _Check(self._graph, who, known, proposal).checked()

    def check_rows(self, who: Acting, branch: BranchRow, author: str) -> Action:
        """Whether somebody may write rows to a branch that is in no sync; what is noted of it."""
        return self._check_of_rows(who, branch, author).check()

    def check_statement(self, branch: BranchRow, author: str, role: Role) -> None:
        """`Forbidden` unless who acts here may write to a branch, as it is now, what takes a role.

        A commit looks once more.  One that was dropped has the rights that it had.
        """
        who = acting(self._graph)
        if who is not None:
            now = self._graph.branches.by_id(branch.id) or branch
            self._check_of_rows(who, now, author).check_statement(role)

    def _check_of_rows(self, who: Acting, branch: BranchRow, author: str) -> _Check:
        intent = Intent((), (branch,), "transaction", "", author, "", {})
        return _Check(self._graph, who, self._at(branch.epoch), Proposal([intent]))

    def check_write(
        self, branch: BranchRow, role: Role, is_merge: bool = False, is_asked: bool = False
    ) -> None:
        """`Forbidden` if who acts here may not do to a branch what takes a role.

        `is_merge`: it is a merge, and `is_asked`: one that was asked for.
        """
        who = acting(self._graph)
        if who is None:
            return
        write = _Write(branch, role, f"write to {branch.name!r}", "", is_merge, is_asked)
        _Check(self._graph, who, self._at(branch.epoch), Proposal()).check_write(write)

    def _at(self, epoch: str) -> _Known:
        """Rules and users as of an epoch."""
        if self._known.epoch != epoch:
            self._known = _Known(epoch, self._graph.catalog.merge_requests.rules(), {})
        return self._known


@dataclass(frozen=True)
class _Known:
    """The rules of branches, and users with what is granted to them, as of an epoch."""

    epoch: str
    rules: Mapping[BranchId, Mapping[str, Any]]
    users: dict[str, User]

    def user(self, graph: Graph, user: User) -> User:
        """A user as it is then; `Forbidden` if it is none any more."""
        if not user.id:
            return user
        if user.id not in self.users:
            person = graph.catalog.people.by_id(user.id)
            if person is None:
                raise Forbidden(f"{user.name} is no user any more")
            self.users[user.id] = read_user(graph.catalog, person)
        return self.users[user.id]


def _epoch(graph: Graph, proposal: Proposal) -> str:
    """The epoch in which the branches of a proposal were seen, or the one that is now."""
    rows = [branch for intent in proposal.snapshots for branch in intent.moves]
    rows += [move.branch for move in proposal.moves]
    return rows[0].epoch if rows else graph.catalog.epoch()


@dataclass(frozen=True)
class _Write:
    """A branch that is written: which role that takes, and whether it is a merge."""

    branch: BranchRow
    role: Role
    what: str
    action: str
    is_merge: bool = False
    request: bool = False


class _Check:
    """One proposal of one user."""

    def __init__(self, graph: Graph, who: Acting, known: _Known, proposal: Proposal):
        self._graph = graph
        self._who = who
        self._user = known.user(graph, who.user)
        self._rules = known.rules
        self._proposal = proposal

    def checked(self) -> Proposal:
        """The proposal, whose syncs are owned by who proposes it, and which is noted."""
        note = self.check()
        changes = [owned_by(change, self._user) for change in self._proposal.changes]
        return replace(self._proposal, changes=changes, actions=[*self._proposal.actions, note])

    def check(self) -> Action:
        """`Forbidden` if the user may not make it; what is noted of it."""
        self._check_author()
        done: list[tuple[str, str]] = []
        for write in self._writes():
            self.check_write(write)
            done.append((write.action, write.branch.name))
        for change in self._proposal.changes:
            self._check_change(change)
            if isinstance(change, NewBranch):
                done.append(("make branch", change.name))
        return note_action(self._graph, self._user, done)

    def check_statement(self, role: Role) -> None:
        """`Forbidden` if the user may not make it, were it of what takes that role."""
        self._check_author()
        for write in self._writes():
            self.check_write(replace(write, role=max(write.role, role)))

    def _check_author(self) -> None:
        """Who acts is the author of the last snapshot, which is what is asked for."""
        authors = [one.author for one in self._proposal.snapshots[-1:]]
        authors += [c.author for c in self._proposal.changes if isinstance(c, NewBranch)]
        for author in authors:
            if author and author != self._user.name:
                raise Forbidden(
                    f"{self._user.name} may not commit as {author!r}: the author is who acts"
                )

    # --- branches that move ------------------------------------------------------------------

    def _writes(self) -> Iterator[_Write]:
        """What is written directly."""
        intents = [draft.intent for draft in self._proposal.drafted]
        intents += list(self._proposal.snapshots)
        role, made = Role.WRITER, dict[str, Version | None]()
        base: Mapping[str, Address] = {}
        for intent in intents:
            if not intent.on_previous:
                role, made = Role.WRITER, {}
                base = self._graph.tables(intent.parents[0]) if intent.parents else {}
            role = max(role, self._role_of(intent, base, made))
            made |= intent.tables
            is_merge, is_asked = intent.kind == "merge", "request" in intent.details
            for branch in intent.moves:
                what = _WORDS.get(intent.kind, "write")
                yield _Write(
                    branch, role, f"{what} {branch.name!r}", intent.kind, is_merge, is_asked
                )
        for move in self._proposal.moves:
            is_merge = move.operation == "merge"
            role = Role.MAINTAINER
            if is_merge and self._is_same(self._graph.snapshots.at(move.branch.head), move.to):
                role = Role.WRITER
            what = f"{'merge into' if is_merge else move.operation} {move.branch.name!r}"
            yield _Write(move.branch, role, what, move.operation, is_merge)

    def _role_of(
        self, intent: Intent, base: Mapping[str, Address], made: Mapping[str, Version | None]
    ) -> Role:
        """Rows take a writer; whatever makes, drops or changes tables takes a maintainer.

        `base` are the tables before, and `made` those that came between.
        """
        if intent.kind not in ("transaction", "merge"):
            return Role.MAINTAINER
        require = self._graph.versions.require
        for name, version in intent.tables.items():
            old = made[name] if name in made else require(base[name]) if name in base else None
            if is_hidden(name) or (old is None and version is None):
                continue
            if old is None or version is None or old.definition != version.definition:
                return Role.MAINTAINER
        return Role.WRITER

    def _is_same(self, before: SnapshotRow, after: SnapshotRow) -> bool:
        return have_same_schemas(tables_of(self._graph, before), tables_of(self._graph, after))

    def check_write(self, write: _Write) -> None:
        """`Forbidden` if the user may not write a branch, or what is in step with it, so."""
        for branch in (write.branch, *in_step_with(self._graph, write.branch)):
            rule = self._rules.get(branch.id, {})
            role = write.role
            if rule.get(MERGE_ONLY):
                if not write.is_merge:
                    raise Forbidden(
                        f"{self._user.name} may not {write.what}: {self._shown(branch)} takes "
                        "merges only; write to a branch of your own, and db.request_merge(…)"
                    )
                role = max(role, Role.MAINTAINER)
            if (
                write.is_merge
                and not write.request
                and (rule.get("approvals") or rule.get("checks"))
            ):
                raise Forbidden(
                    f"{self._user.name} may not {write.what}: merges into {self._shown(branch)} "
                    "are asked for first: db.request_merge(…)"
                )
            self._who.check_role(self._user, role, branch, write.what)

    def _shown(self, branch: BranchRow) -> str:
        """A branch by its name, if the user sees it."""
        return repr(branch.name) if self._who.sight.sees(branch) else "what is in step with it"

    # --- branches and syncs ------------------------------------------------------------------

    def _check_change(self, change: CatalogChange) -> None:
        if isinstance(change, NewBranch) and not is_hidden(change.name):
            if not self._user.may(Role.WRITER, change.name):
                raise forbidden_error(
                    self._user, f"make the branch {change.name!r}", Role.WRITER, change.name
                )
        elif isinstance(change, NewSync | RedefinedSync):
            self._check_sync(change.row)
            if isinstance(change, NewSync):
                self._check_merges_only(change.row)
        elif isinstance(change, DroppedBranch):
            self._check_drop(change.branch)
        elif isinstance(change, DroppedSync):
            for row in self._graph.catalog.syncs.by_ids([change.id]):
                self._check_sync(row)

    def _check_drop(self, branch: BranchRow) -> None:
        """To drop a branch takes a maintainer, and one that has a rule its owner."""
        role = Role.OWNER if self._rules.get(branch.id) else Role.MAINTAINER
        if not self._user.may(role, branch.name):
            raise forbidden_error(self._user, f"drop {branch.name!r}", role, branch.name)

    def _check_sync(self, row: SyncRow) -> None:
        """A sync takes a maintainer of what it writes, who reads all that it comes from."""
        names = self._names_of({*row.sources, row.target})
        written = names.keys() if row.direction == "both" else row.written_branches
        for end, name in names.items():
            if is_hidden(name):
                continue
            what = f"sync {' + '.join(names.get(one, '?') for one in row.sources)} with {name!r}"
            if end in written and not self._user.may(Role.MAINTAINER, name):
                raise forbidden_error(self._user, what, Role.MAINTAINER, name)

    def _check_merges_only(self, row: SyncRow) -> None:
        """What takes merges only is not written by a new one-way sync either."""
        for end in row.written_branches:
            if self._rules.get(end, {}).get(MERGE_ONLY):
                name = self._names_of({end}).get(end, "?")
                raise Forbidden(
                    f"{self._user.name} may not let a sync write {name!r}: it takes merges only"
                )

    def _names_of(self, ids: set[BranchId]) -> Mapping[BranchId, str]:
        new = {c.id: c.name for c in self._proposal.changes if isinstance(c, NewBranch)}
        return {
            **self._graph.branches.names_of(ids - new.keys()),
            **{one: name for one, name in new.items() if one in ids},
        }


_WORDS = {
    "transaction": "write to",
    "merge": "merge into",
    "schema_change": "change the schema of",
    "derive": "define",
    "clone": "make",
    "propagate": "bring up to date",
}
"""What an edge of each kind does to a branch."""
