"""The one error tree.

    LivingDBError
    ├── NotFound             no such database, branch, table, snapshot, column
    ├── AlreadyExists        the name is taken
    ├── InvalidName          not a name LivingDB accepts
    ├── InvalidData          wrong type, null where none may be, unknown column
    │   ├── DuplicateKey     a key twice in the data, or already in the table
    │   │   └── DuplicateValue   two rows with one value of a unique constraint
    │   ├── MissingKey       a key that had to be there is not
    │   └── BrokenConstraint  a row breaks NOT NULL, a check or a foreign key
    ├── Refused
    │   ├── ReadOnlyBranch   the branch is the target of a one-way sync
    │   ├── RuleViolation    a rule of the snapshot graph forbids it
    │   ├── IllegalSync      the direction or schedule is not possible
    │   ├── Forbidden        this process or user may not do it
    │   ├── LimitExceeded    it takes more time, rows or room than its user may have
    │   ├── Untrusted        a named function the opening process does not trust
    │   └── MaskKeyMissing   this process does not have the key of a mask
    ├── Conflict
    │   ├── MergeConflict        both sides changed the same row or cell
    │   └── TransactionConflict  another writer changed the same rows first
    ├── Corruption           stored bytes are not what their address says
    ├── StorageFailure       the disk or object store failed or is full
    ├── Locked               somebody else holds what is needed
    ├── Forgotten            it was there, and its rows are gone for good
    └── Unsupported          a type, statement or engine LivingDB does not take

Grouped by what a caller would do.  `code` is stable: codes are added, never changed.
"""

from __future__ import annotations

import typing

__all__ = [
    "AlreadyExists",
    "BrokenConstraint",
    "Conflict",
    "Corruption",
    "DuplicateKey",
    "DuplicateValue",
    "Forbidden",
    "Forgotten",
    "IllegalSync",
    "InvalidData",
    "InvalidName",
    "LimitExceeded",
    "LivingDBError",
    "Locked",
    "MaskKeyMissing",
    "MergeConflict",
    "MissingKey",
    "NotFound",
    "ReadOnlyBranch",
    "Refused",
    "RuleViolation",
    "StorageFailure",
    "TransactionConflict",
    "Unsupported",
    "Untrusted",
]


class LivingDBError(Exception):
    """Base of every error LivingDB raises on purpose."""

    code = "error"


class NotFound(LivingDBError):
    """What was named does not exist."""

    code = "not_found"


class AlreadyExists(LivingDBError):
    """The name is already taken."""

    code = "already_exists"


class InvalidName(LivingDBError):
    """Not a name LivingDB accepts."""

    code = "invalid_name"


class InvalidData(LivingDBError):
    """Data that does not fit; says which column, which row and what was expected."""

    code = "invalid_data"


class DuplicateKey(InvalidData):
    """A key appears twice, or is in the table already."""

    code = "duplicate_key"


class DuplicateValue(DuplicateKey):
    """Two rows have one value in the columns of a unique constraint.

    `table`, `columns`, `value` and `keys` say which; values and keys of several columns are
    tuples.
    """

    code = "duplicate_value"
    table: str
    columns: tuple[str, ...]
    value: typing.Any
    keys: tuple[typing.Any, ...]

    def __init__(self, message: str):
        super().__init__(message)
        self.table = ""
        self.columns = ()
        self.value = None
        self.keys = ()


class MissingKey(InvalidData):
    """A key that had to be in the table is not there."""

    code = "missing_key"


class BrokenConstraint(InvalidData):
    """A row would break what its table demands: NOT NULL, a check, a length or a foreign key."""

    code = "broken_constraint"


class Refused(LivingDBError):
    """The graph's rules or the opening process's trust say no."""

    code = "refused"


class ReadOnlyBranch(Refused):
    """The branch is the target of a one-way sync; detach it to write."""

    code = "read_only_branch"


class RuleViolation(Refused):
    """A rule of the snapshot graph forbids the operation."""

    code = "rule_violation"


class IllegalSync(Refused):
    """The change cannot be kept in step in that direction or on that schedule.

    `condition` is the place, among the conditions that were given, of the one that cannot be.
    """

    code = "illegal_sync"

    def __init__(self, message: str, condition: int | None = None):
        super().__init__(message)
        self.condition = condition


class Forbidden(Refused):
    """This process or user may not do it: a database that is only read, for instance."""

    code = "forbidden"


class LimitExceeded(Refused):
    """It takes more time, rows or room than whoever asks may have."""

    code = "limit_exceeded"


class Untrusted(Refused):
    """A function named in the database that this process was not told to trust."""

    code = "untrusted"


class MaskKeyMissing(Refused):
    """This process does not have the key of a mask; says which, and where it comes from."""

    code = "mask_key_missing"


class Conflict(LivingDBError):
    """Two changes meet on the same rows."""

    code = "conflict"


class MergeConflict(Conflict):
    """Both sides of a merge changed the same row or cell.

    `conflicts` has, per table, the rows: key, `_base`, `_ours`, `_theirs` (an Arrow table);
    `schema_conflicts` says why a table cannot be merged as a whole.
    """

    code = "merge_conflict"
    conflicts: dict[str, typing.Any]
    schema_conflicts: dict[str, str]

    def __init__(self, message: str):
        super().__init__(message)
        self.conflicts = {}
        self.schema_conflicts = {}


class TransactionConflict(Conflict):
    """Another writer changed the same rows first.

    `of_rows`: nothing else is in the way, so that who read nothing before can just write again.
    """

    code = "transaction_conflict"

    def __init__(self, message: str = "", *, of_rows: bool = False):
        super().__init__(message)
        self.of_rows = of_rows


class Corruption(LivingDBError):
    """Stored bytes are not what their address promises."""

    code = "corruption"


class StorageFailure(LivingDBError):
    """The disk or the object store failed or is full; nothing was changed."""

    code = "storage_failure"


class Locked(LivingDBError):
    """Somebody else holds what is needed."""

    code = "locked"


class Forgotten(LivingDBError):
    """What was named was there, and its rows are gone for good."""

    code = "forgotten"


class Unsupported(LivingDBError):
    """A type, statement or engine LivingDB does not take."""

    code = "unsupported"
