"""Side-by-side measurements against peers, as ratios within one run.

results     what all measurements share
kernels     attention alone
races       whole models
products    what users wait for
trust       how far results can be trusted
"""

from attnlab.bench.kernels.attention import AttentionBench, Measured, bench_attention
from attnlab.bench.kernels.bars import BARS, bench_bars
from attnlab.bench.kernels.cases import Size
from attnlab.bench.kernels.memory import peak_bytes
from attnlab.bench.races.entries import Peers, find_peers
from attnlab.bench.races.shapes import SHAPES, Shape
from attnlab.bench.races.time_to_loss import TimeToLossBench, bench_time_to_loss
from attnlab.bench.races.training import TrainBench, TrainPlan, bench_train
from attnlab.bench.races.writing import GenerateBench, WritePlan, bench_generate
from attnlab.bench.results.charts import attention_page, bars_page, findings_page
from attnlab.bench.results.findings import Findings
from attnlab.bench.results.judging import Bar, BarsBench, Outcome
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.timing import Durations, Ratio, take_turns
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
