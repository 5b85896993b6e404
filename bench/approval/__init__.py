"""One program in each framework: a call that waits for approval, is approved in another process, and is killed.

``make bench-approval`` runs all of them and writes ``bench/APPROVAL.md`` and the table on the page that compares.
"""
