"""Build the site: the tutorials, the gallery, then all pages. `--pages` leaves out what trains or computes."""

from __future__ import annotations

import os
import sys

from website.paths import ROOT


def build(*, pages_only: bool = False, site_dir: str | None = None) -> None:
    """Build the site into `site_dir`, by default that of mkdocs.yml, and stop at the first warning."""
    os.environ["NO_MKDOCS_2_WARNING"] = "1"  # Material prints a banner about a release that it does not support
    from mkdocs.commands.build import build as build_pages
    from mkdocs.config import load_config

    from website.gallery import make_gallery
    from website.notebooks import run_notebooks

    if not pages_only:
        run_notebooks()
        make_gallery()
    changed = {"site_dir": site_dir} if site_dir else {}
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True, **changed)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build_pages(config)
    finally:
        config.plugins.on_shutdown()


if __name__ == "__main__":
    build(pages_only="--pages" in sys.argv[1:])
