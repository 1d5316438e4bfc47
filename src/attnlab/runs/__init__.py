"""Runs on disk: the files of a run, and finding runs.

metrics        one line per measurement: write, read, rewind, follow
checkpoints    the checkpoints of a run, with their manifests
verification   checks against recorded hashes
receipts       a chain of hashes from the record of a run to its weights
directory      a run's folder (record, metrics, checkpoints, result) and its result
ledger         all runs below a folder, and a run by its name
cleaning       removing runs, and files that they no longer need
"""

from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.directory import RunDirectory, RunResult
from attnlab.storage.locks import RunHeldError

__all__ = ["Checkpoints", "RunDirectory", "RunHeldError", "RunResult"]
