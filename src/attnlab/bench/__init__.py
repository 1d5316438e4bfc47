"""Side-by-side measurements against peers, as ratios within one run."""

from attnlab.bench.attention import AttentionBench, Measured, bench_attention
from attnlab.bench.bars import BARS, bench_bars
from attnlab.bench.cases import Size
from attnlab.bench.charts import attention_page, bars_page
from attnlab.bench.judging import Bar, BarsBench, Outcome
from attnlab.bench.memory import peak_bytes
from attnlab.bench.progress import Listener
from attnlab.bench.timing import Durations, Ratio, take_turns
from attnlab.training.machine import Machine, describe_machine, using_threads

__all__ = [
    "BARS",
    "AttentionBench",
    "Bar",
    "BarsBench",
    "Durations",
    "Listener",
    "Machine",
    "Measured",
    "Outcome",
    "Ratio",
    "Size",
    "attention_page",
    "bars_page",
    "bench_attention",
    "bench_bars",
    "describe_machine",
    "peak_bytes",
    "take_turns",
    "using_threads",
]
