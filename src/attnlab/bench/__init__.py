"""Side-by-side measurements against peers, as ratios within one run.

results     shared by all measurements: timing, memory, bars, findings and pages
kernels     attention alone
races       whole models
products    waiting times of users
trust       the reliability of results
"""

from attnlab.bench.kernels.attention import AttentionBench, Measured, bench_attention
from attnlab.bench.kernels.bars import BARS, BarsBench, VariantBar, bench_bars
from attnlab.bench.kernels.cases import CallSize
from attnlab.bench.races.entries import SHAPES, Peers, Shape, find_peers
from attnlab.bench.races.speed import GenerateBench, GenerationPlan, bench_generate
from attnlab.bench.races.time_to_loss import TimeToLossBench, bench_time_to_loss
from attnlab.bench.races.training import TrainBench, TrainPlan, bench_train
from attnlab.bench.results.findings import BenchListener, Findings, findings_page
from attnlab.bench.results.judging import Bar, JudgedBar
from attnlab.bench.results.memory import peak_bytes
from attnlab.bench.results.timing import Durations, Ratio, take_turns
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
