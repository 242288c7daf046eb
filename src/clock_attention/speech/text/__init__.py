"""From free text to phonemes."""
