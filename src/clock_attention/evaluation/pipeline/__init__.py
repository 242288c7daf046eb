"""Evaluation from prompts to scores: speak, vocode, recognise, cache and compare, over a range of lengths."""
