"""SQL databases as the catalog uses them: SQLite and PostgreSQL, statements prepared once."""
