"""Prompts to speak and score: CMU ARCTIC, the Harvard sentences, any text file, and our own list of hard cases."""

from __future__ import annotations

import random
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from clock_attention.files import write_atomically

# A line of festvox's cmuarctic.data: ( arctic_a0001 "Author of the danger trail, Philip Steels, etc." )
ARCTIC_LINE = re.compile(r'^\(\s*(\S+)\s+"(.*)"\s*\)$')
IDENTIFIED = re.compile(r"^[^\s|]*\s*\|")  # an id has no spaces; "Press the | key." is a sentence


LISTS = Path("data/prompts")  # folder of downloaded lists
SHORT_NAMES = {"arctic": "cmu_arctic", "cmu_arctic": "cmu_arctic", "harvard": "harvard"}


@dataclass(frozen=True)
class Prompt:
    """A sentence to speak. `group` is the list it comes from; for the hard list, also the kind of difficulty."""

    id: str
    text: str
    group: str


def read_prompts(path: str | Path) -> list[Prompt]:
    """Read a file of prompts: festvox's `cmuarctic.data`, `id|text` lines, or plain text with one sentence per line."""
    path = Path(path)
    try:
        lines = path.read_text("utf-8-sig").split("\n")  # texts may contain what splitlines treats as line ends
    except FileNotFoundError:
        raise FileNotFoundError(f"no file of prompts at {path}: give a text file with one sentence a line") from None
    except IsADirectoryError:
        raise IsADirectoryError(f"{path} is a folder: give a text file with one sentence a line") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}): convert it first") from None
    prompts = parse(lines, path.stem)
    if not prompts:
        raise ValueError(f"{path} holds no prompts: expected a sentence a line, `id|text`, or festvox's format")
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise ValueError(f"{path}: the id {prompt.id!r} occurs twice; ids must be unique")
        seen.add(prompt.id)
    return prompts


