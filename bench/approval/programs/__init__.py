"""The program, once for each framework: ``PROGRAM STORE ask|approve|go_on``.

What counts as the program is what comes after the line ``# The program``: above it are the imports and the script
that stands for a language model. ``pay`` is the same for all.
"""
