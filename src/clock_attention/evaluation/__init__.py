"""Evaluation of voices: prompts, recognizers, word error rates with confidence intervals."""
