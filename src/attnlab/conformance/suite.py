"""The list of checks, and the quick ones that run before training.

A check returns a description of the failure, or None. A variant that raises an error fails the check in which it is
raised.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from attnlab.attention import Variant, mixture, variant
from attnlab.conformance import behaviour, derivatives, measurement, visibility
from attnlab.conformance.finding import CheckReport, Finding
from attnlab.conformance.subject import Subject
from attnlab.errors import AttnlabError, UnsupportedError
from attnlab.processes.machine import using_threads


def _always(_: Subject) -> str | None:
    return None


def _causal(subject: Subject) -> str | None:
    return None if subject.spec.mask.causal else "every token sees every token"


def _cuts(subject: Subject) -> str | None:
    mask = subject.spec.mask
    return _causal(subject) or ("the tokens of a prefix see each other" if mask.prefix is not None else None)


def _padded(subject: Subject) -> str | None:
    return None if subject.takes_padding else "a layer that takes no mask takes no padding"


def _seen(subject: Subject) -> str | None:
    return None if subject.spec.layer is None else "a whole layer chooses its own inputs"


def _defined(subject: Subject) -> str | None:
    return None if subject.spec.layer is None else "a whole layer is its own definition"


def _patterns(subject: Subject) -> str | None:
    return None if visibility.takes_patterns(subject) else "it takes no pattern of the caller's"


@dataclass(frozen=True)
class Check:
    """A check: its name, the property that it tests in words, and why it may not apply."""

    name: str
    passes: str
    find: Callable[[Subject], str | None]
    inapplicable: Callable[[Subject], str | None] = _always
    quick: bool = False


CHECKS: tuple[Check, ...] = (
    Check("shapes and types", "as given, in float64, float32 and bfloat16", behaviour.shapes),
    Check(
        "hidden tokens",
        "no token changes the output where its mask hides it",
        visibility.hidden_tokens,
        quick=True,
    ),
    Check(
        "cut sequences",
        "the first tokens of a sequence get the output that they get alone",
        visibility.cut_sequences,
        _cuts,
        quick=True,
    ),
    Check(
        "padding",
        "neither its content nor its length changes real tokens",
        visibility.padding,
        _padded,
        quick=True,
    ),
    Check("patterns", "a pattern of the caller's hides what it says", visibility.own_pattern, _patterns, quick=True),
    Check("visible tokens", "every visible token changes the output", visibility.visible_tokens, _seen),
    Check(
        "gradients",
        "those of the input and of every parameter equal numerical derivatives",
        derivatives.gradients,
        quick=True,
    ),
    Check("kernel", "equals the definition, with its gradients", derivatives.kernel, _defined, quick=True),
    Check("decoding", "from a cache, one or three tokens at a time, equals the whole", behaviour.decoding, _cuts),
    Check("corner cases", "zeros, huge and tiny numbers, and all padding stay finite", behaviour.corner_cases),
    Check("determinism", "the same input gives the same bits", behaviour.determinism, quick=True),
    Check("resumption", "ten steps end in the same bits after an interruption", behaviour.resumption),
    Check("cost", "parameters and cache are those that are predicted", measurement.parameters),
)


def check_variant(one: Variant | str, *, quick: bool = False) -> CheckReport:
    """Run the checks on a variant, all of them or the quick ones."""
    chosen = variant(one) if isinstance(one, str) else one
    subject = Subject(chosen)
    with using_threads(1):
        findings = [_examine(check, subject) for check in CHECKS if check.quick or not quick]
        if not quick:
            findings.append(_measure(subject))
    return CheckReport(chosen.name, tuple(chosen.equations()), tuple(findings))


def require_sound(names: Iterable[str]) -> list[CheckReport]:
    """Refuse custom variants that leak or lose gradients, by the quick checks; built-in variants are skipped.

    Parameters
    ----------
    names
        Names of variants, or of mixtures of them.
    """
    reports = []
    named = {one.name: one for name in names for one in mixture(name).variants}
    for name, one in named.items():
        if one.builtin:
            continue
        report = check_variant(one, quick=True)
        reports.append(report)
        if report.failures:
            first = report.failures[0]
            raise UnsupportedError(
                f"the variant {name!r} fails the check of {first.check}: {first.detail}",
                hint="run all checks to see more; `unchecked=True` trains it as it is, and the report says so",
            )
    return reports


def _examine(check: Check, subject: Subject) -> Finding:
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reason = check.inapplicable(subject)
            wrong = None if reason is not None else check.find(subject)
    except AttnlabError as error:
        wrong, reason = error.message, None
    except Exception as error:
        wrong, reason = f"it raised {type(error).__name__}: {error}", None
    seconds = time.perf_counter() - start
    if reason is not None:
        return Finding(check.name, "not applicable", reason, seconds)
    if wrong is not None:
        return Finding(check.name, "fail", wrong, seconds)
    return Finding(check.name, "pass", check.passes, seconds)


def _measure(subject: Subject) -> Finding:
    start = time.perf_counter()
    try:
        found = measurement.speed(subject)
    except Exception as error:
        return Finding("speed", "fail", f"it raised {type(error).__name__}: {error}", time.perf_counter() - start)
    return Finding("speed", "measured", found, time.perf_counter() - start)
