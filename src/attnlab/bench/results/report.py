"""What was measured, as words and as rows: the same for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from attnlab.bench.kernels.attention import AttentionBench, Measured
from attnlab.bench.kernels.memory import MEBIBYTE
from attnlab.bench.kernels.peers import PEER
from attnlab.bench.results.judging import Figure, Judged, Outcome
from attnlab.bench.results.timing import Ratio

NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """A column of a table: what stands above it, and how a row fills it."""

    heading: str
    cell: Callable[[Measured], str]
    on_pages_only: bool = False


def number(value: float) -> str:
    """Three digits that count: 0.97, 9.71, 97.1, 971."""
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f}"


def with_spread(ratio: Ratio | None) -> str:
    """The median, and where most rounds lie."""
    if ratio is None:
        return NOTHING
    if ratio.rounds == 1:  # counted, or timed once
        return f"{ratio.median:.4g}"
    return f"{number(ratio.median)} {number(ratio.low)}–{number(ratio.high)}"


def _median(ratio: Ratio | None) -> str:
    return NOTHING if ratio is None else number(ratio.median)


def _mebibytes(count: int | None) -> str:
    if count is None:
        return NOTHING
    return f"{count / MEBIBYTE:.{1 if count < 10 * MEBIBYTE else 0}f}"


def _peaks(row: Measured) -> str:
    return f"{_mebibytes(row.peak_bytes.variant)} ({_mebibytes(row.peak_bytes.reference)})"


COLUMNS = (
    Column("variant", lambda row: row.name),
    Column("kernel", lambda row: row.kernel, on_pages_only=True),
    Column("forward", lambda row: with_spread(row.forward.variant)),
    Column("forward\n+backward", lambda row: with_spread(row.forward_backward.variant)),
    Column("reference\n÷ ours", lambda row: _median(row.forward_backward.reference_over_variant)),
    Column(f"{PEER}\n÷ ours", lambda row: _median(row.forward_backward.peer_over_variant)),
    Column("peak MiB\n(ref.)", _peaks),
)


def columns(*, on_page: bool) -> list[Column]:
    return [column for column in COLUMNS if on_page or not column.on_pages_only]


def attention_words(bench: AttentionBench) -> list[str]:
    """How to read the table."""
    first = bench.variants[0]
    forward, both = first.forward.baseline_seconds * 1000, first.forward_backward.baseline_seconds * 1000
    return [
        f"Forward and forward+backward are times ÷ fused softmax ({number(forward)} and {number(both)} ms here): the "
        f"median of {_rounds(bench.rounds)}, then the 10th and 90th percentile; slow calls take part in fewer.",
        f"“÷ ours” is how many times as long as the variant its materialised reference, or the {PEER} package, takes "
        "forward+backward. Memory is the peak of forward+backward beyond the inputs, and that of the reference.",
    ]


def bars_words(bench: Judged) -> list[str]:
    """What each bar claims."""
    return [f"{outcome.name}: {outcome.what}; {outcome.how}." for outcome in bench.bars]


BAR_HEADINGS = ("bar", "verdict", "limit", "worst", "of", "met by")
FIGURE_HEADINGS = ("bar", "variant", "figure", "limit", "verdict")


def bar_rows(bench: Judged) -> list[tuple[str, ...]]:
    """A row for each bar, with the variant that comes nearest to missing it or misses it most."""
    rows: list[tuple[str, ...]] = []
    for outcome in bench.bars:
        worst = outcome.figures[0] if outcome.figures else None
        met = sum(figure.met is True for figure in outcome.figures)
        rows.append(
            (
                outcome.name,
                outcome.verdict,
                limit(outcome),
                with_spread(worst.ratio) if worst else NOTHING,
                worst.variant if worst else NOTHING,
                NOTHING if outcome.limit is None else f"{met}/{len(outcome.figures)}",
            )
        )
    return rows


def figure_rows(bench: Judged, *, missed_only: bool = False) -> list[tuple[str, ...]]:
    """A row for each variant of each bar."""
    return [
        (outcome.name, figure.variant, with_spread(figure.ratio), limit(outcome), _verdict(figure))
        for outcome in bench.bars
        for figure in outcome.figures
        if not missed_only or figure.met is False
    ]


def limit(outcome: Outcome) -> str:
    if outcome.limit is None:
        return NOTHING
    return f"{'≥' if outcome.at_least else '≤'} {outcome.limit:g}"


def _verdict(figure: Figure) -> str:
    return {True: "met", False: "missed", None: "reported"}[figure.met]


def _rounds(count: int) -> str:
    return "1 round" if count == 1 else f"{count} rounds"
