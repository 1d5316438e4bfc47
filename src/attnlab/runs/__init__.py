"""Runs on disk: what is there of a run at every moment, and how it is found again.

metrics        one line for each thing measured: written, read, rewound, followed
checkpoints    the checkpoints of a run, with their manifests
verification   checks against recorded hashes
receipts       a chain of hashes from the record of a run to its weights
directory      a run's folder (record, metrics, checkpoints, result) and its result
ledger         all runs below a folder, and a run by its name
cleaning       removing runs, and what they no longer need
"""

from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.directory import RunDirectory, RunResult
from attnlab.storage.locks import RunHeldError

__all__ = ["Checkpoints", "RunDirectory", "RunHeldError", "RunResult"]
