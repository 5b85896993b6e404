"""What every operation answers: the structs that the command, HTTP, MCP and the bridge encode.

An operation whose result is a struct already (`Stats`, `Comparison`, `Erased` …) answers with that.
Members are added, never renamed or removed. Times are Unix milliseconds, unless a struct says
otherwise. Whoever answers imports the module of its subject where it answers: a program that
records, or lists for people, loads none of them.
"""
