"""Measures of utterances: word errors, skips and repeats, pitch, sharpness, predicted opinion scores."""
