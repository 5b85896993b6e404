"""One program, written with each framework: a call that waits for a person, is approved elsewhere, and is killed.

``make bench-approval`` runs all of them and writes ``bench/APPROVAL.md`` and the table on the page that compares.
"""
