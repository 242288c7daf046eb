"""From prompts to scores: speak, vocode, recognise, keep, compare; over a range of lengths."""
