"""Every `clock-attention …` command, and what they share: the terminal."""
