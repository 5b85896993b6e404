"""``holdfast acp proxy``: between an editor and any agent, keeping every session."""
