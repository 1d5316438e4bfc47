"""Side-by-side measurements against peers, as ratios within one run."""

from attnlab.bench.attention import AttentionBench, Measured, bench_attention
from attnlab.bench.bars import BARS, bench_bars
from attnlab.bench.cases import Size
from attnlab.bench.charts import attention_page, bars_page, findings_page
from attnlab.bench.entries import Peers, find_peers
from attnlab.bench.findings import Findings
from attnlab.bench.judging import Bar, BarsBench, Outcome
from attnlab.bench.memory import peak_bytes
from attnlab.bench.progress import Listener
from attnlab.bench.shapes import SHAPES, Shape
from attnlab.bench.time_to_loss import TimeToLossBench, bench_time_to_loss
from attnlab.bench.timing import Durations, Ratio, take_turns
from attnlab.bench.training import TrainBench, TrainPlan, bench_train
from attnlab.bench.writing import GenerateBench, WritePlan, bench_generate
from attnlab.processes.machine import Machine, describe_machine, using_threads

__all__ = [
    "BARS",
    "SHAPES",
    "AttentionBench",
    "Bar",
    "BarsBench",
    "Durations",
    "Findings",
    "GenerateBench",
    "Listener",
    "Machine",
    "Measured",
    "Outcome",
    "Peers",
    "Ratio",
    "Shape",
    "Size",
    "TimeToLossBench",
    "TrainBench",
    "TrainPlan",
    "WritePlan",
    "attention_page",
    "bars_page",
    "bench_attention",
    "bench_bars",
    "bench_generate",
    "bench_time_to_loss",
    "bench_train",
    "describe_machine",
    "find_peers",
    "findings_page",
    "peak_bytes",
    "take_turns",
    "using_threads",
]
