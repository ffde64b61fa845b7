"""SQL: Spark's dialect over the tables of a branch, answered by either engine."""
