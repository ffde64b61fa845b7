"""The catalog's tables.

Snapshots are numbered by `sequence` in the order they were committed, so that a snapshot's
number is greater than those of its parents.  What a row says about a snapshot or a version can
be made again from its record; heads, logs, tags and packs are said here only.

Every row but those of the journal has a digest (see `sealed_rows`).  A line of a branch's log also
has that of the line before it, as `previous`, and a branch that of its newest line, as `chain`.

Branches and syncs have an `id`, by which everybody else knows them, and a `number`, by which the
rows of this catalog do: in the order they were made, and never given again.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

from livingdb.catalog.journal import journal_table
from livingdb.catalog.sealed_rows import DIGEST, DIGEST_BYTES
from livingdb.chunks.address import ADDRESS_BYTES

__all__ = [
    "SCHEMA_VERSION",
    "alert",
    "branch",
    "branch_log",
    "chunk",
    "counter",
    "course",
    "delta_run",
    "dropped_branch",
    "erasure",
    "forgotten_snapshot",
    "forgotten_version",
    "former_name",
    "job",
    "label",
    "lease",
    "materialization",
    "merge_event",
    "merge_request",
    "merge_rule",
    "meta",
    "metadata",
    "observation",
    "outbox",
    "outside_copy",
    "pack",
    "redaction",
    "retired",
    "run",
    "snapshot",
    "step",
    "stream",
    "sync",
    "table_layout",
    "tag",
    "touch",
    "trail",
    "tuning",
    "version",
    "watch",
]

SCHEMA_VERSION = 10

metadata = MetaData()
_Number = BigInteger().with_variant(Integer, "sqlite")
_Address = LargeBinary(ADDRESS_BYTES)
_Digest = LargeBinary(DIGEST_BYTES)


def _digest() -> Column[bytes]:
    """What shows that nobody changed or moved a row."""
    return Column(DIGEST, _Digest)


meta = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
    _digest(),
)

chunk = journal_table(metadata)

pack = Table(
    "pack",
    metadata,
    Column("position", _Number, primary_key=True, autoincrement=True),
    Column("name", Text, nullable=False, unique=True),
    Column("level", _Number, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

retired = Table(
    "retired",
    metadata,
    Column("name", Text, primary_key=True),
    Column("time", _Number, nullable=False),
    _digest(),
)

snapshot = Table(
    "snapshot",
    metadata,
    Column("sequence", _Number, primary_key=True, autoincrement=True),
    Column("address", _Address, nullable=False, unique=True),
    Column("first", _Number),
    Column("others", Text),
    Column("skip", _Number),
    Column("depth", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    Column("kind", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("message", Text, nullable=False),
    _digest(),
)

touch = Table(
    "touch",
    metadata,
    Column("name", Text, primary_key=True),
    Column("sequence", _Number, primary_key=True),
    Column("version", _Address),
    _digest(),
    sqlite_with_rowid=False,
)

branch = Table(
    "branch",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, server_default=""),
    Column("name", Text, nullable=False, unique=True),
    Column("head", _Number, ForeignKey("snapshot.sequence"), nullable=False),
    Column("position", _Number, nullable=False),
    Column("origin", Text),
    Column("origin_head", _Number),
    Column("time", _Number, nullable=False),
    Column("chain", _Digest),
    _digest(),
    sqlite_autoincrement=True,
)

branch_by_id = Index("branch_by_id", branch.c.id, unique=True)

branch_log = Table(
    "branch_log",
    metadata,
    Column("branch", _Number, primary_key=True),
    Column("position", _Number, primary_key=True),
    Column("snapshot", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    Column("operation", Text, nullable=False),
    Column("previous", _Digest),
    _digest(),
    sqlite_with_rowid=False,
)

course = Table(
    "course",
    metadata,
    Column("id", Text, primary_key=True),
    Column("legs", Text, nullable=False),
    _digest(),
)

step = Table(
    "step",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("course", Text, nullable=False),
    Column("snapshot", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

sync = Table(
    "sync",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("id", Text, nullable=False, server_default=""),
    Column("name", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("sources", Text, nullable=False),
    Column("target", Text, nullable=False, server_default=""),
    Column("direction", Text, nullable=False),
    Column("frequency", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("time", _Number, nullable=False),
    Column("guard", Text, nullable=False, server_default="{}"),
    _digest(),
    sqlite_autoincrement=True,
)

sync_by_id = Index("sync_by_id", sync.c.id, unique=True)

former_name = Table(
    "former_name",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("id", Text, nullable=False),
    _digest(),
    sqlite_with_rowid=False,
)

trail = Table(
    "trail",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("sync", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    Column("state", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("details", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

Index("trail_by_sync", trail.c.sync, trail.c.id)

run = Table(
    "run",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("sync", _Number, nullable=False),
    Column("snapshot", _Number),
    Column("time", _Number, nullable=False),
    Column("duration", _Number, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("details", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

Index("run_by_sync", run.c.sync, run.c.id)

alert = Table(
    "alert",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("time", _Number, nullable=False),
    Column("sync", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("fingerprint", Text, nullable=False, server_default=""),
    _digest(),
    sqlite_autoincrement=True,
)

Index("alert_by_state", alert.c.state, alert.c.id)
alert_by_fingerprint = Index("alert_by_fingerprint", alert.c.fingerprint, alert.c.id)

outbox = Table(
    "outbox",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("alert", _Number, nullable=False),
    Column("sink", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", _Number, nullable=False),
    Column("due", _Number, nullable=False),
    Column("error", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

Index("outbox_by_state", outbox.c.state, outbox.c.due)

watch = Table(
    "watch",
    metadata,
    Column("name", Text, primary_key=True),
    Column("spec", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("time", _Number, nullable=False),
    _digest(),
)

label = Table(
    "label",
    metadata,
    Column("table", Text, primary_key=True),
    Column("column", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    _digest(),
    sqlite_with_rowid=False,
)

tag = Table(
    "tag",
    metadata,
    Column("name", Text, primary_key=True),
    Column("snapshot", _Number, ForeignKey("snapshot.sequence"), nullable=False),
    Column("time", _Number, nullable=False),
    _digest(),
)

stream = Table(
    "stream",
    metadata,
    Column("name", Text, primary_key=True),
    Column("batch", _Number, nullable=False),
    Column("snapshot", _Number, nullable=False),
    _digest(),
)

counter = Table(
    "counter",
    metadata,
    Column("column", Text, primary_key=True),
    Column("next", _Number, nullable=False),
    _digest(),
    sqlite_with_rowid=False,
)

version = Table(
    "version",
    metadata,
    Column("address", _Address, primary_key=True),
    Column("definition", _Address, nullable=False),
    Column("origin", _Address, nullable=False),
    Column("base", _Address),
    Column("skip", _Address),
    Column("depth", _Number, nullable=False),
    Column("changed", _Number, nullable=False),
    Column("keyframe", _Address, nullable=False),
    Column("rows", _Number),
    _digest(),
    sqlite_with_rowid=False,
)

materialization = Table(
    "materialization",
    metadata,
    Column("version", _Address, primary_key=True),
    Column("root", _Address, nullable=False),
    Column("origin", _Address, nullable=False),
    Column("depth", _Number, nullable=False),
    Column("layout", _Address),
    _digest(),
    sqlite_with_rowid=False,
)

table_layout = Table(
    "table_layout",
    metadata,
    Column("table", Text, primary_key=True),
    Column("layout", Text, nullable=False),
    _digest(),
    sqlite_with_rowid=False,
)

observation = Table(
    "observation",
    metadata,
    Column("subject", Text, primary_key=True),
    Column("time", _Number, nullable=False),
    Column("counts", Text, nullable=False),
    _digest(),
    sqlite_with_rowid=False,
)

tuning = Table(
    "tuning",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("time", _Number, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("details", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

Index("tuning_by_state", tuning.c.state, tuning.c.number)

delta_run = Table(
    "delta_run",
    metadata,
    Column("version", _Address, primary_key=True),
    Column("since", _Address, nullable=False),
    Column("depth", _Number, nullable=False),
    Column("change", _Address, nullable=False),
    _digest(),
    sqlite_with_rowid=False,
)

Index("materialization_by_origin", materialization.c.origin, materialization.c.depth)

dropped_branch = Table(
    "dropped_branch",
    metadata,
    Column("number", _Number, primary_key=True),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("head", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    _digest(),
)

forgotten_snapshot = Table(
    "forgotten_snapshot",
    metadata,
    Column("sequence", _Number, primary_key=True),
    Column("time", _Number, nullable=False),
    Column("reason", Text, nullable=False),
    _digest(),
)

forgotten_version = Table(
    "forgotten_version",
    metadata,
    Column("address", _Address, primary_key=True),
    _digest(),
    sqlite_with_rowid=False,
)

lease = Table(
    "lease",
    metadata,
    Column("id", Text, primary_key=True),
    Column("snapshot", _Number, nullable=False),
    Column("holder", Text, nullable=False),
    Column("began", _Number, nullable=False),
    Column("until", _Number, nullable=False),
    _digest(),
)

erasure = Table(
    "erasure",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("table", Text, nullable=False),
    Column("time", _Number, nullable=False),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("details", Text, nullable=False),
    Column("is_cleared", _Number, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

redaction = Table(
    "redaction",
    metadata,
    Column("old", _Address, primary_key=True),
    Column("new", _Address, nullable=False),
    Column("erasure", _Number, nullable=False),
    _digest(),
    sqlite_with_rowid=False,
)

outside_copy = Table(
    "outside_copy",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("kind", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("snapshot", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    Column("details", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

job = Table(
    "job",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("holder", Text, nullable=False),
    Column("began", _Number, nullable=False),
    Column("until", _Number, nullable=False),
    Column("ended", _Number, nullable=False),
    Column("due", _Number, nullable=False),
    Column("failures", _Number, nullable=False),
    Column("progress", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("details", Text, nullable=False),
    _digest(),
)

merge_request = Table(
    "merge_request",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=True),
    Column("source", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("time", _Number, nullable=False),
    Column("state", Text, nullable=False),
    Column("snapshot", _Number),
    Column("details", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

Index("merge_request_by_state", merge_request.c.state, merge_request.c.number)

merge_event = Table(
    "merge_event",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=True),
    Column("request", _Number, nullable=False),
    Column("time", _Number, nullable=False),
    Column("kind", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("head", Text, nullable=False),
    _digest(),
    sqlite_autoincrement=True,
)

Index("merge_event_by_request", merge_event.c.request, merge_event.c.id)

merge_rule = Table(
    "merge_rule",
    metadata,
    Column("branch", Text, primary_key=True),
    Column("spec", Text, nullable=False),
    _digest(),
)
