"""The file store: a directory that is complete by itself and can be copied by hand."""
