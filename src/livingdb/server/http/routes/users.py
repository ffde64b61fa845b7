"""People: who may use the database, what they may do, their tokens, and the audit trail."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from livingdb.server.http.answers import rows_answer, rows_responses
from livingdb.server.http.context import Asking, Db
from livingdb.server.http.models import Answer, Asked, Done, RoleName, RowsAnswer
from livingdb.server.http.subject_router import SubjectRouter

if TYPE_CHECKING:
    from livingdb.access.user import User

__all__ = ["router"]

router = SubjectRouter(prefix="/v1", tags=["users"])
UserName = Annotated[str, Query(alias="name", description="The user.", examples=["ann"])]
_EVERYTHING = "*"


class GrantInfo(Answer):
    """A role on the branches whose names match a pattern."""

    role: RoleName
    branches: str = Field(examples=["dev/*"])


class UserInfo(Answer):
    """A user, and what was granted to them."""

    name: str = Field(examples=["ann"])
    grants: list[GrantInfo]


class Me(UserInfo):
    """Who asks, and what they may do."""

    everywhere: RoleName | None = Field(description="The role on the database itself.")


class UserList(Answer):
    """Users by name."""

    users: list[UserInfo]


class NewUser(Asked):
    """A new user, and a first role."""

    name: str = Field(examples=["ann"])
    role: RoleName | None = None
    branches: str = Field(_EVERYTHING, examples=["dev/*"])


class NewGrant(Asked):
    """What a user may do from now on."""

    name: str = Field(examples=["ann"])
    role: RoleName
    branches: str = Field(_EVERYTHING, examples=["main"])


class ObjectGrant(Asked):
    """A derived object that a user may read without its sources."""

    name: str = Field(examples=["ann"])
    object: str = Field(examples=["totals"])


class ObjectGrantInfo(Answer):
    """A derived object that was granted."""

    object: str = Field(examples=["totals"])
    by: str
    time: datetime
    is_valid: bool = Field(description="Whether who granted it still has what it is made of.")


class ObjectGrants(Answer):
    """The derived objects that were granted to a user, by name."""

    objects: list[ObjectGrantInfo]


class NewToken(Asked):
    """Whose token, for how long, and what for."""

    name: str = Field(examples=["ann"])
    days: float = Field(90, gt=0, le=3650)
    note: str = Field("", max_length=200, examples=["laptop"])


class Secret(Answer):
    """A token: shown this once and kept nowhere."""

    token: str


class TokenInfo(Answer):
    """What is known of a token, but for its secret."""

    id: str
    note: str
    made: datetime
    until: datetime
    revoked: datetime | None
    used: datetime | None
    is_valid: bool


class TokenList(Answer):
    """The tokens of a user, newest first."""

    tokens: list[TokenInfo]


def user_info(user: User) -> UserInfo:
    """What is told of a user."""
    grants: list[Any] = [{"role": one.role, "branches": one.branches} for one in user.grants]
    return UserInfo(name=user.name, grants=[GrantInfo(**one) for one in grants])


@router.get("/me", operation_id="who_am_i", summary="Who asks")
def who_am_i(asking: Asking) -> Me:
    """Who asks, and what they may do; what they may do to a branch is told of the branch."""
    role: Any = next((one.role for one in asking.user.grants if one.branches == _EVERYTHING), None)
    return Me(**user_info(asking.user).model_dump(), everywhere=role)


@router.get("/users", operation_id="list_users", summary="Users")
def list_users(db: Db) -> UserList:
    """Every user, by name."""
    return UserList(users=[user_info(one) for one in db.people.list()])


@router.post("/users", operation_id="add_user", summary="A new user", status_code=201)
def add_user(body: NewUser, db: Db) -> UserInfo:
    """A new user.  From the first one on, the token of the server's own run counts no more."""
    return user_info(db.people.add(body.name, body.role, body.branches))


@router.delete("/user", operation_id="remove_user", summary="Forget a user")
def remove_user(db: Db, name: UserName) -> Done:
    """Forget a user, with all that was granted to them and their tokens."""
    db.people.remove(name)
    return Done()


@router.post("/user/grants", operation_id="grant_role", summary="Grant a role")
def grant_role(body: NewGrant, db: Db) -> UserInfo:
    """Let a user do what a role says with branches whose names match a pattern."""
    return user_info(db.people.grant(body.name, body.role, body.branches))


@router.delete("/user/grants", operation_id="withdraw_role", summary="Withdraw a role")
def withdraw_role(
    db: Db,
    name: UserName,
    role: Annotated[RoleName | None, Query(description="Any, if it is left out.")] = None,
    branches: Annotated[str | None, Query(description="Any, if it is left out.")] = None,
) -> UserInfo:
    """Take roles from a user."""
    return user_info(db.people.withdraw(name, role, branches))


@router.get("/user/objects", operation_id="list_objects", summary="Objects of a user")
def list_objects(db: Db, name: UserName) -> ObjectGrants:
    """The derived objects that were granted to a user, and by whom."""
    return ObjectGrants(
        objects=[
            ObjectGrantInfo(object=one.object, by=one.by, time=one.time, is_valid=one.is_valid)
            for one in db.people.objects(name)
        ]
    )


@router.post("/user/objects", operation_id="grant_object", summary="Grant a derived object")
def grant_object(body: ObjectGrant, db: Db) -> UserInfo:
    """Let a user read a derived object without its sources."""
    return user_info(db.people.grant_object(body.name, body.object))


@router.delete("/user/objects", operation_id="withdraw_object", summary="Withdraw an object")
def withdraw_object(
    db: Db, name: UserName, derived: Annotated[str, Query(alias="object")]
) -> UserInfo:
    """Take a derived object from a user."""
    return user_info(db.people.withdraw_object(name, derived))


@router.post("/user/tokens", operation_id="issue_token", summary="A new token", status_code=201)
def issue_token(body: NewToken, db: Db) -> Secret:
    """A new token of a user: the secret is shown this once."""
    return Secret(token=db.people.issue_token(body.name, body.days, body.note))


@router.get("/user/tokens", operation_id="list_tokens", summary="Tokens of a user")
def list_tokens(db: Db, name: UserName) -> TokenList:
    """The tokens of a user, newest first; never their secrets."""
    return TokenList(
        tokens=[
            TokenInfo(
                id=one.id,
                note=one.note,
                made=one.made,
                until=one.until,
                revoked=one.revoked,
                used=one.used,
                is_valid=one.is_valid,
            )
            for one in db.people.tokens(name)
        ]
    )


@router.delete("/token", operation_id="revoke_token", summary="Revoke a token")
def revoke_token(db: Db, token: Annotated[str, Query(alias="id")]) -> Done:
    """Let a token count no more, by its id."""
    db.people.revoke(token)
    return Done()


@router.get(
    "/audit",
    operation_id="read_audit",
    summary="The audit trail",
    responses=rows_responses(RowsAnswer),
)
def read_audit(
    request: Request,
    db: Db,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    before: Annotated[
        int | None,
        Query(ge=1, le=2**62, description="The `number` of an entry, to go on with older ones."),
    ] = None,
) -> Response:
    """What people did, newest first."""
    return rows_answer(request, db.people.audit(limit, before), {})
