"""How well a voice is understood: prompts, recognizers, word error rates with intervals."""
