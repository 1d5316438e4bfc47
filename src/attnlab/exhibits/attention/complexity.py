# %% [markdown]
# # Long or wide: what grows how fast
# A layer multiplies every token by its matrices, N · D², and every token by every other, N² · D. Which one costs more
# depends on whether the text is longer than the model is wide. The N × N score matrix makes the context the bottleneck.
#
# attention's projections 8 N D², its pairs of tokens 4 N² D, the perceptron 16 N D² FLOPs

# %%
from __future__ import annotations

from time import thread_time
from typing import Literal

import torch
from pydantic import Field
from torch.utils.benchmark import Timer

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention
from attnlab.cost import Question, Sweep, attention_cost
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, number_text, points
from attnlab.statistics import power_growth

HEAD = 64  # the width of a head
PARTS = {"projections": "projections", "attention": "pairs of tokens", "mlp": "perceptron"}
EXPONENT_MARGIN = 0.25
ROUNDS = 8  # maximum number of timed calls
AGREED = 1.05  # the two fastest calls differ by less than this factor


class Complexity(Parameters):
    model_width: int = Field(512, ge=64, le=16_384, description="the width D while N is varied, a multiple of 64")
    context: int = Field(4096, ge=768, le=131_072, description="the length N while D is varied, in tokens")
    measure: bool = Field(True, description="whether times are measured here")
    seed: int = Field(0, ge=0, description="of the weights that are timed")

    def check(self) -> None:
        if self.model_width % HEAD:
            raise SpecError(
                f"a width of {self.model_width} is no multiple of a head's {HEAD}", hint="use one such as 512"
            )


