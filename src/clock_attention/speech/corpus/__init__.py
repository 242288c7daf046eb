"""Corpora: from recordings or a synthetic teacher to a feature store."""
