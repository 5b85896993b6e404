"""Past sessions for other agents, by the Model Context Protocol."""
