"""Branches and tags."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from pydantic import Field

from livingdb.database.offered import BranchDeed, BranchDeeds
from livingdb.errors import NotFound
from livingdb.server.http.context import BranchName, Db
from livingdb.server.http.models import (
    Answer,
    Asked,
    Done,
    Granularity,
    OnConflict,
    RoleName,
    SnapshotInfo,
    snapshot_info,
)
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb import Branch, Snapshot

__all__ = ["BranchInfo", "branch_info", "router"]

router = SubjectRouter(prefix="/v1", tags=["refs"])
_PAGE = 100


class BranchInfo(Answer):
    """A branch: a name, and where it is now."""

    name: str = Field(examples=["dev"])
    head: str = Field(description="The id of the snapshot it stands on.")
    time: datetime
    author: str
    message: str
    tables: list[str]
    role: RoleName | None = Field(
        description="That of who asks; null if a derived object was granted by itself."
    )
    may: list[BranchDeed] = Field(
        description="What who asks has the right to do to it: by role, and by the rules of it and "
        "of what two-way syncs join with it."
    )


class Branches(Answer):
    """Branches by name."""

    branches: list[BranchInfo]
    next: str | None = Field(description="What `after` of the next request says.")


class NewBranch(Asked):
    """A new branch, and where it begins."""

    name: str = Field(examples=["dev"])
    from_ref: str | None = Field(None, alias="from", examples=["main"])
    derived: bool | str = Field(
        False, description="Derive on it what is derived on the other, too; or the names' ending."
    )
    message: str = ""


class RenamedBranch(Asked):
    """A branch, and its new name."""

    name: str = Field(examples=["dev"])
    to: str = Field(examples=["dev2"])


class NamedBranch(Asked):
    """A branch."""

    name: str = Field(examples=["main"])


class Movement(Answer):
    """One line of a branch's own log."""

    position: int
    snapshot: str
    time: datetime
    operation: str
    author: str
    message: str


class Movements(Answer):
    """The log of a branch, newest first."""

    movements: list[Movement]
    next: int | None = Field(description="What `before` of the next request says.")


class Reset(Asked):
    """A branch, and where it goes."""

    branch: str = Field(examples=["dev"])
    ref: str = Field(examples=["dev~1"])


class Replay(Asked):
    """A snapshot whose changes are made again, or undone, on a branch."""

    branch: str = Field(examples=["main"])
    ref: str = Field(examples=["dev"])
    on_conflict: OnConflict = "fail"
    granularity: Granularity = "row"
    message: str = ""


class TagInfo(Answer):
    """A name that stays."""

    name: str = Field(examples=["v1"])
    snapshot: str


class Tags(Answer):
    """Tags by name."""

    tags: list[TagInfo]


class NewTag(Asked):
    """A tag, and what it names."""

    name: str = Field(examples=["v1"])
    ref: str = Field(examples=["main"])


def branch_info(branch: Branch, deeds: BranchDeeds | None = None) -> BranchInfo:
    """What is told of a branch."""
    head, deeds = branch.head, deeds or BranchDeeds(branch.database)
    role: Any = deeds.role(branch.name)
    return BranchInfo(
        name=branch.name,
        head=head.id,
        time=head.time,
        author=head.author,
        message=head.message,
        tables=head.tables(),
        role=role,
        may=deeds.of(branch.name),
    )


@router.get("/branches", operation_id="list_branches", summary="Branches")
def list_branches(
    db: Db,
    limit: Annotated[int, Query(ge=1, le=1000)] = _PAGE,
    after: Annotated[str, Query(description="The name to go on after.")] = "",
) -> Branches:
    """Branches by name, a page at a time."""
    found = db.branches(limit, after)
    following = found[-1].name if len(found) == limit else None
    deeds = BranchDeeds(db)
    return Branches(branches=[branch_info(one, deeds) for one in found], next=following)


@router.post("/branches", operation_id="create_branch", summary="A new branch", status_code=201)
def create_branch(body: NewBranch, db: Db) -> BranchInfo:
    """A new branch that stands where a ref does; nothing is copied."""
    origin = db.default_branch.name if body.from_ref is None else body.from_ref
    try:
        begin: Branch | Snapshot = db.branch(origin)
    except NotFound:
        begin = db.at(origin)
    return branch_info(begin.clone(body.name, derived=body.derived, message=body.message))


