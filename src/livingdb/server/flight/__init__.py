"""Arrow Flight SQL: the way in for ADBC, JDBC and whoever speaks Arrow over a network."""
