"""Build the wheel, install it into an empty environment, and use it outside the source tree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMANDS = (("--version",), ("exhibit", "scaling"), ("compare", "--smoke", "--quiet"))


def main() -> None:
    """Leave the wheel in dist/ if every command works from it."""
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(ROOT / "dist"), str(ROOT))
    wheel = next((ROOT / "dist").glob("attnlab-*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        venv.create(here / "venv", with_pip=True)
        scripts = here / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        pip = (str(scripts / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check")
        run(*pip, "-c", str(ROOT / "constraints.txt"), str(wheel))
        for command in COMMANDS:
            run(str(scripts / "attnlab"), *command, cwd=here)
        if not list(here.glob("runs/compare-*/report.html")):
            raise SystemExit("the comparison wrote no report")
    print(f"{wheel.name} works outside the source tree")


def run(*command: str, cwd: Path | None = None) -> None:
    """Run a command, and stop with what it said if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
