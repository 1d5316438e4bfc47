"""Runs on disk: what is there of a run at every moment, and how it is found again.

manifest       the files of a checkpoint with their hashes
checkpoints    the checkpoints of a run
directory      a run's folder: record, metrics, checkpoints, result
ledger         all runs below a folder, and a run by its name
cleaning       what runs no longer need
"""

from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.directory import RunDirectory
from attnlab.storage.locks import RunHeldError

__all__ = ["Checkpoints", "RunDirectory", "RunHeldError"]
