"""Where alerts are sent: a log, a web address, a command, or a function of the user's.

A sink is a value that is stored with what it is for, so it holds no secret that can be kept
elsewhere and nothing that cannot be written down.  Functions, commands and variables of the
environment that a database names are used only where the opening process trusts them.
"""

from __future__ import annotations

import json
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any, ClassVar
from urllib.parse import urlsplit

from livingdb.catalog.alerts import SEVERITIES
from livingdb.derivation.trusted_functions import check_name, is_trusted
from livingdb.errors import InvalidData
from livingdb.graph.schedule import parse_schedule

__all__ = [
    "Callback",
    "Command",
    "Log",
    "Sink",
    "Webhook",
    "check_severity",
    "from_json",
    "parse_seconds",
    "sinks_to_json",
]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z")
_LEVELS = ("debug", "info", "warning", "error", "critical")


def check_severity(given: object) -> str:
    """The severity, if it is one."""
    if given not in SEVERITIES:
        raise InvalidData(f"severity={given!r}: choose one of {', '.join(SEVERITIES)}")
    return str(given)


def parse_seconds(given: object, what: str) -> float:
    """How long something is: "10 minutes", a number of seconds, a timedelta; 0 is not at all."""
    if isinstance(given, timedelta):
        given = given.total_seconds()
    if isinstance(given, str) and given.strip() != "0":
        try:
            return parse_schedule(f"lag {given}").seconds
        except InvalidData:
            given = None
    try:
        found = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = -1.0
    if not 0 <= found < float("inf") or isinstance(given, bool):
        raise InvalidData(f"{what}: how long is that? Say '10 minutes', '1 hour', 90 (seconds), …")
    return found


@dataclass(frozen=True, kw_only=True)
class Sink(ABC):
    """What all have in common: which alerts they want, how often, and how hard to try."""

    kind: ClassVar[str] = ""
    severity: str = "info"
    events: tuple[str, ...] | None = None
    cool_down_seconds: float = 600.0
    attempts: int = 8
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        check_severity(self.severity)
        if not isinstance(self.attempts, int) or not 1 <= self.attempts <= 1000:
            raise InvalidData(f"attempts={self.attempts!r}: a number from 1 to 1000")
        if not 0 < self.timeout_seconds <= 3600:
            raise InvalidData(f"timeout_seconds={self.timeout_seconds!r}: from 0 to 3600")

    def wants(self, event: str, severity: str) -> bool:
        """Whether it is to get alerts of this kind."""
        is_bad_enough = SEVERITIES.index(severity) >= SEVERITIES.index(self.severity)
        return is_bad_enough and (self.events is None or event in self.events)

    def may_run(self, trust: Sequence[str]) -> bool:
        """Whether the opening process trusts what it would run or read."""
        return True

    @property
    def label(self) -> str:
        """What it is called where people look, without secrets."""
        return self.kind

    @abstractmethod
    def send(self, message: Mapping[str, Any], trust: Sequence[str]) -> None:
        """Take an alert; whatever it raises means that it has to be sent again."""

    def to_json(self) -> dict[str, Any]:
        """The sink as plain values: what differs from what it is anyway."""
        values = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Mapping):
                value = dict(value)
            if value not in (item.default, {}):
                values[item.name] = value
        return {"sink": self.kind, **json.loads(json.dumps(values))}


@dataclass(frozen=True, kw_only=True)
class Log(Sink):
    """The log of the program that sends it, under the name "livingdb.alert"."""

    kind: ClassVar[str] = "log"
    level: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.level is not None and self.level not in _LEVELS:
            raise InvalidData(f"level={self.level!r}: choose one of {', '.join(_LEVELS)}")

    def send(self, message: Mapping[str, Any], trust: Sequence[str]) -> None:
        """Write a line."""
        from livingdb.alerts.delivery import write_line

        write_line(message, self.level)


