"""Where alerts go, and what else raises them.

    main.derive("totals", sql=…, alerts=[livingdb.alert.webhook("https://…", severity="error")])
    db.watch("schemas", livingdb.alert.on_schema_change("orders"), alerts=[livingdb.alert.log()])

Every sink takes `severity` (at least so bad), `events` (only these; None: all), `cool_down` (how
long the same thing is not sent again while nobody resolved it; "0": send it always), and
`attempts` (how often to try before an alert counts as lost for it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from livingdb.alerts.sinks import (
    Callback,
    Command,
    Log,
    Sink,
    Webhook,
    parse_seconds,
    split_command,
)
from livingdb.alerts.watch import Failing, Growing, Lagging, Merged, SchemaChanged, parse_limit
from livingdb.errors import InvalidData

__all__ = [
    "Callback",
    "Command",
    "Log",
    "Sink",
    "Webhook",
    "callback",
    "command",
    "log",
    "on_failures",
    "on_growth",
    "on_lag",
    "on_merge",
    "on_schema_change",
    "parse",
    "webhook",
]

_COOL_DOWN = "10 minutes"
_ATTEMPTS = 8


def log(
    level: str | None = None,
    *,
    severity: str = "info",
    events: Iterable[str] | None = None,
    cool_down: object = _COOL_DOWN,
    attempts: int = _ATTEMPTS,
) -> Log:
    """The log "livingdb.alert" of the program that sends; `level`: another than the severity's."""
    return Log(
        level=level,
        severity=severity,
        events=_events(events),
        cool_down_seconds=parse_seconds(cool_down, f"cool_down={cool_down!r}"),
        attempts=attempts,
    )


def webhook(
    url: str,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = 5.0,
    *,
    header_env: Mapping[str, str] | None = None,
    severity: str = "info",
    events: Iterable[str] | None = None,
    cool_down: object = _COOL_DOWN,
    attempts: int = _ATTEMPTS,
) -> Webhook:
    """An address that alerts are posted to as JSON.

    Who sends has to trust its host, as `trust=["webhook:example.org"]`.  A pattern like "webhook:*"
    is good for public addresses alone: a host of this machine or of a private network is named.
    `headers` are stored with it.  `header_env` names variables of the environment that hold the
    values, so that no secret is stored: who sends has to trust them, as `trust=["env:TOKEN"]`.
    """
    return Webhook(
        url=url,
        headers=dict(headers or {}),
        header_env=dict(header_env or {}),
        timeout_seconds=timeout_seconds,
        severity=severity,
        events=_events(events),
        cool_down_seconds=parse_seconds(cool_down, f"cool_down={cool_down!r}"),
        attempts=attempts,
    )


def command(
    command: str | Sequence[str],
    timeout_seconds: float = 30.0,
    *,
    severity: str = "info",
    events: Iterable[str] | None = None,
    cool_down: object = _COOL_DOWN,
    attempts: int = _ATTEMPTS,
) -> Command:
    """A program, run with the alert as JSON on its input and LIVINGDB_ALERT_… in its environment.

    No shell looks at it.  Who sends has to trust it, as `trust=["command:notify-send"]`.
    """
    return Command(
        arguments=split_command(command),
        timeout_seconds=timeout_seconds,
        severity=severity,
        events=_events(events),
        cool_down_seconds=parse_seconds(cool_down, f"cool_down={cool_down!r}"),
        attempts=attempts,
    )


def callback(
    function: str,
    timeout_seconds: float = 30.0,
    *,
    severity: str = "info",
    events: Iterable[str] | None = None,
    cool_down: object = _COOL_DOWN,
    attempts: int = _ATTEMPTS,
) -> Callback:
    """A function that is called with the alert as a dict, named as `package.module:function`.

    Who sends has to trust it, as `trust=["shop.*"]`.
    """
    if callable(function):
        raise InvalidData(
            f"{function!r} cannot be stored in a database: name it, as in "
            "livingdb.alert.callback('package.module:function')"
        )
    return Callback(
        function=function,
        timeout_seconds=timeout_seconds,
        severity=severity,
        events=_events(events),
        cool_down_seconds=parse_seconds(cool_down, f"cool_down={cool_down!r}"),
        attempts=attempts,
    )


def parse(text: str) -> Sink:
    """A sink in a word: "log", "log:warning", "https://…", "command:notify-send hello" or
    "callback:package.module:function"; "webhook:" before an address may be said or not.
    """
    kind, colon, rest = text.strip().partition(":")
    if kind in ("http", "https"):
        return webhook(text.strip())
    if kind == "log":
        return log(rest or None)
    if kind == "webhook" and colon:
        return webhook(rest)
    if kind == "command" and colon:
        return command(rest)
    if kind == "callback" and colon:
        return callback(rest)
    raise InvalidData(
        f"{kind!r} takes no alerts: say log, webhook:https://…, command:program, or "
        "callback:package.module:function"
    )


def on_schema_change(table: str | None = None, branch: object = None) -> SchemaChanged:
    """A table is made, dropped or has another schema: this one, on this branch, or any."""
    return SchemaChanged(table, None if branch is None else str(branch))


def on_merge(into: object = None) -> Merged:
    """Something is merged into a branch, or into any."""
    return Merged(None if into is None else str(into))


def on_lag(sync: object, limit: object) -> Lagging:
    """A view, or the target of a sync, is behind for so long, like "10 minutes"."""
    return Lagging(_name(sync), parse_seconds(limit, f"a lag of {limit!r}"))


def on_failures(sync: object, times: int = 3) -> Failing:
    """The runs of a view or sync failed so many times in a row."""
    if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= 100:
        raise InvalidData(f"times={times!r}: a number from 1 to 100")
    return Failing(_name(sync), times)


def on_growth(limit: int | float | str, per: object = "1 day") -> Growing:
    """The database grew by so much within a time: bytes (an int, "500 MB") or a share (a float)."""
    size_bytes, share = parse_limit(limit)
    period = parse_seconds(per, f"per={per!r}")
    if period == 0:
        raise InvalidData("per='0': growth takes time; say '1 day'")
    return Growing(size_bytes, share, period)


def _name(given: object) -> str:
    name = getattr(given, "name", given)
    if not isinstance(name, str) or not name:
        raise InvalidData(f"{given!r} is no sync: give its name, or that of a view")
    return name


def _events(given: Iterable[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    found = (given,) if isinstance(given, str) else tuple(given)
    if not found or not all(isinstance(event, str) and event for event in found):
        raise InvalidData(f"events={given!r}: name some, like ['detached', 'error']")
    return found
