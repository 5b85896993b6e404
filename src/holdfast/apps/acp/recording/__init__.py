"""Recording of the traffic between an editor and an agent as events of a session."""
