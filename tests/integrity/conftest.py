"""One small trained run, which each test gets a copy of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.training import KINSHIP, smoke, train_in


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run and the cache of its corpus."""
    folder = tmp_path_factory.mktemp("trained")
    train_in(folder, smoke(corpus=KINSHIP, steps=3))
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished run, in the folder `runs` of the working directory."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    (found,) = Path("runs").iterdir()
    return found
