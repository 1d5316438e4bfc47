"""The bars: what attnlab claims of its speed and memory, and their measurement in one run."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.attention import AttentionSpec, Entmax, Mask, Variant, kernel_for
from attnlab.bench.kernels import yardsticks
from attnlab.bench.kernels.attention import check_peer, fitting
from attnlab.bench.kernels.cases import Size
from attnlab.bench.kernels.peers import has_peer
from attnlab.bench.kernels.yardsticks import DROPOUT, Setting
from attnlab.bench.results.judging import Bar, BarsBench, judge
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.timing import check_rounds
from attnlab.errors import SpecError
from attnlab.processes.machine import describe_machine


def bench_bars(
    variants: Sequence[Variant],
    size: Size,
    rounds: int = 15,
    listener: Listener | None = None,
    *,
    bars: Sequence[Bar] | None = None,
) -> BarsBench:
    """Measure the bars that concern the variants, with the threads that PyTorch has now."""
    listener = listener or Listener()
    check_rounds(rounds)
    machine, setting = describe_machine(), Setting(size, rounds)
    chosen = fitting([*variants, *_probes(variants)], size, machine, listener)
    tasks = [(bar, [variant for variant, spec in chosen if bar.concerns(spec)]) for bar in bars or BARS]
    tasks = [(bar, concerned) for bar, concerned in tasks if concerned]
    if not tasks:
        names = ", ".join(variant.name for variant in variants)
        raise SpecError(f"no bar concerns {names}", hint="leave out --bars to measure it, or name other variants")
    peer = check_peer([spec for _, spec in chosen], listener)
    total, done = sum(len(concerned) for _, concerned in tasks), 0
    outcomes = []
    for bar, concerned in tasks:
        ratios = {}
        for variant in concerned:
            listener.step(f"{bar.name}: {variant.name}", done, total)
            done += 1
            if peer or not bar.needs_peer:
                ratios[variant.name] = bar.measure(variant, setting)
        outcomes.append(judge(bar, ratios, setting))
    return BarsBench(machine, size, rounds, tuple(outcomes))


def _probes(variants: Sequence[Variant]) -> list[Variant]:
    """What is measured besides the catalogue: entmax at an α whose powers are not whole numbers."""
    if all(variant.name != "entmax" for variant in variants):
        return []
    odd = {"normaliser": Entmax(alpha=1.3)}
    return [Variant("entmax-1.3", "α-entmax at an α that is no simple fraction.", odd)]


def _is_pointwise(spec: AttentionSpec) -> bool:
    return spec.operator is None and spec.normaliser.group == "pointwise"


def _is_near_fused(spec: AttentionSpec) -> bool:
    """Pointwise, or softmax (plus one) of an inner product: by what is computed as well as by the kernel."""
    return _is_pointwise(spec) or kernel_for(spec) == "fused" or (_is_soft(spec) and spec.score.pure_product)


def _is_soft(spec: AttentionSpec) -> bool:
    """Softmax (plus one), causal and nothing else, with values through the head."""
    softmax = spec.operator is None and spec.normaliser.group == "exponential"
    return softmax and spec.mask == Mask() and spec.value_map != "full"


def _is_soft_otherwise(spec: AttentionSpec) -> bool:
    return _is_soft(spec) and not spec.score.pure_product


def _is_sparse(spec: AttentionSpec) -> bool:
    return spec.operator is None and spec.normaliser.group == "sparse"


def _is_lean(spec: AttentionSpec) -> bool:
    return spec.value_map != "full" and not spec.score.materialised


BARS: tuple[Bar, ...] = (
    Bar(
        "speed",
        "pointwise normalisers, and softmax (plus one) of inner products",
        "forward+backward time ÷ fused softmax",
        1.15,
        _is_near_fused,
        yardsticks.over_fused,
    ),
    Bar(
        "speed-scores",
        "softmax of scores that are more than a product",
        "forward+backward time ÷ fused softmax",
        None,
        _is_soft_otherwise,
        yardsticks.over_fused,
    ),
    Bar(
        "speed-sparse",
        "sparsemax, entmax and softpick",
        "forward+backward time ÷ fused softmax",
        2.5,
        _is_sparse,
        yardsticks.over_fused,
    ),
    Bar(
        "speed-peer",
        "sparsemax and entmax",
        "forward+backward time of the entmax package ÷ ours",
        2.0,
        has_peer,
        yardsticks.peer_over_variant,
        at_least=True,
        needs_peer=True,
    ),
    Bar(
        "speed-dropout",
        f"pointwise normalisers that drop {DROPOUT} of the weights",
        "forward+backward time ÷ fused softmax that drops none",
        1.5,
        _is_pointwise,
        yardsticks.dropping_over_fused,
    ),
    Bar(
        "memory",
        "all but full values and the random synthesizer",
        "peak of forward+backward at {long} tokens ÷ one N×N matrix per head",
        1 / 8,
        _is_lean,
        yardsticks.peak_over_scores,
    ),
    Bar(
        "memory-growth",
        "all but full values and the random synthesizer",
        "peak of forward+backward at {long} tokens ÷ at {half}",
        2.3,
        _is_lean,
        yardsticks.peak_growth,
    ),
    Bar(
        "window",
        "a causal window of {window} tokens at {longest}",
        "forward+backward time of fused softmax ÷ ours",
        8.0,
        lambda spec: spec.mask.causal and spec.mask.window is not None,
        yardsticks.fused_over_window,
        at_least=True,
    ),
    Bar(
        "linear-growth",
        "linear attention",
        "forward+backward time at {longest} tokens ÷ at {tokens}",
        9.0,
        lambda spec: spec.operator is not None,
        yardsticks.time_growth,
    ),
    Bar(
        "cache",
        "one vector that is key and value",
        "bytes of the cache after {long} tokens ÷ softmax's",
        0.5,
        lambda spec: spec.sharing == "key-value",
        yardsticks.cache_over_softmax,
    ),
    Bar(
        "decoding",
        "one vector that is key and value",
        "time of one token after {long} ÷ softmax's",
        None,
        lambda spec: spec.sharing == "key-value",
        yardsticks.decoding_over_softmax,
    ),
)
