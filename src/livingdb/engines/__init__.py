"""Query engines: one Engine protocol, answered by DuckDB in this process or by Spark."""
