"""Implementations of clock attention. `reference` is the specification; every other one is tested against it."""
