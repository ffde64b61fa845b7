"""`livingdb user`: who may use the database through a server, and for what."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import derived_objects
from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from livingdb.database.people import Token, User

__all__ = ["user"]

user = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="""Users of a server: roles on branches, tokens and what they did.

    \b
    Example:
      livingdb user
      livingdb user add ann --role writer --branches 'dev/*'
      livingdb user grant ann --role reader --branches main
      livingdb user token ann --days 90 --note laptop
      livingdb user audit
    """,
)
_COLUMNS = ("name", "grants")
_TOKEN_COLUMNS = ("token", "note", "made", "until", "state", "used")
_OBJECT_COLUMNS = ("object", "by", "time", "is_valid")
_AUDIT_COLUMNS = ("number", "time", "person", "action", "subject", "outcome", "details")

Name = Annotated[str, typer.Argument(help="The user.")]
Role = Annotated[str | None, typer.Option("--role", help="reader, writer, maintainer or owner.")]
Branches = Annotated[
    str, typer.Option("--branches", help="On branches whose names match; '*' is the database, too.")
]
Object = Annotated[str, typer.Argument(help="The derived object.", autocompletion=derived_objects)]


@user.callback()
def default(context: typer.Context) -> None:
    """List the users unless another thing is asked for."""
    if context.invoked_subcommand is None:
        list_users(context)


@user.command("list")
def list_users(context: typer.Context) -> None:
    """Every user, and the roles each has.

    \b
    Example:
      livingdb user list
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = [_row(one) for one in db.people.list()]
        settings.output().write_list(_COLUMNS, rows, (), "there are no users")


@user.command()
def add(context: typer.Context, name: Name, role: Role = None, branches: Branches = "*") -> None:
    """A new user, with a role on branches.

    \b
    Example:
      livingdb user add ann --role writer --branches 'dev/*'
    """
    settings = Settings.of(context)
    with settings.open() as db:
        _tell(settings, db.people.add(name, role, branches))


@user.command()
def grant(
    context: typer.Context,
    name: Name,
    role: Annotated[str, typer.Option("--role", help="reader, writer, maintainer or owner.")],
    branches: Branches = "*",
) -> None:
    """One role more, on branches.

    \b
    Example:
      livingdb user grant ann --role reader --branches main
    """
    settings = Settings.of(context)
    with settings.open() as db:
        _tell(settings, db.people.grant(name, role, branches))


@user.command()
def withdraw(
    context: typer.Context,
    name: Name,
    role: Role = None,
    branches: Annotated[
        str | None, typer.Option("--branches", help="The pattern.  [default: any]")
    ] = None,
) -> None:
    """Take roles from a user: from now on, also for what is on its way.

    \b
    Example:
      livingdb user withdraw ann --role reader --branches main
    """
    settings = Settings.of(context)
    with settings.open() as db:
        _tell(settings, db.people.withdraw(name, role, branches))


@user.command()
def allow(context: typer.Context, name: Name, derived: Object) -> None:
    """Let a user read a derived object without what it is made of.

    \b
    Example:
      livingdb user allow ann totals
    """
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.people.grant_object(name, derived)
        told = {**_row(found), "object": derived}
        settings.output().write_record(told, f"{name} may read {derived}")


@user.command()
def objects(context: typer.Context, name: Name) -> None:
    """The derived objects that a user may read without what they are made of.

    \b
    Example:
      livingdb user objects ann
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = [asdict(one) for one in db.people.objects(name)]
        settings.output().write_list(_OBJECT_COLUMNS, rows, (), f"no object was granted to {name}")


@user.command()
def deny(context: typer.Context, name: Name, derived: Object) -> None:
    """Take a derived object from a user again.

    \b
    Example:
      livingdb user deny ann totals
    """
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.people.withdraw_object(name, derived)
        told = {**_row(found), "object": derived}
        settings.output().write_record(told, f"{name} may not read {derived} for its own sake")


@user.command()
def remove(context: typer.Context, name: Name) -> None:
    """Forget a user, with all roles and tokens.

    \b
    Example:
      livingdb user remove ann
    """
    settings = Settings.of(context)
    with settings.open() as db:
        db.people.remove(name)
        settings.output().write_record({"name": name}, f"removed {name}")


@user.command()
def token(
    context: typer.Context,
    name: Name,
    days: Annotated[float, typer.Option("--days", help="How long it counts.")] = 90,
    note: Annotated[str, typer.Option("--note", help="What it is for.")] = "",
) -> None:
    """A new token of a user: its secret is shown this once.

    \b
    Example:
      livingdb user token ann --days 90 --note laptop
    """
    settings = Settings.of(context)
    with settings.open() as db:
        secret = db.people.issue_token(name, days, note)
        settings.output().write_record({"name": name, "token": secret}, secret)


@user.command()
def tokens(context: typer.Context, name: Name) -> None:
    """The tokens of a user, without their secrets.

    \b
    Example:
      livingdb user tokens ann
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = [_token_row(one) for one in db.people.tokens(name)]
        settings.output().write_list(_TOKEN_COLUMNS, rows, (), f"{name} has no tokens")


@user.command()
def revoke(
    context: typer.Context, token: Annotated[str, typer.Argument(help="Its id, or all of it.")]
) -> None:
    """Let a token count no more.

    \b
    Example:
      livingdb user revoke 4f1c09a2b3d4e5f6
    """
    from livingdb.access.tokens import token_id

    settings = Settings.of(context)
    with settings.open() as db:
        known = token_id(token) or token
        db.people.revoke(known)
        settings.output().write_record({"token": known}, f"revoked {known}")


@user.command()
def audit(
    context: typer.Context,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="The newest.")] = None,
) -> None:
    """What users did and were refused, newest first.

    \b
    Example:
      livingdb user audit -n 20
    """
    settings = Settings.of(context)
    with settings.open() as db:
        rows = db.people.audit(limit).to_pylist()
        settings.output().write_list(_AUDIT_COLUMNS, rows, (), "nothing was written down")


def _tell(settings: Settings, found: User) -> None:
    row = _row(found)
    settings.output().write_record(row, f"{found.name}: {row['grants'] or 'no roles'}")


def _row(found: User) -> dict[str, Any]:
    grants = ", ".join(f"{one.role} on {one.branches}" for one in found.grants)
    return {"name": found.name, "grants": grants}


def _token_row(one: Token) -> dict[str, Any]:
    state = "valid" if one.is_valid else "expired" if one.revoked is None else "revoked"
    return {
        "token": one.id,
        "note": one.note,
        "made": one.made,
        "until": one.until,
        "state": state,
        "used": None if one.used is None else one.used.date(),
    }
