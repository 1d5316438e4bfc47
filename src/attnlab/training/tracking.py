"""Trackers: where the numbers of a run go besides its directory. Nothing is sent anywhere unless it is asked for.

To follow runs with another tool, write a class with these two methods, and give it to `train`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from attnlab.errors import UnsupportedError


class Tracker(Protocol):
    """Something that is told every number of a run as it comes."""

    def log(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


class TensorBoard:
    """Event files for TensorBoard, in the folder `tensorboard` of the run. A resumed run hides what came after its
    checkpoint."""

    def __init__(self, run: Path, step: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UnsupportedError(
                "TensorBoard is not installed", hint="pip install 'attnlab[tensorboard]', or leave --tensorboard out"
            ) from None
        self._writer = SummaryWriter(run / "tensorboard", purge_step=step + 1)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, step)

    def close(self) -> None:
        self._writer.close()
