"""``holdfast acp agent``: our own agent, served to an editor."""
