"""The embedded engine: DuckDB in this process, with Spark's meaning."""
