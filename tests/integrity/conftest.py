"""One small trained run and one small comparison, which each test gets a copy of."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.forgeries import make_comparison
from support.training import KINSHIP, smoke, train_in


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run and the cache of its corpus."""
    folder = tmp_path_factory.mktemp("trained")
    train_in(folder, smoke(corpus=KINSHIP, steps=3))
    return folder


@pytest.fixture(scope="session")
def concluded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one comparison that has its answer, and the cache of its corpus."""
    folder = tmp_path_factory.mktemp("concluded")
    make_comparison(folder)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished run, in the folder `runs` of the working directory."""
    return _copied(trained, tmp_path, monkeypatch)


@pytest.fixture
def comparison(concluded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the comparison, in the folder `runs` of the working directory."""
    return _copied(concluded, tmp_path, monkeypatch)


def _copied(made: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, folder, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNLAB_CACHE", str(folder / "cache"))
    (found,) = Path("runs").iterdir()
    return found
