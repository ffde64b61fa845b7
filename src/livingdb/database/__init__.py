"""What users hold: a database, its branches, tables, snapshots and transactions."""
