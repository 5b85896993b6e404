"""The page for people: every session of a store in a browser, on this machine."""
