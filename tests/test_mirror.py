"""`tests/` mirrors `src/`, file for file: the tests of a module are found under its name."""

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "clock_attention"
# Modules without a test file of their own, and why. `__init__.py` and `__main__.py` need none.
EXCEPTIONS = {
    "arrays.py": "two type aliases",
    "speech/corpus/protocols.py": "protocols: types alone",
    "commands/app.py": "starts the page: tests/app/test_page.py",
}
# Packages whose modules are parts of one operator and only run together: what tests them all.
AS_A_WHOLE = {"kernels/triton": "kernels/test_triton.py"}


def counterpart(module: Path) -> Path:
    return TESTS / module.parent / f"test_{module.name}"


def modules() -> list[Path]:
    found = (path.relative_to(SOURCE) for path in sorted(SOURCE.rglob("*.py")))
    return [path for path in found if path.name not in ("__init__.py", "__main__.py")]


def test_every_module_has_its_tests():
    missing = {
        module.as_posix()
        for module in modules()
        if not counterpart(module).exists() and module.parent.as_posix() not in AS_A_WHOLE
    }
    assert missing == EXCEPTIONS.keys()


def test_packages_that_are_tested_as_a_whole_are():
    for package, tests in AS_A_WHOLE.items():
        assert (SOURCE / package).is_dir()
        assert (TESTS / tests).is_file()
