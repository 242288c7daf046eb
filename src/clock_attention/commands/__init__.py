"""All `clock-attention …` commands, and the terminal output they share."""
