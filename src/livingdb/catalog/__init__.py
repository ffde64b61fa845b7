"""The catalog: a SQL database of what changes (heads, names) and of what is indexed."""
