"""How fast models train: attnlab and its peers side by side, and attnlab's share of what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.bench.entries import MATMUL, NANOGPT, NANOGPT_COMPILED, OURS, Entry, Peers
from attnlab.bench.findings import FoundTable
from attnlab.bench.judging import Claim, Outcome, judge_claim
from attnlab.bench.progress import Listener
from attnlab.bench.race import Race, race
from attnlab.bench.report import NOTHING, number, with_spread
from attnlab.bench.shapes import Shape
from attnlab.bench.timing import Ratio
from attnlab.cost import model_cost
from attnlab.training.progress import short_count

_HOW = "tokens per second ÷ the better of nanoGPT eager and compiled"
CLAIMS = {
    "small": Claim("speed-small", "training at the shape small", _HOW, 1.2, at_least=True),
    "mini": Claim("speed-mini", "training at the shape mini", _HOW, 1.1, at_least=True),
    "gpt2": Claim("speed-gpt2", "training at the shape gpt2", _HOW, 1.3, at_least=True),
}
SHARE = Claim(
    "peak-share",
    "training at the shape mini",
    "multiply–adds per second that causal attention needs ÷ the best rate of float32 matrix products",
    0.8,
    at_least=True,
)
SHARE_SHAPE = "mini"


@dataclass(frozen=True)
class Runner:
    """How one who took part did."""

    name: str
    step_seconds: float
    tokens_per_second: float
    beginning_seconds: float  # with the first step and all that is done once, such as compiling
    ours_over_it: Ratio  # how many times as fast attnlab is


@dataclass(frozen=True)
class SpeedRace:
    """One shape. `better_nanogpt` is the faster of its two forms, where nanoGPT took part."""

    shape: Shape
    useful_flops: int  # of a step
    runners: tuple[Runner, ...]
    better_nanogpt: str | None
    share_of_peak: Ratio

    def outcomes(self) -> list[Outcome]:
        better = {one.name: one.ours_over_it for one in self.runners if one.name == self.better_nanogpt}
        found = [judge_claim(CLAIMS[self.shape.name], better)]
        if self.shape.name == SHARE_SHAPE:
            found.append(judge_claim(SHARE, {OURS: self.share_of_peak}))
        return found

    def table(self) -> FoundTable:
        rows = [
            (
                one.name,
                short_count(one.tokens_per_second),
                number(one.step_seconds * 1000),
                NOTHING if one.name == OURS else with_spread(one.ours_over_it),
                number(one.beginning_seconds),
            )
            for one in self.runners
        ]
        words = (
            f"{self.shape}. attnlab reaches {with_spread(self.share_of_peak)} of the best rate of float32 matrix "
            "products, counting only the multiply–adds that causal attention needs. The beginning has everything up to "
            "the end of the first step, compilation too."
        )
        headings = ("", "tokens/s", "ms a step", "attnlab is\n× as fast", "beginning\ns")
        return FoundTable(f"Training, {self.shape.name}", words, headings, rows)


def race_training(
    shape: Shape, peers: Peers, threads: int, rounds: int, listener: Listener, turn_seconds: float
) -> SpeedRace:
    """attnlab with `threads` processes of one thread against peers with one process of `threads` threads."""
    ours = Entry(kind="attnlab", shape=shape, threads=1, workers=threads)
    matmul = Entry(kind="matmul", shape=shape, threads=threads)
    entries = [ours, *peers.entries(shape, threads), matmul]
    found = race(entries, "train", rounds, listener, turn_seconds=turn_seconds, what=shape.name)
    return read_race(shape, [entry.name for entry in entries if entry is not matmul], found)


def read_race(shape: Shape, names: list[str], found: Race) -> SpeedRace:
    """The figures that durations make."""
    durations = found.durations
    runners = tuple(
        Runner(
            name,
            durations.median(name),
            shape.tokens / durations.median(name),
            found.beginnings[name],
            durations.ratio(name, OURS),
        )
        for name in names
    )
    nanogpt = [one for one in runners if one.name in (NANOGPT, NANOGPT_COMPILED)]
    better = min(nanogpt, key=lambda one: one.step_seconds).name if nanogpt else None
    flops = model_cost(shape.model(), batch=shape.batch_size).useful_training_flops
    return SpeedRace(shape, flops, runners, better, durations.ratio(MATMUL, OURS))
