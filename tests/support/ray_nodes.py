"""Run as a program: grids on real Ray clusters. It prints what became of them.

    python -m support.ray_nodes removed FOLDER SHORT_FOLDER     a cluster of two nodes, one removed while both train
    python -m support.ray_nodes own FOLDER                      a cluster that the launcher starts, interrupted once

It is a program of its own because Ray changes much in the process that uses it, and leaves threads there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from attnlab.experiments.launching.launcher import launcher
from attnlab.runs import RunDirectory
from attnlab.storage.records import to_plain
from support.launching import SAVING, Hearing, Meanwhile, grid, runs_under_way
from support.training import children_of

QUICK = {"health_check_period_ms": 500, "health_check_failure_threshold": 3, "health_check_initial_delay_ms": 500}


def removed(folder: Path, short: str) -> dict[str, Any]:
    """One of two nodes is removed."""
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": short})
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": QUICK},
    )
    other = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    raylet = other.all_processes["raylet"][0].process.pid

    def lose(run: RunDirectory) -> None:
        assert run.holder is not None
        os.kill(run.holder.pid, signal.SIGSTOP)  # so that it cannot end before its node is gone
        cluster.remove_node(other, allow_graceful=False)
        with suppress(ProcessLookupError):
            os.kill(run.holder.pid, signal.SIGKILL)

    meanwhile = Meanwhile(
        folder / "runs",
        lose,
        lambda run: run.holder is not None and run.holder.pid in children_of(raylet),
    )
    heard = Hearing()
    try:
        ends = launcher("ray", cache=folder / "cache", saving=SAVING).run(grid(folder), listener=heard)
        return {
            "still connected": ray.is_initialized(),
            "removed": meanwhile.did is not None,
            "notes": heard.notes,
            "results": [end.result and end.result.weights_sha256 for end in ends],
            "problems": [end.problem for end in ends],
        }
    finally:
        ray.shutdown()
        cluster.shutdown()


def own(folder: Path) -> dict[str, Any]:
    """Interrupted in the middle, and gone on with."""
    jobs = grid(folder, seeds=1)
    Meanwhile(folder / "runs", lambda _: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    found: dict[str, Any] = {"interrupted": False}
    try:
        launcher("ray", 2, 1, cache=folder / "cache").run(jobs)
    except KeyboardInterrupt:
        found["interrupted"] = True
    runs = runs_under_way(folder / "runs")
    found["saved"] = [run.checkpoints.steps() == [run.metrics()[-1]["step"]] for run in runs]
    found["signal as before"] = signal.getsignal(signal.SIGTERM) is before
    ends = launcher("ray", 2, 1, cache=folder / "cache").run(jobs)
    found["results"] = [end.result and end.result.weights_sha256 for end in ends]
    found["connected"] = ray.is_initialized()
    found["folders"] = list(map(str, Path(tempfile.gettempdir()).glob("*")))
    return found


if __name__ == "__main__":
    told = {"removed": removed, "own": own}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
    print(json.dumps(to_plain(told)))
