"""Every `clock-attention …` command, and what they print through."""
