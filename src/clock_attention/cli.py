"""`python -m clock_attention.cli`, for torchrun; the command itself is `clock_attention.commands.main`."""

from clock_attention.commands.main import app, main

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
