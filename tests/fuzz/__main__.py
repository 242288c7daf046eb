"""`python -m tests.fuzz FUZZER --count N --seed S`"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.fuzz import runner
from tests.fuzz.targets import FUZZERS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("fuzzer", choices=sorted(FUZZERS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", action="store_true", help="go on after the cases in results/fuzz.json")
    parser.add_argument("--only", type=int, help="one case, in this process")
    arguments = parser.parse_args()
    fuzzer = FUZZERS[arguments.fuzzer]()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        if arguments.only is not None:
            fuzzer.start(Path(folder))
            print(*runner.run_case(fuzzer, arguments.seed, arguments.only))
            return 0
        found = runner.run_apart(fuzzer, Path(folder), arguments.seed, arguments.count, arguments.resume)
    for failure in found["failures"][:5]:
        print(failure["case"], failure["what"], failure["detail"])
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
