"""A recorded session told again to an editor."""
