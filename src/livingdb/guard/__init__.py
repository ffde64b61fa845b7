"""Guards of syncs: conditions, quarantine, approval, and the states a sync goes through."""
