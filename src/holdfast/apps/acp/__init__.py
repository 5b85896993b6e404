"""The Agent Client Protocol: a recording proxy, our own agent, and a client for other agents."""
