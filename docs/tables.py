"""Writes the tables of README.md and docs/ from the measurements in results/*.json, and the map of src/.

    python docs/tables.py            # after a new measurement: rewrites what lies between the markers
    python docs/tables.py --check    # fails if a page differs from the measurements; `make docs` runs it

A page marks the place with `<!-- made:NAME -->` and `<!-- /made -->`; NAME is a function in `measured/`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

from measured import MADE
from measured.writing import ROOT, made, table

MARKED = re.compile(r"<!-- made:(?P<name>\w+) -->(?P<made>.*?)<!-- /made -->", re.DOTALL)


def purpose(path: Path) -> str:
    """The first line of a module's docstring, as a cell of a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0].replace("|", "\\|")


@made
def source_files() -> str:
    """Every module of the package with its purpose, by folders; a module without a docstring is an error."""
    source, parts = ROOT / "src" / "clock_attention", []
    for folder in sorted({path.parent for path in source.rglob("*.py")}):
        rows = [[f"`{path.name}`", purpose(path)] for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if missing := [name for name, text in rows if not text]:
            raise ValueError(f"{folder}: {', '.join(missing)} without a docstring that says the purpose")
        name = folder.relative_to(source.parent).as_posix().removeprefix("clock_attention/")
        parts += [f"### `{name}`", purpose(folder / "__init__.py"), table(["file", "purpose"], rows)]
    return "\n\n".join(part for part in parts if part)


def pages() -> list[Path]:
    """README, the documentation, and the cards of voices."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "src").rglob("*.md"))]


def rewritten(text: str) -> str:
    def fill(found: re.Match[str]) -> str:
        value = MADE[found["name"]]()
        space = "\n\n" if "\n" in value else ""  # a table stands alone, a value stands in its line
        return f"<!-- made:{found['name']} -->{space}{value}{space}<!-- /made -->"

    return MARKED.sub(fill, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if a page is out of date")
    check = parser.parse_args().check
    stale = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := rewritten(text)) != text:
            stale.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(new, encoding="utf-8")
    if stale:
        print(("out of date, run `python docs/tables.py`: " if check else "rewritten: ") + ", ".join(stale))
        sys.exit(check)


if __name__ == "__main__":
    main()
