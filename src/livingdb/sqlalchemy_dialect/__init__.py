"""LivingDB as a database of SQLAlchemy, over `livingdb.dbapi`.

    import sqlalchemy

    engine = sqlalchemy.create_engine("livingdb:///shop.ldb?branch=dev")
    engine = sqlalchemy.create_engine("livingdb://bob:ldb_…@host:8765/?branch=dev")

Where the package is installed SQLAlchemy finds the dialect by itself; elsewhere importing this
module makes it known.  So does it for the migrations of Alembic, if that is there.
"""

from contextlib import suppress

from sqlalchemy.dialects import registry

from livingdb.sqlalchemy_dialect.dialect import LivingDBDialect
from livingdb.sqlalchemy_dialect.nested_type import Nested

with suppress(ImportError):  # Alembic is another package
    from livingdb.sqlalchemy_dialect import migrations as _migrations  # noqa: F401

__all__ = ["LivingDBDialect", "Nested"]

for _name in ("livingdb", "livingdb.dbapi", "livingdb.https"):
    registry.register(_name, "livingdb.sqlalchemy_dialect", "LivingDBDialect")
