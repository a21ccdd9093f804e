"""Measures redisjobs, and small prototypes beside it, on one machine in one run: `python -m benchmarks`."""
