"""The chunks of one database: staged, in the journal, in packs; the index over versions; upkeep."""
