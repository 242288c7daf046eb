"""The speech testbed: text and recordings in, mel frames and phonemes out, and the models between them."""
