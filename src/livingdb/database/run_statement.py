"""Does what SQL says about branches, tags, views and syncs; names are taken in any case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from livingdb.database.snapshot import Snapshot
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.sql.database_statements import SESSION_ACTIONS, DatabaseStatement
from livingdb.tables.letter_case import check_clear, find_alike

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database

__all__ = ["own_name", "run_statement"]


def run_statement(
    branch: Branch, statement: DatabaseStatement, message: str, author: str | None
) -> Snapshot | None:
    """Run it on a branch; the snapshot it made, or the one that it is about."""
    database = branch.database
    action, name, said = statement.action, statement.name, statement.argument
    if action in SESSION_ACTIONS:
        raise Unsupported(
            f"{action} holds for the statements that follow: at the prompt and in the scripts of "
            "`livingdb sql`; in Python, write with branch.transaction() as tx, and db.branch(name)"
        )
    if action in ("DROP BRANCH", "DROP TAG"):
        _drop(database, statement)
        return None
    if action == "CREATE BRANCH":
        ref = branch.name if said is None else _ref(database, said)
        if ref in database.branches():
            return database.branch(ref).clone(name, message=message, author=author).head
        return database.at(ref).clone(name, message=message, author=author).head
    if action == "CREATE TAG":
        return database.tag(name, branch.name if said is None else _ref(database, said))
    if action == "MERGE BRANCH":
        source, target = (_branch(database, each) for each in (name, str(said)))
        return database.merge(source, target, message=message, author=author)
    if action.endswith(" REQUEST"):
        return _request(database, statement, author)
    if action == "REFRESH VIEW":
        made = database.refresh(_branch(database, name, "view"))
        return made.snapshot
    _alter_sync(database, statement, author)
    return None


def _drop(database: Database, statement: DatabaseStatement) -> None:
    name, is_branch = statement.name, statement.action == "DROP BRANCH"
    names = map(str, database.branches()) if is_branch else database.tags()
    found = own_name("branch" if is_branch else "tag", name, names)
    if found is None:
        if statement.if_exists:
            return
        raise NotFound(f"there is no {'branch' if is_branch else 'tag'} {name!r}")
    if is_branch:
        database.drop_branch(found)
    else:
        database.drop_tag(found)


def _request(
    database: Database, statement: DatabaseStatement, author: str | None
) -> Snapshot | None:
    """Ask for a merge, or do something with what was asked for."""
    if statement.action == "CREATE MERGE REQUEST":
        source, target = (
            _branch(database, each) for each in (statement.name, str(statement.argument))
        )
        database.request_merge(source, target, statement.text, author=author)
        return None
    if not statement.name.isdecimal():
        raise InvalidData(f"{statement.name!r}: merge requests have numbers; SHOW MERGE REQUESTS")
    found = database.merge_request(int(statement.name))
    if statement.action == "MERGE REQUEST":
        return found.merge(by=author)
    if statement.action == "COMMENT REQUEST":
        found.comment(statement.text, by=author)
    elif statement.action == "APPROVE REQUEST":
        found.approve(by=author)
    elif statement.action == "CLOSE REQUEST":
        found.close(by=author)
    else:
        found.reopen(by=author)
    return None


def _alter_sync(database: Database, statement: DatabaseStatement, author: str | None) -> None:
    names = {name for sync in database.syncs() for name in (sync.name, sync.target)}
    sync = database.sync(own_name("sync", statement.name, names) or statement.name)
    if statement.action == "DETACH SYNC":
        sync.detach(by=author)
    elif statement.action == "REATTACH SYNC":
        sync.reattach(by=author)
    elif statement.action == "RESUME SYNC":
        sync.resume(by=author)
    else:
        sync.alter(when=statement.argument, by=author)


def _branch(database: Database, name: str, what: str = "branch") -> str:
    found = own_name(what, name, map(str, database.branches()))
    if found is None:
        raise NotFound(f"there is no {what} {name!r}")
    return found


def _ref(database: Database, ref: str) -> str:
    """A ref with the own name of the branch or tag that it begins with."""
    begin = ref
    for sign in "~@":
        begin = begin.partition(sign)[0]
    known = [*map(str, database.branches()), *database.tags()]
    found = own_name("branch", begin, known) if begin else None
    return ref if found is None else found + ref[len(begin) :]


def own_name(what: str, name: str, names: Iterable[str]) -> str | None:
    """What a thing is called itself, by a name that may differ in case; None if there is none.

    `InvalidData` if it could be more than one.
    """
    known = list(names)
    if name in known:
        return name
    check_clear(what, name, known)
    alike = find_alike(name, known)
    return alike[0] if alike else None
