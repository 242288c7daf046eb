"""Scripts beside the package: what they import from it exists. Most run for too long to be tested as a whole."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [
    *ROOT.glob("benchmarks/*.py"),
    *ROOT.glob("docs/**/*.py"),
    *ROOT.glob("examples/*.py"),
    *ROOT.glob("packaging/**/*.py"),
]


@pytest.mark.parametrize("script", sorted(SCRIPTS), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_script_imports_what_the_package_has(script):
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("clock_attention"):
            if node.module.startswith("clock_attention.kernels.triton"):
                pytest.importorskip("triton", reason="needs triton (`make gpu-tools`)")
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
