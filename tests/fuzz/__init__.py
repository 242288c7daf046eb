"""Fuzzers: seeded, one case at a time, each to be repeated by its number.

    python -m tests.fuzz texts --count 100000 --seed 0
    python -m tests.fuzz texts --seed 0 --only 1234

Counts go to `results/fuzz.json`. `make test` runs a few seconds of each, `make test-all` a few minutes.
"""
