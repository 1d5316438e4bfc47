"""The receipt of a comparison: one hash over its plan and the receipts of all its runs.

receipt.json  {"format": 1, "plan": …, "runs": {name: the last hash of its chain}, "files": {name: …}, "sha256": …}

`files` are the log of analyses and what was measured of the runs after training, which their own chains do not cover.
"""

from __future__ import annotations

from typing import Any

from attnlab.experiments.launching.worker import USAGE
from attnlab.experiments.results import LOOKS, Comparison
from attnlab.lens.runs import HEADS_FILE, MEASURES_FILE
from attnlab.runs.receipts import read_chain
from attnlab.storage.files import hash_file
from attnlab.storage.plans import plan_hash
from attnlab.storage.records import content_hash

FORMAT = 1
RECEIPT = "receipt.json"
MEASURED = (MEASURES_FILE, HEADS_FILE, USAGE)


def make_receipt(comparison: Comparison) -> dict[str, Any]:
    """Return the receipt of a comparison; a run that was trained without receipts counts as None."""
    paths = sorted(run.path for result in comparison.rungs for arm in result.arms for run in arm.runs)
    chains = {path.name: read_chain(path) for path in paths}
    files = {LOOKS: comparison.path / LOOKS}
    files |= {f"{path.name}/{name}": path / name for path in paths for name in MEASURED}
    content = {
        "format": FORMAT,
        "plan": plan_hash(comparison.plan.model_dump(mode="json")),
        "runs": {name: chain[-1].sha256 if chain else None for name, chain in chains.items()},
        "files": {name: hash_file(path) for name, path in files.items() if path.is_file()},
    }
    return {**content, "sha256": content_hash(content)}
