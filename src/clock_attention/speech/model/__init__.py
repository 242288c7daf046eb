"""The acoustic model: phonemes to mel frames."""
