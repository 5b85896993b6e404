"""One module for each tool whose sessions can be imported; each has its ``READER``."""
