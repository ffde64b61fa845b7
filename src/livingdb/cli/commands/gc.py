"""`livingdb gc`: forget what no policy keeps, and give its space back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import refs
from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from livingdb import Retention

__all__ = ["gc"]


def gc(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    policy: Annotated[
        bool, typer.Option("--policy", help="Show the policy, and with --keep or --days set it.")
    ] = False,
    keep: Annotated[
        str | None,
        typer.Option("--keep", metavar="JSON", help='What to keep: {"days": 30, "thin": "daily"}.'),
    ] = None,
    days: Annotated[
        float | None, typer.Option("--days", help="Keep everything for so many days.")
    ] = None,
    why: Annotated[
        str | None,
        typer.Option("--why", metavar="REF", help="What keeps a snapshot.", autocompletion=refs),
    ] = None,
) -> None:
    """Forget what the policy does not keep, and give its space back.

    The policy is what --keep or --days say, or else the one that is set in the database, which
    keeps everything unless somebody set another one.  Records of snapshots stay; their rows do not.

    \b
    Example:
      livingdb gc --dry-run --days 30
      livingdb gc --policy --keep '{"days": 30, "thin": "daily", "thin_days": 365}'
      livingdb gc --why main~3
      livingdb gc
    """
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        given = _policy(keep, days)
        if policy:
            if given is not None:
                db.retention = given
            shown = db.retention
            output.write_record(shown.to_json(), "\n".join(shown.lines()))
        elif why is not None:
            chain = db.collect_garbage(given, dry_run=True).why(db.at(why).id)
            output.write_list(("snapshot", "kind", "by"), [vars(link) for link in chain])
        else:
            done = db.collect_garbage(given, dry_run=dry_run)
            output.write_record(_told(done), str(done))


def _policy(keep: str | None, days: float | None) -> Retention | None:
    """The policy that options say; None if they say none."""
    import json

    from livingdb import InvalidData, Retention

    if keep is None and days is None:
        return None
    try:
        said: dict[str, Any] = {} if keep is None else json.loads(keep)
        return Retention.from_json(said if days is None else {**said, "days": days})
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidData(f"--keep is no policy: {error}") from None


def _told(done: Any) -> dict[str, Any]:
    return {
        "dry_run": done.is_dry,
        "snapshots": list(done.snapshots),
        "dropped": list(done.dropped),
        "kept": dict(done.kept),
        "forgotten": done.forgotten,
        "before_bytes": done.before_bytes,
        "after_bytes": done.after_bytes,
    }
