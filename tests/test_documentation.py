"""README and docs as they are read on a code host: links lead somewhere, and tables show what was measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.md")])
GENERATED = {"docs/reference/commands.md", "docs/reference/api/index.md"}  # by the build of the site
LINK = re.compile(r"""\]\(([^)\s]+)\)|(?:src|href)="([^"]+)\"""")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_a_file(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "code", text)
    targets = [(a or b).split("#")[0] for a, b in LINK.findall(text)]
    missing = []
    for target in targets:
        if not target or re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve()
        if not path.exists() and path.relative_to(ROOT).as_posix() not in GENERATED:
            missing.append(target)
    assert not missing


def test_tables_show_what_was_measured():
    script = [sys.executable, str(ROOT / "docs" / "tables.py"), "--check"]
    found = subprocess.run(script, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_no_page_has_leftovers_of_a_merge():
    assert not [
        page for page in PAGES if re.search(r"^(<<<<<<<|>>>>>>>) ", page.read_text(encoding="utf-8"), re.MULTILINE)
    ]
