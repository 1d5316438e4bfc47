"""Run a campaign, or continue one.

    python -m support.campaign                       5,000 commands and more, in build/campaign
    python -m support.campaign --only faults/17      one case again; --keep leaves its folder
    python -m support.campaign --size 0.01           a hundredth of it; --smoke is smaller still

What was done is in FOLDER/results-SEED.jsonl; the same command continues. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from support.campaign.cases import KINDS, Case, Workshop
from support.campaign.children import prepare
from support.campaign.scenes import open_scene
from support.campaign.tally import FAILURES, Results

# Cases of each kind in a campaign of full size; `faults` has as many as there are effects, twice.
SIZES = {
    "values": 500,
    "faults": None,
    "interruptions": 300,
    "read_only": 60,
    "clock": 52,
    "users": 60,
    "hostile": 810,
    "studio": 150,
    "facts": 60,
}
SMOKE = dict.fromkeys(SIZES, 1) | {"faults": 6, "interruptions": 3, "read_only": 2, "hostile": 6}
FACTS, SMOKE_FACTS = 1_000_000, 4000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/campaign"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=float, default=1.0, help="the share of a full campaign")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--only", help="one case, such as faults/17")
    parser.add_argument("--keep", action="store_true", help="leave the folder of the last case")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long; the rest is for later")
    parser.add_argument("--facts", type=int, default=FACTS, help="facts in the large store")
    parser.add_argument("--small", action="store_true", help="quick commands only, in a small scene")
    parser.add_argument("--smoke", action="store_true", help="the same, with a few cases of each kind")
    given = parser.parse_args()
    small = given.small or given.smoke
    prepare(small=small)
    folder, facts = given.folder.resolve(), SMOKE_FACTS if given.smoke else given.facts
    workshop = Workshop(folder, open_scene(folder / "scene", small=small), given.seed, facts, small=small)
    if given.only:
        kind, _, number = given.only.partition("/")
        failures = _run(Case(workshop, kind, int(number)), keep=given.keep).tally.failures
        print("\n\n".join(failures) or f"{given.only} found nothing")
        return int(bool(failures))
    results = Results(folder / f"results-{given.seed}.jsonl")
    end = time.monotonic() + 60 * given.minutes
    for kind, number in _left(workshop, results, given):
        if time.monotonic() > end:
            break
        case = _run(Case(workshop, kind, number))
        results.add(case.name, case.tally)
        for words in case.tally.failures:
            print(f"{words}\n  again: {_again(given)} --only {case.name}\n", flush=True)
    print(results.table())
    return int(bool(results.failures))


def _again(given: argparse.Namespace) -> str:
    """Return the command that repeats a case, once `--only` is added."""
    words = f"python -m support.campaign --seed {given.seed} --folder {given.folder}"
    return f"{words} --small" if given.small or given.smoke else words


def _left(workshop: Workshop, results: Results, given: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Yield the cases that are not done yet, the kinds side by side, so that each part is a sample of the whole."""
    if given.smoke:
        wanted = {kind: SMOKE[kind] for kind in given.kinds}
    else:
        counts = {kind: SIZES[kind] or len(workshop.faults()) for kind in given.kinds}
        wanted = {kind: max(1, round(given.size * count)) for kind, count in counts.items()}
    cases = sorted((number / count, kind, number) for kind, count in wanted.items() for number in range(count))
    done = results.done
    for _, kind, number in cases:
        if f"{kind}/{number}" not in done:
            yield kind, number


def _run(case: Case, *, keep: bool = False) -> Case:
    begin = time.monotonic()
    KINDS[case.kind](case)
    case.tally.seconds = time.monotonic() - begin
    assert set(case.tally.counts) & set(FAILURES) or not case.tally.failures
    if not keep:
        case.close()
    return case


if __name__ == "__main__":
    sys.exit(main())
