"""Intelligibility of a voice: prompts, recognizers, word error rates with intervals."""