# %%
@exhibit(
    "complexity",
    "Long or wide: what grows how fast",
    chapter="cost",
    claims=("0.8", "1.6"),
    equation="FLOPs = 8 N D² (projections) + 4 N² D (pairs) + 16 N D² (perceptron)\n"
    "pairs > projections for N > 2D, pairs > all the rest for N > 6D",
    place=1,
    smoke={"measure": False},
)
def complexity(show: Stage, parameters: Complexity) -> None:
    """A text longer than the model is wide costs N² D, a shorter one N D²: the square grid is the bottleneck."""
    D, N = parameters.model_width, parameters.context
    show.slip(
        claim="0.8",
        says="time and space of a transformer when N > D and when D < N",
        computed="that is one case twice; the cases are N > D, where N² D rules, and N < D, where N D² does",
    )
    lengths = sorted({*(2**power for power in range(4, 18)), D // 2, 32 * D, 256 * D})
    sweep = Sweep.over("context", layer(D, N, "encoder"), lengths)
    flops = {point.value: {part: point.flops[part] for part in PARTS} for point in sweep.points}
    show.plot(
        f"FLOPs of one layer of width {D}",
        *(line(name, lengths, [flops[length][part] for length in lengths]) for part, name in PARTS.items()),
        x="context N (tokens)",
        y="forward FLOPs",
        log_x=True,
        log_y=True,
        caption=f"Pairs overtake the projections at 2D = {2 * D:,} tokens, and all the rest at 6D = {6 * D:,}.",
    )
    show.check(
        "FLOPs counted at N = 4096: 8ND², 4N²D, 16ND²",
        claim="0.8",
        found=list(flops[4096].values()),
        expected=[8 * 4096 * D**2, 4 * 4096**2 * D, 16 * 4096 * D**2],
    )
    crossovers(show, sweep, D, N)
    for name, low, high in (("N ≤ D/2", 16, D // 2), ("N ≥ 32 D", 32 * D, 256 * D)):
        show.bound(
            f"exponent in N of a layer's FLOPs, {name}",
            claim="1.6",
            found=power_growth([low, high], [sum(flops[length].values()) for length in (low, high)]).slope,
            at_least=0.95 if low < D else 1.8,
            at_most=1.1 if low < D else 2.05,
        )
    space(show, D)
    if parameters.measure:
        measured(show)


def layer(D: int, N: int, family: Literal["decoder", "encoder"]) -> Question:
    """Return the question about one layer; an encoder's tokens see all others, a decoder's only those before."""
    return Question(num_layers=1, model_width=D, num_heads=D // HEAD, context_length=N, family=family)


# %% [markdown]
# Where one part overtakes another: found by counting FLOPs, and compared with the formulas. With a causal mask half of
# the pairs are hidden, so that the crossovers are at twice the length.


# %%
def crossovers(show: Stage, unmasked: Sweep, D: int, N: int) -> None:
    rows = []
    for sweep, times in ((unmasked, 2), (Sweep.over("context", layer(D, N, "decoder"), [N]), 4)):
        found = {one.name: one.value for one in sweep.crossovers}
        firsts = [found[name] or 0 for name in ("the projections", "the MLP", "projections and MLP together")]
        hidden = sweep is not unmasked  # N (N + 1) / 2 pairs are visible
        show.check(
            f"{'causal' if hidden else 'no'} mask: the N at which pairs overtake projections, perceptron, both",
            claim="0.8",
            found=firsts,
            expected=[times * factor * D - hidden for factor in (1, 2, 3)],
        )
        rows.append(("causal" if hidden else "none", *firsts))
    show.table(
        f"The context N from which pairs of tokens cost more, for D = {D}",
        ("mask", "than projections", "than the perceptron", "than both"),
        rows,
    )
    wide = {one.name: one.value for one in Sweep.over("width", layer(D, N, "encoder"), [HEAD]).crossovers}
    show.check(
        f"no mask: the D, in whole heads, up to which they cost more, for N = {N}",
        claim="0.8",
        found=[wide["the projections"], wide["projections and MLP together"]],
        expected=[N // factor // HEAD * HEAD for factor in (2, 6)],
    )


# %% [markdown]
# Memory: the weight matrix has N² entries for each head. The kernel does not store it, and recomputes its rows.


# %%
def space(show: Stage, D: int) -> None:
    spec = AttentionSpec(model_width=D, num_heads=1, bias=False, mask=Mask(causal=False))
    lengths = [2**power for power in range(6, 16, 3)]
    kept = [attention_cost(spec, queries=n).activation_bytes for n in lengths]
    grid = [4 * n * n for n in lengths]
    show.plot(
        "Memory for the backward pass of one head",
        line("the grid of weights", lengths, grid),
        line("what the kernel keeps", lengths, kept),
        x="context N (tokens)",
        y="bytes",
        log_x=True,
        log_y=True,
        caption="Time stays quadratic where the text is long; memory need not.",
    )
    show.check(
        "exponent in N of the grid's memory, and of what the kernel keeps",
        claim="1.6",
        found=[power_growth(lengths, grid).slope, power_growth(lengths, kept).slope],
        expected=[2, 1],
        within=0.02,
    )


# %% [markdown]
# Measured here: one attention layer without the perceptron, on one thread, the fastest of several calls. The exponent
# is the slope in the log–log plot over N; the predicted one is that of the FLOPs at the same sizes.


# %%
def measured(show: Stage) -> None:
    for name, claim, width, lengths in (
        ("N < D", "0.8", 768, [48, 96, 192, 384]),
        ("N > D", "1.6", 32, [1024, 1536, 2048, 3072]),
    ):
        spec = AttentionSpec(model_width=width, num_heads=1, bias=False, mask=Mask(causal=False))
        times = fastest(MultiHeadAttention(spec).eval(), lengths)
        predicted = [attention_cost(spec, queries=n).forward_flops for n in lengths]
        rate = predicted[-1] / times[-1]
        show.plot(
            f"Time of one attention layer, {name}: D = {width}",
            line("predicted from FLOPs", lengths, [flops / rate * 1e3 for flops in predicted]),
            points("measured", lengths, [seconds * 1e3 for seconds in times]),
            x="context N (tokens)",
            y="milliseconds",
            log_x=True,
            log_y=True,
            caption=f"The line passes through the last point, at {number_text(rate / 1e9, 3)} GFLOPS.",
        )
        show.check(
            f"{name}: fitted exponent of the measured time in N, against that of FLOPs",
            claim=claim,
            found=power_growth(lengths, times).slope,
            expected=power_growth(lengths, predicted).slope,
            within=EXPONENT_MARGIN,
        )


def fastest(layer: MultiHeadAttention, lengths: list[int]) -> list[float]:
    """Return the minimum seconds for texts of these lengths, timed in turns until the two smallest of each agree.

    They are the CPU time of one thread, so that other load on the machine affects them as little as possible.
    """
    texts = [torch.randn(1, length, layer.spec.model_width) for length in lengths]
    timers = [Timer("layer(text)", timer=thread_time, globals={"layer": layer, "text": text}) for text in texts]
    taken: list[list[float]] = [[] for _ in timers]
    with torch.no_grad():
        for turn in range(ROUNDS):
            for timer, seconds in zip(timers, taken, strict=True):
                seconds.append(timer.timeit(2).mean)
            pairs = [sorted(seconds)[:2] for seconds in taken]
            if turn > 3 and all(second <= AGREED * first for first, second in pairs):
                break
    return [min(seconds) for seconds in taken]


# %%
if __name__ == "__main__":
    complexity.main()
