"""Measures of utterances: word errors by recognizers, skips and repeats, pitch, sharpness, predicted opinion."""
