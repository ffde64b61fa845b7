"""Schema changes of a branch: made, with the old schema kept, and versions retired."""
