"""Every variant against fused softmax, against its own definition, and against a public implementation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from attnlab.attention import AttentionSpec, Variant, kernel_for
from attnlab.bench.kernels.cases import Case, Contest, Size, fused_softmax
from attnlab.bench.kernels.memory import peak_bytes
from attnlab.bench.kernels.peers import PEER, has_peer, peer_is_installed
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.timing import Ratio, check_rounds, take_turns
from attnlab.errors import SpecError
from attnlab.processes.machine import Machine, describe_machine

BASELINE = "scaled_dot_product_attention, causal"

_MATRICES = 10  # of scores that a reference may hold at once, with its gradients
_COPIES = 6  # of the inputs that any call holds: gradients, output, and what it prepares


@dataclass(frozen=True)
class Times:
    """Durations of one kind of call, as ratios. The peer's are None where there is no peer, and so are those of a
    reference that does not fit into memory."""

    baseline_seconds: float
    variant: Ratio  # × fused softmax, and so are the next two
    reference: Ratio | None
    peer: Ratio | None
    reference_over_variant: Ratio | None  # how many times as long the reference takes
    peer_over_variant: Ratio | None


@dataclass(frozen=True)
class Peaks:
    """The most memory that a forward and backward pass holds at once beyond its inputs, in bytes."""

    baseline: int
    variant: int
    reference: int | None
    peer: int | None


@dataclass(frozen=True)
class Measured:
    """What was found out about a variant."""

    name: str
    kernel: str
    forward: Times
    forward_backward: Times
    peak_bytes: Peaks


@dataclass(frozen=True)
class AttentionBench:
    """All that one run measured, and on what."""

    machine: Machine
    size: Size
    rounds: int
    variants: tuple[Measured, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {"benchmark": "attention", "baseline": BASELINE, "peer": PEER, **asdict(self)}


def bench_attention(
    variants: Sequence[Variant], size: Size, rounds: int = 15, listener: Listener | None = None
) -> AttentionBench:
    """Measure the variants with the threads that PyTorch has now."""
    listener = listener or Listener()
    check_rounds(rounds)
    machine = describe_machine()
    chosen = fitting(variants, size, machine, listener)
    materialised = _MATRICES * size.scores_bytes <= usable(machine)
    if not materialised:
        listener.note(f"the references are left out: {size.tokens} tokens make matrices that may not fit into memory")
    peer = materialised and check_peer([spec for _, spec in chosen], listener)
    measured = []
    for done, (variant, spec) in enumerate(chosen):
        listener.step(variant.name, done, len(chosen))
        measured.append(measure(variant.name, spec, size, rounds, reference=materialised, peer=peer))
    return AttentionBench(machine, size, rounds, tuple(measured))


def measure(
    name: str, spec: AttentionSpec, size: Size, rounds: int, *, reference: bool = True, peer: bool = True
) -> Measured:
    """One variant, with its reference and its peer if they are wanted and there is one."""
    contest = Contest(spec, size)
    cases = {"baseline": fused_softmax(size), "variant": contest.variant()}
    if reference:
        cases["reference"] = contest.reference()
    if peer and has_peer(spec):
        cases["peer"] = contest.peer()
    return Measured(
        name,
        kernel_for(spec),
        _times(cases, "forward", rounds),
        _times(cases, "forward_backward", rounds),
        _peaks(cases),
    )


def _times(cases: dict[str, Case], kind: str, rounds: int) -> Times:
    found = take_turns({name: getattr(case, kind) for name, case in cases.items()}, rounds)

    def ratio(name: str, to: str) -> Ratio | None:
        return found.ratio(name, to) if name in cases else None

    return Times(
        baseline_seconds=found.median("baseline"),
        variant=found.ratio("variant", "baseline"),
        reference=ratio("reference", "baseline"),
        peer=ratio("peer", "baseline"),
        reference_over_variant=ratio("reference", "variant"),
        peer_over_variant=ratio("peer", "variant"),
    )


def _peaks(cases: dict[str, Case]) -> Peaks:
    peaks = {name: peak_bytes(case.forward_backward) for name, case in cases.items()}
    return Peaks(peaks["baseline"], peaks["variant"], peaks.get("reference"), peaks.get("peer"))


def fitting(
    variants: Sequence[Variant], size: Size, machine: Machine, listener: Listener
) -> list[tuple[Variant, AttentionSpec]]:
    """The variants with their specs, without those whose tensors do not fit into memory."""
    specs = [(variant, size.spec_of(variant)) for variant in variants]  # refuses what is impossible at this size
    room = usable(machine)
    fit = [(variant, spec) for variant, spec in specs if _COPIES * input_bytes(spec, size) <= room]
    for variant, spec in specs:
        if (variant, spec) not in fit:
            needed = _COPIES * input_bytes(spec, size) / 2**30
            listener.note(f"{variant.name} is left out: at {size} it needs about {needed:.0f} GiB")
    if not fit:
        raise SpecError(f"nothing can be measured at {size}: it does not fit into memory", hint="choose a smaller size")
    return fit


def input_bytes(spec: AttentionSpec, size: Size) -> int:
    """The bytes of queries, keys, values and the score's own parameters."""
    query = spec.num_heads * spec.key_width * spec.score.projects_query
    key = spec.num_key_value_heads * spec.key_width * spec.score.projects_key
    value = spec.num_key_value_heads * spec.value_width
    extras = sum(math.prod(extra.shape) for extra in spec.score.extras(spec).values())
    return 4 * (size.batch * size.tokens * (query + key + value) + extras)


def usable(machine: Machine) -> float:
    """The bytes that a measurement may take: half of what there is."""
    return math.inf if machine.memory_bytes is None else machine.memory_bytes / 2


def check_peer(specs: Sequence[AttentionSpec], listener: Listener) -> bool:
    """Whether the peer can be measured; if one of the specs would be, and it is missing, say so."""
    if peer_is_installed():
        return True
    if any(has_peer(spec) for spec in specs):
        listener.note(f"the {PEER} package is not installed, so nothing is measured against it: pip install {PEER}")
    return False
