"""The portable subset of SQL: what both engines are tested to answer alike, and its types."""
