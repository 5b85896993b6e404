"""Sessions over HTTP: an API with tokens and spaces, events as they come, and a WebSocket."""
