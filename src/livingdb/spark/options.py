"""The options of the data source: which there are for what, and how their texts are read.

An option that nobody knows is refused: a misspelt `branch`, left out, would write to another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from livingdb.engines.range_text import RANGES_OPTION
from livingdb.errors import InvalidData

__all__ = [
    "check_known",
    "check_partitions",
    "check_use",
    "flag_option",
    "list_option",
    "require_option",
]

_PLACE = ("path", "table", "branch")
_READ = (
    *("tag", "versionAsOf", "timestampAsOf", "columns", "where", "partitions"),
    *("readChangeFeed", "startingVersion", "startingTimestamp", "endingVersion"),
)
_READ_STREAM = ("maxBytesPerTrigger", "maxSnapshotsPerTrigger")
_WRITE = ("operation", "message", "author", "key", "mergeSchema", "overwriteSchema", "replaceWhere")
_WRITE_STREAM = ("checkpointLocation",)

_USES = {
    "read": (*_PLACE, *_READ, RANGES_OPTION),
    "readStream": (*_PLACE, *_READ, *_READ_STREAM),
    "write": (*_PLACE, *_WRITE),
    "writeStream": (*_PLACE, *(name for name in _WRITE if name != "replaceWhere"), *_WRITE_STREAM),
}

_KNOWN = {name.lower(): name for names in _USES.values() for name in names}

_POLICY_OPTIONS = ("onconflict", "on_conflict")

_LISTED = re.compile(r"\s*`(?:[^`]|``)*`\s*|[^,`]+")
"""Names between commas; those with a comma in them stand in backticks."""


_MAX_PARTITIONS = 100_000


def check_partitions(given: object) -> int:
    """The number of tasks, if it is one that a driver can plan."""
    if not isinstance(given, int) or not 1 <= given <= _MAX_PARTITIONS:
        raise InvalidData(f"partitions {given!r}: a number from 1 to {_MAX_PARTITIONS:,}")
    return given


def check_known(options: Mapping[str, str]) -> None:
    """`InvalidData` for an option that is none, with the nearest one that is."""
    for name in options:
        if name.lower() in _POLICY_OPTIONS:
            raise InvalidData(
                f"{name}={options[name]!r}: a write merges nothing: rows that others changed "
                "meanwhile are a TransactionConflict, and operation is insert, upsert, update or "
                "delete; write to a branch, and db.merge(…, on_conflict=…) takes fail, ours, theirs"
            )
        if name.lower() not in _KNOWN:
            shown = sorted(known for known in _KNOWN.values() if known != RANGES_OPTION)
            near = get_close_matches(name.lower(), [known.lower() for known in shown], 1)
            hint = (
                f"did you mean {_KNOWN[near[0]]!r}?" if near else f"there are: {', '.join(shown)}"
            )
            raise InvalidData(f"there is no option {name!r}; {hint}")


def check_use(options: Mapping[str, str], *uses: str) -> None:
    """`InvalidData` for an option of something else: "read", "readStream", "write"…"""
    allowed = {name.lower() for use in uses for name in _USES[use]}
    for name in options:
        if name.lower() not in allowed:
            known = _KNOWN[name.lower()]
            others = [use for use, names in _USES.items() if known in names]
            what = "reading" if others[0].startswith("read") else "writing"
            raise InvalidData(
                f"the option {known!r} is for {what} ({' and '.join(others)}), not for "
                f"{' and '.join(uses)}"
            )


def require_option(options: Mapping[str, str], name: str, why: str) -> str:
    """The text of an option that has to be there."""
    value = options.get(name)
    if not value:
        raise InvalidData(f"the option {name!r} is missing: {why}")
    return value


def flag_option(options: Mapping[str, str], name: str) -> bool:
    """Whether an option is on; it is off unless it is given."""
    text = (options.get(name) or "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidData(f"{name} {options[name]!r}: choose 'true' or 'false'")
    return text == "true"


def list_option(options: Mapping[str, str], name: str) -> list[str] | None:
    """The names that an option lists, between commas; None if it is not given."""
    text = options.get(name)
    if text is None:
        return None
    return [
        item[1:-1].replace("``", "`") if item.startswith("`") else item
        for item in (part.strip() for part in _LISTED.findall(text))
        if item
    ]