def parse(lines: Iterable[str], group: str) -> list[Prompt]:
    """Parse the lines of a list of prompts: skips blank lines and comments (`#`); default ids have the line number."""
    prompts = []
    for number, line in enumerate(lines, start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if arctic := ARCTIC_LINE.match(line):
            name, text = arctic[1], arctic[2].replace('\\"', '"')
        elif IDENTIFIED.match(line):
            # LJSpeech's metadata has a third column, the text with its numbers written out.
            name, *texts = (part.strip() for part in line.split("|"))
            text = next((text for text in reversed(texts) if text), "")
        else:
            name, text = f"{group}-{number:04d}", line
        if not name or not any(letter.isalnum() for letter in text):
            raise ValueError(f"line {number} of {group}: expected an id and a sentence, got {line!r}")
        prompts.append(Prompt(name, text, group))
    return prompts


def hard_prompts() -> list[Prompt]:
    """Our own list of hard prompts: repetition, digits, letters, one word, sixty words, tongue twisters."""
    text = (files("clock_attention.evaluation") / "lists" / "hard.txt").read_text("utf-8")
    return [
        Prompt(prompt.id, prompt.text, f"hard/{prompt.id.rpartition('-')[0]}")
        for prompt in parse(text.splitlines(), "hard")
    ]


def load_prompts(
    names: Sequence[str], *, subset: int | None = None, seed: int = 0, folder: str | Path = LISTS
) -> list[Prompt]:
    """Load the prompts of lists by name: a text file, "arctic", "harvard", "hard", or the utterances of a corpus.

    Args:
        names: "arctic" and "harvard" are read from `folder`, and downloaded if they are missing; "valid:CORPUS" and
            "test:CORPUS" are the held-out utterances of a feature store.
        subset: size of a stratified subset, the same for the same seed.
    """
    prompts = [prompt for name in names for prompt in named_prompts(name, Path(folder))]
    for first, second in pairwise(sorted(prompts, key=lambda prompt: prompt.id)):
        if first.id == second.id:
            raise ValueError(f"the id {first.id!r} occurs in {first.group} and in {second.group}; ids must be unique")
    return prompts if subset is None or subset >= len(prompts) else stratified(prompts, subset, seed)


def named_prompts(name: str, folder: Path) -> list[Prompt]:
    """Load the prompts of one list by name."""
    if name in SHORT_NAMES:
        return read_prompts(fetch_prompts(SHORT_NAMES[name], folder))
    if name == "hard":
        return hard_prompts()
    split, colon, corpus = name.partition(":")
    if colon and split in ("valid", "test"):
        return held_out_prompts(Path(corpus), split)
    return read_prompts(name)


def held_out_prompts(corpus: Path, split: str) -> list[Prompt]:
    """Prompts from the held-out utterances of a corpus."""
    from clock_attention.speech.corpus.store import FeatureStore

    store = FeatureStore.open(corpus)
    prompts = [Prompt(store.utterances[i].id, store.utterances[i].text, split) for i in store.split(split)]
    if not prompts:
        raise ValueError(f"{corpus} has no {split} utterances: prepare it with --{split} 0.02")
    return prompts


def stratified(prompts: Sequence[Prompt], size: int, seed: int = 0) -> list[Prompt]:
    """Draw `size` prompts, in their original order, with groups and sentence lengths represented proportionally.

    Prompts are ordered by group and length and cut into `size` equal strata; one prompt is drawn from each.
    """
    if not 1 <= size <= len(prompts):
        raise ValueError(f"cannot draw {size} of {len(prompts)} prompts")
    draw = random.Random(f"stratified:{seed}")
    # Ties in length are shuffled; otherwise neighbours in the file would always share a stratum.
    ranked = sorted(range(len(prompts)), key=lambda i: (prompts[i].group, len(prompts[i].text.split()), draw.random()))
    edges = [round(stratum * len(prompts) / size) for stratum in range(size + 1)]
    chosen = [draw.choice(ranked[low:high]) for low, high in pairwise(edges)]
    return [prompts[i] for i in sorted(chosen)]


@dataclass(frozen=True)
class PublishedList:
    """A published list of prompts: its URL, size, licence, and parser."""

    url: str
    size: int
    licence: str
    extract: Callable[[str], list[str]]


class ListItems(HTMLParser):
    """HTML parser for a downloaded list of prompts: collects the text of <li> elements, which need not be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.items: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "li":
            self.items.append("")
        self._inside = tag == "li" or (self._inside and tag not in ("ol", "ul", "h1", "h2", "h3", "p", "hr"))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("li", "ol", "ul"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.items[-1] += data


def arctic_lines(page: str) -> list[str]:
    """Extract the prompts from festvox's file of the CMU ARCTIC sentences, as `id|text` lines."""
    found = (ARCTIC_LINE.match(line.strip()) for line in page.splitlines())
    return [f"{one[1]}|{one[2]}".replace('\\"', '"') for one in found if one]


def harvard_lines(page: str) -> list[str]:
    """Extract the prompts from the web page of the Harvard sentences."""
    parser = ListItems()
    parser.feed(page)
    return [text for item in parser.items if (text := " ".join(item.split()))]


PUBLISHED = {
    "cmu_arctic": PublishedList(
        url="http://festvox.org/cmu_arctic/cmuarctic.data",
        size=1132,
        licence="free software, from out-of-copyright texts (Kominek & Black, 2003)",
        extract=arctic_lines,
    ),
    "harvard": PublishedList(
        url="https://www.cs.columbia.edu/~hgs/audio/harvard.html",
        size=720,
        licence="IEEE Recommended Practice for Speech Quality Measurements, 1969; no licence stated",
        extract=harvard_lines,
    ),
}


def fetch_prompts(name: str, folder: str | Path) -> Path:
    """Download one of the paper's two lists from its publisher into a file that `read_prompts` reads."""
    if name not in PUBLISHED:
        raise ValueError(f"unknown list {name!r}; choose one of {', '.join(PUBLISHED)}")
    source, folder = PUBLISHED[name], Path(folder)
    path = folder / f"{name}.txt"
    if path.exists():
        return path
    try:
        with urllib.request.urlopen(source.url, timeout=60) as answer:
            page = answer.read().decode("utf-8", errors="replace")
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise ConnectionError(
            f"cannot fetch {source.url}: {error}. Without a network, put the list at {path} yourself (`id|sentence` or "
            "one sentence a line), or evaluate on the built-in hard list or any text file"
        ) from error
    lines = source.extract(page)
    if len(lines) != source.size:
        raise ValueError(
            f"{source.url} gave {len(lines)} sentences instead of {source.size}: the page has changed; "
            f"put the list at {path} yourself, one sentence a line"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(f"{line}\n" for line in lines))
    return path
