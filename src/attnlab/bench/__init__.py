"""Side-by-side measurements against peers, as ratios within one run.

timing         ratios of durations on a shared machine
processes      memory of calls and processes, whole commands, and the browser
findings       bars and their verdicts, and results for a terminal, a page and JSON
cases          attention alone: the calls that are timed
attention      every variant against fused softmax, its definition and public implementations
bars           the limits that attnlab claims for its kernels, and how each is measured
races          whole models
products       waiting times of users
simulated      simulated comparisons with known truth
calibration    error rates of verdicts, simulated and trained
forecasts      error rates of forecasts
"""

from attnlab.bench.attention import AttentionBench, Measured, bench_attention
from attnlab.bench.bars import BARS, BarsBench, VariantBar, bench_bars
from attnlab.bench.cases import CallSize
from attnlab.bench.findings import Bar, BenchListener, Findings, JudgedBar, findings_page
from attnlab.bench.processes import peak_bytes
from attnlab.bench.races.race import SHAPES, Peers, Shape, find_peers
from attnlab.bench.races.speed import GenerateBench, GenerationPlan, bench_generate
from attnlab.bench.races.time_to_loss import TimeToLossBench, bench_time_to_loss
from attnlab.bench.races.training import TrainBench, TrainPlan, bench_train
from attnlab.bench.timing import Durations, Ratio, take_turns
from attnlab.processes.machine import Machine, describe_machine, using_threads

__all__ = [
    "BARS",
    "SHAPES",
    "AttentionBench",
    "Bar",
    "BarsBench",
    "BenchListener",
    "CallSize",
    "Durations",
    "Findings",
    "GenerateBench",
    "GenerationPlan",
    "JudgedBar",
    "Machine",
    "Measured",
    "Peers",
    "Ratio",
    "Shape",
    "TimeToLossBench",
    "TrainBench",
    "TrainPlan",
    "VariantBar",
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
