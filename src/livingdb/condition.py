"""Conditions: what has to hold of a change before a sync carries it.

    from livingdb import condition

    main.derive("totals", "SELECT …", conditions=[
        condition.max_changed_share(0.2, action="hold"),
        condition.not_null("city", action="quarantine"),
        condition.mean("total") <= 100,
        condition.parse("rows >= 1")[0] | condition.authors("ann"),
    ])

What begins with a verb or `max_` is a condition; the others measure something, and compared with
a number they are one.  `action` is "detach", "hold", "warn", "quarantine" or "fail".
"""

from __future__ import annotations

from livingdb.guard.conditions.bounds import (
    distinct_count,
    max_distinct_shift,
    max_ks,
    max_mean_shift,
    max_null_rate,
    max_psi,
    max_quantile_shift,
    max_stddev_shift,
    max_zscore,
    mean_between,
    quantile_between,
    stddev_between,
)
from livingdb.guard.conditions.combination import all_of, any_of, not_
from livingdb.guard.conditions.condition import Condition, Verdict
from livingdb.guard.conditions.kinds.cost import BytesRead as bytes_read  # noqa: N813
from livingdb.guard.conditions.kinds.cost import RowsRead as rows_read  # noqa: N813
from livingdb.guard.conditions.kinds.cost import max_bytes_read, max_rows_read, no_full_refresh
from livingdb.guard.conditions.kinds.custom import function, sql
from livingdb.guard.conditions.kinds.distribution import Distinct as distinct  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import DistinctShift as distinct_shift  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import Ks as ks  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import Mean as mean  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import MeanShift as mean_shift  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import NullRate as null_rate  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import Psi as psi  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import Quantile as quantile  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import QuantileShift as quantile_shift  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import Stddev as stddev  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import StddevShift as stddev_shift  # noqa: N813
from livingdb.guard.conditions.kinds.distribution import Zscore as zscore  # noqa: N813
from livingdb.guard.conditions.kinds.governance import approval, authors, no_label, not_authors
from livingdb.guard.conditions.kinds.model import Score as score  # noqa: N813
from livingdb.guard.conditions.kinds.model import ScoreDrop as score_drop  # noqa: N813
from livingdb.guard.conditions.kinds.model import max_feature_drift, max_score_drop, min_score
from livingdb.guard.conditions.kinds.referential import counts_reconcile, no_orphans, reconciles
from livingdb.guard.conditions.kinds.schema import (
    no_destructive_change,
    no_retype,
    no_schema_change,
    only_additive,
)
from livingdb.guard.conditions.kinds.time import Age as age  # noqa: N813
from livingdb.guard.conditions.kinds.time import ChangeRate as change_rate  # noqa: N813
from livingdb.guard.conditions.kinds.time import Lag as lag  # noqa: N813
from livingdb.guard.conditions.kinds.time import freeze, max_age, max_change_rate, max_lag
from livingdb.guard.conditions.kinds.values import (
    accepted_values,
    in_range,
    length,
    matches,
    not_null,
    unique,
)
from livingdb.guard.conditions.kinds.volume import Changed as changed  # noqa: N813
from livingdb.guard.conditions.kinds.volume import ChangedShare as changed_share  # noqa: N813
from livingdb.guard.conditions.kinds.volume import Deleted as deleted  # noqa: N813
from livingdb.guard.conditions.kinds.volume import DeletedShare as deleted_share  # noqa: N813
from livingdb.guard.conditions.kinds.volume import Inserted as inserted  # noqa: N813
from livingdb.guard.conditions.kinds.volume import InsertedShare as inserted_share  # noqa: N813
from livingdb.guard.conditions.kinds.volume import RowCount as rows  # noqa: N813
from livingdb.guard.conditions.kinds.volume import Updated as updated  # noqa: N813
from livingdb.guard.conditions.kinds.volume import UpdatedShare as updated_share  # noqa: N813
from livingdb.guard.conditions.kinds.volume import (
    max_changed,
    max_changed_share,
    max_deleted,
    max_deleted_share,
    max_inserted,
    max_inserted_share,
    max_updated,
    max_updated_share,
    not_empty,
    row_count,
)
from livingdb.guard.conditions.metric import Metric
from livingdb.guard.conditions.pending_change import PendingChange
from livingdb.guard.conditions.text import parse

__all__ = [
    "Condition",
    "Metric",
    "PendingChange",
    "Verdict",
    "accepted_values",
    "age",
    "all_of",
    "any_of",
    "approval",
    "authors",
    "bytes_read",
    "change_rate",
    "changed",
    "changed_share",
    "counts_reconcile",
    "deleted",
    "deleted_share",
    "distinct",
    "distinct_count",
    "distinct_shift",
    "freeze",
    "function",
    "in_range",
    "inserted",
    "inserted_share",
    "ks",
    "lag",
    "length",
    "matches",
    "max_age",
    "max_bytes_read",
    "max_change_rate",
    "max_changed",
    "max_changed_share",
    "max_deleted",
    "max_deleted_share",
    "max_distinct_shift",
    "max_feature_drift",
    "max_inserted",
    "max_inserted_share",
    "max_ks",
    "max_lag",
    "max_mean_shift",
    "max_null_rate",
    "max_psi",
    "max_quantile_shift",
    "max_rows_read",
    "max_score_drop",
    "max_stddev_shift",
    "max_updated",
    "max_updated_share",
    "max_zscore",
    "mean",
    "mean_between",
    "mean_shift",
    "min_score",
    "no_destructive_change",
    "no_full_refresh",
    "no_label",
    "no_orphans",
    "no_retype",
    "no_schema_change",
    "not_",
    "not_authors",
    "not_empty",
    "not_null",
    "null_rate",
    "only_additive",
    "parse",
    "psi",
    "quantile",
    "quantile_between",
    "quantile_shift",
    "reconciles",
    "row_count",
    "rows",
    "rows_read",
    "score",
    "score_drop",
    "sql",
    "stddev",
    "stddev_between",
    "stddev_shift",
    "unique",
    "updated",
    "updated_share",
    "zscore",
]
