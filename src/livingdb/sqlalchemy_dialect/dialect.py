"""The dialect itself: what LivingDB can do, how it is connected to, and its transactions."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import ArgumentError
from sqlalchemy.sql.compiler import InsertmanyvaluesSentinelOpts

from livingdb.sqlalchemy_dialect.column_types import LivingDBTypeCompiler
from livingdb.sqlalchemy_dialect.definitions import LivingDBDefinitions
from livingdb.sqlalchemy_dialect.identifiers import LivingDBIdentifierPreparer
from livingdb.sqlalchemy_dialect.reflection import Reflection
from livingdb.sqlalchemy_dialect.statements import LivingDBCompiler
from livingdb.sqlalchemy_dialect.url_options import connect_arguments
from livingdb.sqlalchemy_dialect.values import COLUMN_SPECS
from livingdb.version import __version__

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

__all__ = ["LivingDBDialect"]

_AUTOCOMMIT = "AUTOCOMMIT"
_LOST = ("unreachable", "session_ended")
"""Codes of errors after which nothing is left of what a connection did."""
_LEVELS = ("SNAPSHOT", "SERIALIZABLE", _AUTOCOMMIT)


class LivingDBDialect(Reflection):
    """LivingDB in SQLAlchemy: databases by their paths and servers, through `livingdb.dbapi`."""

    name = "livingdb"
    driver = "dbapi"
    default_paramstyle = "qmark"
    supports_statement_cache = True

    statement_compiler = LivingDBCompiler
    ddl_compiler = LivingDBDefinitions
    type_compiler_cls = LivingDBTypeCompiler
    preparer = LivingDBIdentifierPreparer  # type: ignore[assignment]
    colspecs = COLUMN_SPECS

    max_identifier_length = 255
    max_index_name_length = 200
    div_is_floordiv = False
    returns_native_bytes = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_sane_rowcount = True
    supports_sane_multi_rowcount = True

    supports_multivalues_insert = True
    supports_default_metavalue = True
    supports_default_values = True
    supports_empty_insert = False
    cte_follows_insert = True

    insert_returning = True
    favor_returning_over_lastrowid = True
    postfetch_lastrowid = False
    use_insertmanyvalues = True
    use_insertmanyvalues_wo_returning = False
    insertmanyvalues_implicit_sentinel = InsertmanyvaluesSentinelOpts.ANY_AUTOINCREMENT
    """Rows draw their numbers in the order in which they stand in a statement."""
    supports_identity_columns = True
    supports_sequences = False

    supports_alter = True
    supports_comments = False

    def __init__(
        self,
        json_serializer: Callable[[Any], str] | None = None,
        json_deserializer: Callable[[str], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._json_serializer = json_serializer
        self._json_deserializer = json_deserializer

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """`livingdb.dbapi`."""
        from livingdb import dbapi

        return dbapi

    def create_connect_args(self, url: URL) -> Any:
        """Where the database is, and how it is opened."""
        place, options = connect_arguments(url)
        return [place], options

    # --- transactions ---------------------------------------------------------------------------

    def get_isolation_level_values(self, dbapi_connection: Any) -> Any:
        """SNAPSHOT, SERIALIZABLE, and AUTOCOMMIT: no transaction but each statement."""
        return _LEVELS

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        """How the connection's transactions see what others do."""
        return _AUTOCOMMIT if dbapi_connection.autocommit else dbapi_connection.isolation.upper()

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        """For transactions that begin from now on."""
        if dbapi_connection.in_transaction:
            dbapi_connection.rollback()
        dbapi_connection.autocommit = level == _AUTOCOMMIT
        if level != _AUTOCOMMIT:
            dbapi_connection.isolation = level.lower()

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        """Whether each statement is a transaction."""
        return bool(dbapi_conn.autocommit)

    def do_savepoint(self, connection: Any, name: str) -> None:
        """Refused."""
        raise ArgumentError(
            "a transaction has no savepoints: roll it back as a whole, or clone the branch and "
            "merge what went well"
        )

    # --- statements -----------------------------------------------------------------------------

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether the connection is of no use any more: it was closed, or its server is gone."""
        from livingdb.dbapi import InterfaceError

        if getattr(e, "code", None) in _LOST:
            return True
        return isinstance(e, InterfaceError) and "the connection is closed" in str(e)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        parts = __version__.split("+")[0].split(".")
        return tuple(int(part) for part in parts if part.isdecimal())

    def _get_default_schema_name(self, connection: Any) -> str:
        return str(connection.connection.dbapi_connection.branch)
