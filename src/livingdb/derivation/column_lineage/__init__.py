"""Column lineage: what the columns of a query, a schema change or a sync are computed from."""
