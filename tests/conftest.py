"""What every test gets: one thread per worker, the same examples each time, and a fixed seed."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import hypothesis
import pytest
import torch

from attnlab.attention.names import catalogue
from attnlab.attention.parts import Part

torch.set_num_threads(1)

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as under `nohup make test &`; child processes would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("attnlab", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("attnlab")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    """Forget the variants and parts that a test added."""
    before = [(known, dict(known)) for known in (catalogue._known, Part._known)]
    yield
    for known, names in before:
        known.clear()
        known.update(names)
