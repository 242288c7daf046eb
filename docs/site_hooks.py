"""MkDocs hooks: the pages that are made from the repository itself, and formulas as MathML.

Adds the README as the home page, the voice card, the changelog and the contribution guide, the data files of
`results/`, one API page per module, and the reference of the command line. Links that leave `docs/` on a code host are
turned into links to those pages.
"""

from __future__ import annotations

import ast
import html
import posixpath
import re
import unicodedata
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "clock_attention"
VOICE_CARD = next(SOURCE.rglob("voices/default/README.md")).relative_to(ROOT).as_posix()
PAGES = {  # file in the repository: page of the site
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    VOICE_CARD: "reference/default-voice.md",
}
NOT_DOCUMENTED = ("cli", "commands", "kernels/banded", "lazy", "moved")  # commands and kernel have pages
LINK = re.compile(r"""(?P<before>\]\(|(?:src|href)=")(?P<target>[^)"#\s]+)""")
VARIANT = re.compile(
    r'<(?P<tag>m[in]) mathvariant="(?P<variant>double-struck|script|bold)">(?P<character>\w)</(?P=tag)>'
)
FORMULA = re.compile(r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<latex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path, page in PAGES.items():
        if (ROOT / path).exists():
            text = (ROOT / path).read_text(encoding="utf-8")
            files.append(File.generated(config, page, content=site_links(text, path, page)))
    for path in sorted((ROOT / "results").rglob("*.*")):
        data = f"results/data/{path.relative_to(ROOT / 'results').as_posix()}"
        files.append(File.generated(config, data, abs_src_path=str(path)))
    for module, uri in api_pages():
        files.append(File.generated(config, uri, content=f"# `{module}`\n\n::: {module}\n"))
    files.append(File.generated(config, "reference/commands.md", content=commands_page()))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    return markdown if page.file.generated_by else site_links(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, which browsers show without a script from another server."""

    def as_mathml(found: re.Match[str]) -> str:
        display = "block" if found["tag"] == "div" else "inline"
        mathml = convert(html.unescape(found["latex"]).strip(), display=display)
        return VARIANT.sub(as_letter, mathml).replace(
            "<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>"
        )  # a prime is an operator

    return FORMULA.sub(as_mathml, content)


def as_letter(found: re.Match[str]) -> str:
    """Browsers ignore `mathvariant`; the letters of other alphabets have characters of their own."""
    tag, variant, character = found["tag"], found["variant"].upper(), found["character"]
    kind = "DIGIT" if character.isdigit() else "CAPITAL" if character.isupper() else "SMALL"
    name = unicodedata.name(character).rsplit(" ", 1)[-1]
    return f"<{tag}>{unicodedata.lookup(f'MATHEMATICAL {variant} {kind} {name}')}</{tag}>"


def site_links(markdown: str, path: str, page: str) -> str:
    """Links of the file `path` of the repository, as links of the page of the site that shows it."""

    def mapped(found: re.Match[str]) -> str:
        target = found["target"]
        if re.match(r"[a-z]+:", target):
            return found[0]
        in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if in_repository in PAGES:
            on_site = PAGES[in_repository]
        elif in_repository.startswith("results/"):
            on_site = f"results/data/{in_repository.removeprefix('results/')}"
        elif in_repository.startswith("docs/"):
            on_site = in_repository.removeprefix("docs/")
        elif in_repository.startswith("src/clock_attention/") and in_repository.endswith(".py"):
            on_site = f"reference/api/{in_repository.removeprefix('src/clock_attention/').removesuffix('.py')}.md"
        elif in_repository == "LICENSE":
            return found["before"] + "https://www.apache.org/licenses/LICENSE-2.0"
        else:
            return found[0]  # a broken link of the site: the strict build says so
        return found["before"] + posixpath.relpath(on_site, posixpath.dirname(page) or ".")

    return LINK.sub(mapped, markdown)


def api_pages() -> list[tuple[str, str]]:
    """Module and page of everything public."""
    pages = []
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).with_suffix("").as_posix()
        if any(part.startswith("_") and part != "__init__" for part in place.split("/")):
            continue
        if place.startswith(NOT_DOCUMENTED):
            continue
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if docstring.startswith("Moved to"):  # an old path that still works
            continue
        if path.name == "__init__.py":
            if not docstring:
                continue
            place = posixpath.dirname(place)
            module = ".".join(["clock_attention", *filter(None, place.split("/"))])
            pages.append((module, posixpath.join("reference/api", place, "index.md")))
        else:
            pages.append((f"clock_attention.{place.replace('/', '.')}", f"reference/api/{place}.md"))
    return pages


def commands_page() -> str:
    """Every command with its arguments and options, from the command line itself."""
    from clock_attention.commands.main import COMMANDS, load

    lines = ["# Commands", "", "`clock-attention COMMAND --help` shows the same on the terminal.", ""]
    for name in COMMANDS:
        lines += command_section(f"clock-attention {name}", load(name), 2)
    return "\n".join(lines)


def command_section(name: str, command: Any, level: int) -> list[str]:
    lines = [f"{'#' * level} {name}", "", command.help or "", ""]
    rows = [option_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        lines += ["| option | default | meaning |", "| --- | --- | --- |", *rows, ""]
    for child, subcommand in getattr(command, "commands", {}).items():
        lines += command_section(f"{name} {child}", subcommand, level + 1)
    return lines


def option_row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    names = parameter.name.upper() if is_argument else ", ".join(parameter.opts)
    default = parameter.default
    shown = f"`{default}`" if isinstance(default, (str, int, float, Path)) and default not in ("", False) else ""
    text = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("\n", " ")
    return f"| `{names}` | {shown} | {text} |"
