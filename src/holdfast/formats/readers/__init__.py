"""One module for each tool whose sessions can be brought in; each has its ``READER``."""
