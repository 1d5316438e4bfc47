"""Where the playground can begin; see presets.toml."""

from __future__ import annotations

import tomllib
from importlib import resources


def presets() -> dict[str, object]:
    """Return every preset: its name, what to see in it, the exhibit that tells more, and its state."""
    return tomllib.loads(resources.files("attnlab.studio.work").joinpath("presets.toml").read_text("utf-8"))
