"""The speed of Holdfast, as ratios to the limits of the machine.

``python -m bench`` measures, prints and writes RESULTS.md; ``python -m bench.recovery`` compares
the repair of broken histories with that of other frameworks.
"""
