"""Which requirements of SQLAlchemy's compliance suite LivingDB meets, and why not the others.

The table of `docs/how-to/sqlalchemy.md` is `EXCLUDED`.
"""

from __future__ import annotations

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

_BRANCHES = "a branch is a schema, and a statement changes tables of the branch it runs on"
_CASCADE = "a row that others name stays: `ON DELETE` and `ON UPDATE` do nothing else"
_COMMENTS = "tables and columns hold no comments"
_INDEXES = "an index is on columns of a table, and a constraint is none"
_JSON = "documents are kept as text, and queries do not look into them by index or path"
_LATER = "constraints hold when a transaction commits, and cannot be deferred further"
_SINGLE = "a foreign key is one column that names the key of one table"
_TEMPORARY = (
    "nothing is temporary: `WITH` names a query, and a branch holds what is dropped with it"
)
_TIMES = "tables hold no times of day"

EXCLUDED = {
    "async_dialect": "connections are not asynchronous",
    "column_collation_reflection": "texts are compared letter by letter",
    "comment_reflection": _COMMENTS,
    "comment_reflection_full_unicode": _COMMENTS,
    "constraint_comment_reflection": _COMMENTS,
    "computed_columns_virtual": "computed columns are stored",
    "create_table_as": "`CREATE TABLE … AS` names the key, which SQLAlchemy's construct does not",
    "create_temp_table_as": _TEMPORARY,
    "ctes_on_dml": "a change stands by itself, not in a `WITH`",
    "cross_schema_fk_reflection": _BRANCHES,
    "dbapi_lastrowid": "rows are known by their keys; `RETURNING` tells those that were drawn",
    "default_schema_name_switch": _BRANCHES,
    "deferrable_fks": _LATER,
    "delete_from": "`DELETE` names one table; a query in `WHERE` reads others",
    "delete_returning": "only `INSERT` returns rows",
    "emulated_lastrowid": "rows are known by their keys; `RETURNING` tells those that were drawn",
    "emulated_lastrowid_even_with_sequences": "there are no sequences",
    "expression_server_defaults": "a default is a value, and nothing that is computed",
    "fetch_percent": "`LIMIT` counts rows",
    "fetch_ties": "`LIMIT` counts rows",
    "fetch_offset_with_options": "`LIMIT` counts rows",
    "foreign_key_constraint_option_reflection_ondelete": _CASCADE,
    "foreign_key_constraint_option_reflection_onupdate": _CASCADE,
    "fk_constraint_option_reflection_ondelete_noaction": _CASCADE,
    "fk_constraint_option_reflection_ondelete_restrict": _CASCADE,
    "fk_constraint_option_reflection_onupdate_restrict": _CASCADE,
    "foreign_keys_reflect_as_index": _INDEXES,
    "has_temp_table": _TEMPORARY,
    "implements_get_lastrowid": "rows are known by their keys; `RETURNING` tells those drawn",
    "implicit_default_schema": _BRANCHES,
    "implicitly_named_constraints": "a foreign key that is given no name has none",
    "index_reflects_included_columns": _INDEXES,
    "indexes_with_ascdesc": _INDEXES,
    "indexes_with_expressions": _INDEXES,
    "json_deserializer_binary": "documents are text",
    "legacy_unconditional_json_extract": _JSON,
    "materialized_views": "the suite makes indexes on them",
    "materialized_views_reflect_pk": "the suite makes indexes on them",
    "nvarchar_types": "texts are Unicode, and there is one type for them",
    "on_update_cascade": _CASCADE,
    "order_by_collation": "texts are compared letter by letter",
    "recursive_fk_cascade": _CASCADE,
    "reflect_indexes_with_ascdesc": _INDEXES,
    "reflect_indexes_with_ascdesc_as_expression": _INDEXES,
    "reflect_indexes_with_expressions": _INDEXES,
    "reflect_tables_no_columns": "a table has at least a key",
    "reflects_pk_names": "a primary key has no name",
    "repeated_column_foreign_keys": _SINGLE,
    "repeated_remote_col_foreign_keys": _SINGLE,
    "savepoints": "a transaction has no savepoints",
    "schema_create_delete": _BRANCHES,
    "schemas": _BRANCHES,
    "sequences": "there are no sequences: identity columns draw numbers",
    "sequences_optional": "there are no sequences: identity columns draw numbers",
    "server_side_cursors": "a database is in the process that asks it",
    "supports_distinct_on": "`DISTINCT` is of whole rows",
    "temp_table_comment_reflection": _TEMPORARY,
    "temp_table_names": _TEMPORARY,
    "temp_table_reflect_indexes": _TEMPORARY,
    "temp_table_reflection": _TEMPORARY,
    "temporary_tables": _TEMPORARY,
    "temporary_views": _TEMPORARY,
    "time": _TIMES,
    "time_implicit_bound": _TIMES,
    "time_microseconds": _TIMES,
    "time_timezone": _TIMES,
    "datetime_interval": "tables hold no intervals",
    "two_phase_transactions": "a transaction commits in one step, on one branch",
    "unique_constraints_reflect_as_index": _INDEXES,
    "update_from": "`UPDATE` names one table; a query in `SET` reads others",
    "update_returning": "only `INSERT` returns rows",
    "uuid_data_type": "there is no type for UUIDs: `Uuid` is kept as text",
    "window_range_non_numeric": "tables hold no intervals, and parameters are none",
}
"""By name, why a requirement is not met."""

