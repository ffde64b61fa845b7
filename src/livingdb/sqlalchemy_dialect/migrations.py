"""Migrations of Alembic: each of their operations on a table is a schema change of the branch."""

from __future__ import annotations

from typing import Any

from alembic.ddl.impl import DefaultImpl
from sqlalchemy.schema import DDLElement

from livingdb.sql.parse import is_definition

__all__ = ["LivingDBMigrations"]


class LivingDBMigrations(DefaultImpl):
    """How migrations are run and made here.

    A schema change is a snapshot of its own, so rows that a migration wrote before one are
    committed first, and the number of the migration after all of them.
    """

    __dialect__ = "livingdb"
    transactional_ddl = False

    def _exec(self, construct: Any, *args: Any, **kw: Any) -> Any:
        text = construct if isinstance(construct, str) else str(getattr(construct, "text", ""))
        if isinstance(construct, DDLElement) or is_definition(text):
            self._commit_rows()
        return super()._exec(construct, *args, **kw)

    def _commit_rows(self) -> None:
        if self.connection is not None:
            self.connection.connection.commit()

    def compare_server_default(
        self,
        inspector_column: Any,
        metadata_column: Any,
        rendered_metadata_default: Any,
        rendered_inspector_default: Any,
    ) -> bool:
        """Whether a default is another: `'1'` of a column of numbers is 1."""
        given, held = rendered_metadata_default, rendered_inspector_default
        return bool(_unquoted(given) != _unquoted(held))

    def _compare_identity_default(self, metadata_identity: Any, inspector_identity: Any) -> Any:
        """A key draws its values also where the model does not say `Identity()`."""
        if metadata_identity is None and not inspector_identity.always:
            return set(), set(), False
        return super()._compare_identity_default(  # type: ignore[no-untyped-call]
            metadata_identity, inspector_identity
        )

    def correct_for_autogen_constraints(
        self,
        conn_uniques: Any,
        conn_indexes: Any,
        metadata_unique_constraints: Any,
        metadata_indexes: Any,
    ) -> None:
        """A unique index is the constraint of its name."""
        held = {unique.name: unique for unique in conn_uniques}
        for index in list(metadata_indexes):
            if index.unique and index.name in held:
                metadata_indexes.discard(index)
                conn_uniques.discard(held[index.name])


def _unquoted(text: str | None) -> str | None:
    return None if text is None else text.strip("()").strip("'")
