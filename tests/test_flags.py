"""Only the commands know flags: library code names arguments."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "clock_attention"
EXCEPTIONS = {
    "app/subtitles.py": "a variable of CSS",
    "evaluation/scoring/speaker_similarity.py": "pip's flags",
    "runtime/__main__.py": "a command of its own",
}
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")
COMMAND = re.compile(r"`clock-attention [^`]*`")  # advice may quote a whole command


def messages(path):
    """Strings of a module that are no docstrings, with commands in backquotes left out."""
    tree = ast.parse(path.read_text("utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield COMMAND.sub("", node.value)


def test_messages_of_the_library_name_no_flags():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if place.startswith("commands/") or place in EXCEPTIONS:
            continue
        if flags := [flag for text in messages(path) for flag in FLAG.findall(text)]:
            found[place] = flags
    assert found == {}
