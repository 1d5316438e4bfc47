"""Counts of what happened, and their file: a campaign that was stopped is continued."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

COLUMNS = ("cases", "commands", "faults", "refusals", "resumes", "too long", "lost", "accepted", "tracebacks", "other")
FAILURES = ("lost", "accepted", "tracebacks", "other")


@dataclass
class Tally:
    """What happened in one case."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def fail(self, kind: str, words: str) -> None:
        self.counts[kind] += 1
        self.failures.append(f"{kind}: {words}")


class Results:
    """What happened in all cases of a campaign, in a file with a line for each."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def done(self) -> set[str]:
        return {line["case"] for line in self._lines}

    @property
    def failures(self) -> dict[str, list[str]]:
        return {line["case"]: line["failures"] for line in self._lines if line["failures"]}

    def add(self, case: str, tally: Tally) -> None:
        line = {"case": case, "counts": tally.counts, "failures": tally.failures, "seconds": round(tally.seconds, 2)}
        self._lines.append(line)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def table(self) -> str:
        """Return the kinds of cases and how often each thing happened."""
        sums: Mapping[str, Counter[str]] = defaultdict(Counter)
        for line in self._lines:
            for name in (line["case"].partition("/")[0], "all"):
                sums[name].update(line["counts"])
                sums[name]["cases"] += 1
        kinds = [*sorted(sums.keys() - {"all"}), *(["all"] if sums else [])]
        return as_table(("kind", *COLUMNS), [(kind, *(str(sums[kind][name]) for name in COLUMNS)) for kind in kinds])


def as_table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(headings), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