LEFT_OUT = {
    "BizarroCharacterTest.test_fk_ref[*-use_composite]": _SINGLE,
    "ComponentReflectionTest.test_get_indexes[*": "a unique index is a constraint",
    "ComponentReflectionTest.test_get_multi_indexes[*": "a unique index is a constraint",
    "ComponentReflectionTest.test_get_unique_constraints[*": (
        "the same columns are unique once, in whatever order they are named"
    ),
    "ComponentReflectionTest.test_metadata[*-True]": _BRANCHES,
    "ComponentReflectionTestExtra.test_check_constraint_*[True*": _BRANCHES,
    "ComponentReflectionTestExtra.test_server_defaults[DateTime-*": "a default is a value",
    "ComponentReflectionTestExtra.test_string_length_reflection[CHAR-*": (
        "text has no fixed length: `CHAR(n)` is `VARCHAR(n)`"
    ),
    "CompositeKeyReflectionTest.*": _SINGLE,
    "DistinctOnTest.*": "`DISTINCT ON` is refused, where the suite expects a warning",
    "IdentityColumnTest.*": "identity columns have no least and greatest number",
    "IdentityReflectionTest.*": "identity columns have no least and greatest number",
    "JSONTest.test_index_cross_casts[*": _JSON,
    "QuotedNameArgumentTest.*": "names of tables hold no quotes",
    "TrueDivTest.test_truediv_divisor[numeric_38_digit_divisor-*": (
        "a quotient of decimals that would need more than 38 digits is an error"
    ),
    "TableViaSelectTest.test_view_dependencies_with_metadata": (
        "a view follows when what it is made of is committed, and not within the transaction"
    ),
}
"""By name, why a test is not run that no requirement speaks of."""

MET = """
    aggregate_order_by array_type autocommit boolean_col_expressions check_constraint_reflection
    computed_columns computed_columns_default_persisted computed_columns_reflect_persisted
    computed_columns_stored create_or_replace_view ctes ctes_with_update_delete ctes_with_values
    date_historic datetime_historic datetime_literals datetime_timezone datetime_timezone_historic
    except_ fetch_expression fetch_first fetch_no_order_by
    float_or_double_precision_behaves_generically foreign_key_constraint_name_reflection
    identity_columns identity_columns_standard index_ddl_if_exists indexes_check_column_order
    infinity_floats inline_check_constraint_reflection intersect isolation_level json_type
    mod_operator_as_percent_sign non_updating_cascade nullsordering order_by_label_with_expression
    percent_schema_names precision_numerics_enotation_small
    precision_numerics_many_significant_digits precision_numerics_retains_significant_digits
    reflect_table_options regexp_match regexp_replace server_defaults skip_autocommit_rollback
    supports_bitwise_and supports_bitwise_not supports_bitwise_or supports_bitwise_shift
    supports_bitwise_xor table_ddl_if_exists table_value_constructor timestamp_microseconds tuple_in
    unicode_ddl unique_index_reflect_as_unique_constraints views window_functions window_range
    window_range_numeric
"""
"""What the suite does not ask of a dialect unless it says so, and is met."""


class Requirements(SuiteRequirements):
    """The suite's own, but for those that are said here to be met or not."""

    def get_isolation_levels(self, config):
        """The levels there are, and which is the usual one."""
        return {"default": "SNAPSHOT", "supported": ["SNAPSHOT", "SERIALIZABLE", "AUTOCOMMIT"]}


for _name, _reason in EXCLUDED.items():
    _skip = exclusions.skip_if(exclusions.BooleanPredicate(True, _reason))
    setattr(Requirements, _name, property(lambda self, skip=_skip: skip))
for _name in MET.split():
    setattr(Requirements, _name, property(lambda self: exclusions.open()))
