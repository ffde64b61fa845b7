"""Tables: schemas, versions as recipes, deltas, materializations."""