@dataclass(frozen=True, kw_only=True)
class Webhook(Sink):
    """A web address that the alert is posted to as JSON; any answer but 2xx is a failure."""

    kind: ClassVar[str] = "webhook"
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    header_env: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.url, str) or not self.url.isascii() or not self.url.isprintable():
            raise InvalidData("a webhook's address is plain ASCII text; encode what is not")
        try:
            parts = urlsplit(self.url)
            is_known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            is_known = False
        if not is_known or " " in self.url:
            raise InvalidData("a webhook's address begins with https:// or http:// and a host")
        if parts.username is not None:
            raise InvalidData("a webhook's address names no user: give header_env instead")
        for name, value in {**self.headers, **self.header_env}.items():
            if not _HEADER.match(name) or not str(value).isprintable():
                raise InvalidData(f"{name!r} is no header, or has no value that can be one")
        for name in self.header_env.values():
            if not _VARIABLE.match(name):
                raise InvalidData(f"header_env: {name!r} is no variable of the environment")

    def may_run(self, trust: Sequence[str]) -> bool:
        """Whether it may reach the host, and read the variables of the environment it sends."""
        needed = [f"webhook:{self.host}", *(f"env:{name}" for name in self.header_env.values())]
        return all(_is_trusted(what, trust) for what in needed)

    @property
    def host(self) -> str:
        """The host that it reaches, in lower case."""
        return urlsplit(self.url).hostname or ""

    @property
    def label(self) -> str:
        """Only the host: what follows it is often a secret."""
        parts = urlsplit(self.url)
        port = "" if parts.port is None else f":{parts.port}"
        return f"webhook {parts.scheme}://{parts.hostname}{port}/…"

    def send(self, message: Mapping[str, Any], trust: Sequence[str]) -> None:
        """Post it."""
        from livingdb.alerts import delivery as sending

        # Behind a pattern may be any host; one that is named may be in a network of one's own.
        is_named = f"webhook:{self.host}" in trust
        headers = self.headers, self.header_env
        sending.post(message, self.url, *headers, self.timeout_seconds, public_only=not is_named)


@dataclass(frozen=True, kw_only=True)
class Command(Sink):
    """A program that gets the alert as JSON on its input; any end but 0 is a failure."""

    kind: ClassVar[str] = "command"
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.arguments or not all(isinstance(a, str) and a for a in self.arguments[:1]):
            raise InvalidData("a command is a program and its arguments: 'notify-send alert'")
        if not all(isinstance(a, str) and "\0" not in a for a in self.arguments):
            raise InvalidData("the arguments of a command are texts")

    def may_run(self, trust: Sequence[str]) -> bool:
        """Whether a pattern like `command:notify-send` is the program, exactly as it is named."""
        return _is_trusted(f"command:{self.arguments[0]}", trust)

    @property
    def label(self) -> str:
        """The program."""
        return f"command {self.arguments[0]}"

    def send(self, message: Mapping[str, Any], trust: Sequence[str]) -> None:
        """Run it."""
        from livingdb.alerts import delivery as sending

        sending.run(message, self.arguments, self.timeout_seconds)


@dataclass(frozen=True, kw_only=True)
class Callback(Sink):
    """A function, by its name, that is called with the alert."""

    kind: ClassVar[str] = "callback"
    function: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name(self.function)

    def may_run(self, trust: Sequence[str]) -> bool:
        """Whether a pattern like `shop.*` is the function."""
        return is_trusted(self.function, trust)

    @property
    def label(self) -> str:
        """The function."""
        return f"callback {self.function}"

    def send(self, message: Mapping[str, Any], trust: Sequence[str]) -> None:
        """Call it."""
        from livingdb.derivation import trusted_functions as trusted

        trusted.load_function(self.function, trust)(dict(message))


_KINDS: dict[str, type[Sink]] = {kind.kind: kind for kind in (Log, Webhook, Command, Callback)}


def from_json(values: Mapping[str, Any]) -> Sink:
    """The sink that `to_json` described; `InvalidData` for one of a kind not known here."""
    given = dict(values)
    kind = _KINDS.get(given.pop("sink", ""))
    if kind is None:
        raise InvalidData(f"{values.get('sink')!r} is no sink; there are: {', '.join(_KINDS)}")
    known = {item.name for item in fields(kind)}
    if not known >= set(given):
        raise InvalidData(f"a {kind.kind} knows no {', '.join(sorted(set(given) - known))}")
    for name in ("events", "arguments"):
        if given.get(name) is not None:
            given[name] = tuple(given[name])
    return kind(**given)


def sinks_to_json(sinks: object) -> list[dict[str, Any]]:
    """Sinks as what they are for stores them; `InvalidData` for what is none."""
    if isinstance(sinks, Sink):
        sinks = [sinks]
    if not isinstance(sinks, (list, tuple)):
        raise InvalidData(f"alerts={sinks!r}: give a list, like [livingdb.alert.log()]")
    for sink in sinks:
        if callable(sink):
            raise InvalidData(
                f"{sink!r} cannot be stored: livingdb.alert.callback('package.module:function') "
                "names a function"
            )
        if not isinstance(sink, Sink):
            raise InvalidData(f"{sink!r} takes no alerts; see livingdb.alert")
    return [sink.to_json() for sink in sinks]


def split_command(command: object) -> tuple[str, ...]:
    """A command as a program and its arguments; no shell looks at it."""
    if isinstance(command, str):
        try:
            return tuple(shlex.split(command))
        except ValueError as error:
            raise InvalidData(f"{command!r} is no command: {error}") from None
    if isinstance(command, (list, tuple)):
        return tuple(command)
    raise InvalidData(f"{command!r} is no command: give a text or a list of texts")


def _is_trusted(what: str, trust: Sequence[str]) -> bool:
    return any(fnmatchcase(what, pattern) for pattern in trust)
