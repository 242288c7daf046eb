"""The `clock-attention` command. Each part of the toolkit brings its own sub-commands."""

from __future__ import annotations

import typer

from clock_attention.evaluation import evaluate_cli
from clock_attention.speech import corpus_cli, train_cli

app = typer.Typer(
    help="Stochastic clock attention: prepare corpora, train, speak and evaluate.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.add_typer(corpus_cli.app, name="corpus")
app.command()(train_cli.train)
app.command()(train_cli.export)
app.command()(evaluate_cli.evaluate)
app.command()(evaluate_cli.prompts)


def main() -> None:
    app()


if __name__ == "__main__":
    main()
