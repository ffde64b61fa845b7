"""The HTTP API: the ordinary API of a database, with names on the door."""
