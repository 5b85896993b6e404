"""The bridge: sessions and an agent for programs in any language, one line of JSON at a time."""
