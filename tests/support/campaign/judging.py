"""What is wrong with the outcome of a command."""

from __future__ import annotations

import re
import signal

from support.campaign.children import CRASHED, Outcome

REFUSED = 2
_CODES = {0, 1, 2, 3, 130, 143}
_MAY_END_WITH_1 = ("verify", "check", "bench", "exhibit", "knowledge facts check")
_FOREIGN_WORDS = re.compile(r"pydantic|state_dict|^\s+File \"", re.MULTILINE)


def is_traceback(outcome: Outcome) -> bool:
    """Return whether the command failed as no command should."""
    text = outcome.err + outcome.out
    return outcome.code == CRASHED or "Traceback (most recent" in text or "failed in a way it should not" in text


def problems(outcome: Outcome, *, signalled: bool = False) -> list[str]:
    """Return what is wrong in any circumstances."""
    found = []
    if is_traceback(outcome):
        found.append("traceback")
    elif _FOREIGN_WORDS.search(outcome.err):
        found.append("words of a library")
    if outcome.code not in _CODES and not (signalled and outcome.code in {-signal.SIGKILL, -signal.SIGTERM}):
        found.append(f"exit code {outcome.code}")
    command = " ".join(outcome.tokens)
    if outcome.code == 1 and not command.startswith(_MAY_END_WITH_1):
        found.append("exit code 1")
    if outcome.code == REFUSED and "error:" not in outcome.err and not command.startswith("verify"):
        found.append("refused without a word")
    if outcome.left:
        found.append(f"left {outcome.left} processes behind")
    if outcome.too_long and outcome.code not in {130, 143, 0, -signal.SIGTERM}:
        found.append("did not end when it was interrupted")
    return found