@router.get("/branch", operation_id="get_branch", summary="One branch")
def get_branch(db: Db, name: BranchName) -> BranchInfo:
    """Where a branch is."""
    return branch_info(db.branch(name))


@router.patch("/branch", operation_id="rename_branch", summary="Another name for a branch")
def rename_branch(body: RenamedBranch, db: Db) -> BranchInfo:
    """Give a branch another name; what follows it, reads it or was made from it goes on."""
    return branch_info(db.rename_branch(body.name, body.to))


@router.delete("/branch", operation_id="drop_branch", summary="Forget a branch")
def drop_branch(
    db: Db,
    name: BranchName,
    detach: Annotated[bool, Query(description="Also if it is in an active sync.")] = False,
    force: Annotated[bool, Query(description="Also if it is the default branch.")] = False,
) -> Done:
    """Forget a branch; its snapshots stay reachable by id."""
    db.drop_branch(name, detach, force)
    return Done()


@router.put("/branch/default", operation_id="set_default_branch", summary="The default branch")
def set_default_branch(body: NamedBranch, db: Db) -> Done:
    """Choose the branch that is meant where none is named."""
    db.set_default_branch(body.name)
    return Done()


@router.get("/branch/movements", operation_id="list_movements", summary="A branch's own log")
def list_movements(
    db: Db,
    name: BranchName,
    limit: Annotated[int, Query(ge=1, le=10_000)] = _PAGE,
    before: Annotated[
        int | None,
        Query(
            ge=0, le=2**62, description="The `position` of a movement, to go on with older ones."
        ),
    ] = None,
) -> Movements:
    """Where a branch was, since when, by whom and why, newest first, a page at a time."""
    found = db.branch(name).movements(limit, before)
    return Movements(
        movements=[
            Movement(
                position=one.position,
                snapshot=one.snapshot.id,
                time=one.time,
                operation=one.operation,
                author=one.author,
                message=one.message,
            )
            for one in found
        ],
        next=found[-1].position if len(found) == limit else None,
    )


@router.post("/branch/reset", operation_id="reset_branch", summary="Move a branch")
def reset_branch(body: Reset, db: Db) -> SnapshotInfo:
    """Move a branch to any snapshot; what it leaves stays reachable by id and time."""
    return snapshot_info(db.branch(body.branch).reset(body.ref))


@router.post("/branch/revert", operation_id="revert_snapshot", summary="Undo a snapshot")
def revert_snapshot(body: Replay, db: Db) -> SnapshotInfo:
    """A new snapshot on a branch that undoes what one snapshot changed."""
    made = db.branch(body.branch).revert(
        body.ref,
        on_conflict=body.on_conflict,
        granularity=body.granularity,
        message=body.message,
    )
    return snapshot_info(made)


@router.post("/branch/cherry-pick", operation_id="cherry_pick_snapshot", summary="Pick a snapshot")
def cherry_pick_snapshot(body: Replay, db: Db) -> SnapshotInfo:
    """A new snapshot on a branch with what one snapshot changed, wherever it is."""
    made = db.branch(body.branch).cherry_pick(
        body.ref,
        on_conflict=body.on_conflict,
        granularity=body.granularity,
        message=body.message,
    )
    return snapshot_info(made)


@router.get("/tags", operation_id="list_tags", summary="Tags")
def list_tags(db: Db) -> Tags:
    """Every tag and its snapshot."""
    return Tags(tags=[TagInfo(name=name, snapshot=at.id) for name, at in db.tags().items()])


@router.post("/tags", operation_id="create_tag", summary="A new tag", status_code=201)
def create_tag(body: NewTag, db: Db) -> TagInfo:
    """Give a snapshot a name that stays."""
    return TagInfo(name=body.name, snapshot=db.tag(body.name, body.ref).id)


@router.delete("/tag", operation_id="drop_tag", summary="Forget a tag")
def drop_tag(db: Db, name: Annotated[str, Query(examples=["v1"])]) -> Done:
    """Forget a tag."""
    db.drop_tag(name)
    return Done()
