"""Draws docs/figures/packages.svg and flow.svg: the packages, read from src/, and the steps from text to score.

python docs/figures/architecture.py
"""

from __future__ import annotations

import ast
import textwrap
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCE = FOLDER.parents[1] / "src" / "clock_attention"
WIDTH, MARGIN, GAP, LINE = 960, 16, 10, 15
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
LAYERS = {  # top to bottom: each may import those below it
    "interface": ("#fde68a", ["commands", "app", "serve", "own_voice"]),
    "evaluation": ("#fecaca", ["evaluation/*", "runtime"]),
    "speech": ("#bfdbfe", ["speech/*"]),
    "method": ("#bbf7d0", ["attention", "module", "streaming", "transformer", "integrations", "losses"]),
    "foundations": ("#ddd6fe", ["clocks", "kernels", "alignment", "timestamps", "theory", "files"]),
}
STEPS = [  # what is passed on, and the package that makes it
    ("text", ""),
    ("phonemes", "speech/text"),
    ("encoding", "speech/model"),
    ("clocks meet", "attention"),
    ("mel", "speech/model"),
    ("waveform", "speech/vocoder"),
    ("transcript", "evaluation/scoring"),
    ("score", "evaluation/scoring"),
]


def find(place: str) -> list[Path]:
    """Packages or modules of that name; `speech/*` means the packages inside."""
    if place.endswith("/*"):
        return sorted(path.parent for path in (SOURCE / place[:-2]).glob("*/__init__.py"))
    return [path for path in (SOURCE / place, SOURCE / f"{place}.py") if path.exists()][:1]


def summary(path: Path) -> str:
    """First sentence of the docstring, without the name that it may begin with."""
    file = path / "__init__.py" if path.is_dir() else path
    text = (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    head, colon, tail = " ".join(text.split()).replace("`", "").partition(": ")
    said = tail[:1].upper() + tail[1:] if colon and len(head.split()) == 1 else head + colon + tail
    first, _, second = said.partition(". ")
    return (first if len(first) > 15 else second.split(". ")[0]).rstrip(".")


def label(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix() + ("/" if path.is_dir() else "")


def box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="#64748b" '
        'stroke-width="0.8"/>'
    )


def write(x: float, y: float, text: str, size: int = 12, weight: str = "normal", anchor: str = "start") -> str:
    style = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:g}" y="{y:g}" {style} fill="#0f172a">{escape(text)}</text>'


def arrow(path: str) -> str:
    return f'<path d="{path}" fill="none" stroke="#334155" stroke-width="1.5"/>'


def drawing(name: str, height: float, parts: list[str], title: str) -> None:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" height="{height:g}" '
        f'role="img" font-family="{FONT}">\n<title>{escape(title)}</title>\n'
        f'<rect width="{WIDTH}" height="{height:g}" rx="8" fill="#f8fafc"/>\n'
    )
    (FOLDER / name).write_text(head + "\n".join(parts) + "\n</svg>\n", encoding="utf-8")


def packages() -> None:
    parts, y = [], float(MARGIN)
    for layer, (fill, places) in LAYERS.items():
        found = [path for place in places for path in find(place)]
        columns = min(len(found), 4 if layer == "speech" else 3)
        width = (WIDTH - 2 * MARGIN - 96 - GAP * (columns - 1)) / columns
        top = y
        for row in range(0, len(found), columns):
            cells = found[row : row + columns]
            wrapped = [textwrap.wrap(summary(path), int(width / 7.3)) for path in cells]
            height = 30 + LINE * max(map(len, wrapped))
            for column, (path, lines) in enumerate(zip(cells, wrapped, strict=True)):
                x = MARGIN + 96 + column * (width + GAP)
                parts += [box(x, y, width, height, fill), write(x + 9, y + 19, label(path), 13, "bold")]
                parts += [write(x + 9, y + 36 + LINE * line, text) for line, text in enumerate(lines)]
            y += height + GAP
        parts.append(write(MARGIN, (top + y) / 2, layer, 13, "bold"))
        y += 8
        if layer != "foundations":
            parts.append(arrow(f"M{WIDTH / 2:g} {y - 16:g} v10 m-4 -4 l4 4 l4 -4"))
    drawing("packages.svg", y, parts, "Packages of clock_attention in layers; imports go downwards only")


def flow() -> None:
    for _, place in STEPS:
        assert not place or find(place), f"there is no {place}: change STEPS"
    columns, parts = 4, []
    width, height = (WIDTH - 2 * MARGIN - 3 * 34) / columns, 54
    for index, (name, place) in enumerate(STEPS):
        row, column = divmod(index, columns)
        x, y = MARGIN + column * (width + 34), MARGIN + row * (height + 34)
        package = place.split("/")[0]
        fill = next(
            (fill for fill, places in LAYERS.values() if package in {p.removesuffix("/*") for p in places}), "#e2e8f0"
        )
        parts += [box(x, y, width, height, fill), write(x + width / 2, y + 23, name, 15, "bold", "middle")]
        parts.append(write(x + width / 2, y + 42, f"by {place}" if place else "any text", 11, "normal", "middle"))
        if column < columns - 1:
            parts.append(arrow(f"M{x + width + 5:g} {y + height / 2:g} h22 m-5 -5 l5 5 l-5 5"))
        elif row == 0:
            start, end = x + width / 2, MARGIN + width / 2
            parts.append(arrow(f"M{start:g} {y + height:g} v17 H{end:g} v12 m-5 -5 l5 5 l5 -5"))
    drawing(
        "flow.svg",
        2 * height + 34 + 2 * MARGIN,
        parts,
        "Text, phonemes, encoding, clocks meet, mel, waveform, transcript, score",
    )


if __name__ == "__main__":
    packages()
    flow()
