"""Tutorials: notebooks without output in docs/tutorials, executed for the site and made into pages."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from website.paths import NOTEBOOKS, TUTORIAL_RUNS, TUTORIALS, is_current, keep, source_hash
from website.shared import share

_FRAME = re.compile(r'<iframe[^>]*title="([^"]*)"[^>]*srcdoc="([^"]*)"[^>]*></iframe>', re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SECONDS = 900  # the longest that a cell may take


def sources() -> list[Path]:
    """Return the notebooks in the order in which they are read."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def run_notebooks() -> None:
    """Execute every notebook that has changed, or whose source code has, at full size."""
    for path in sources():
        made, key = TUTORIALS / path.name, source_hash(path.read_text(encoding="utf-8"))
        if is_current(made, key):
            continue
        print(f"tutorial: {path.stem}", flush=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        notebook = nbformat.read(path, as_version=4)
        folder = TUTORIAL_RUNS / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        NotebookClient(
            notebook,
            timeout=_SECONDS,
            resources={"metadata": {"path": str(folder)}},
            extra_arguments=["--log-level=ERROR"],  # no warning that local connections are not encrypted
        ).execute()
        nbformat.write(notebook, made)
        keep(made, key)


def tutorial_pages() -> dict[str, str]:
    """Return the text of each page by its file; frames and pictures are written beside the executed notebook."""
    pages = {}
    for path in sources():
        made = TUTORIALS / path.name
        notebook = nbformat.read(made if made.exists() else path, as_version=4)
        pages[f"{path.stem}.md"] = "\n\n".join(_Page(path.stem).parts(notebook))
    rows = [f"| [{_title(text)}]({name}) | {_lead(text)} |" for name, text in pages.items()]
    pages["index.md"] = "\n".join(
        ["# Tutorials", "", _INTRODUCTION, "", "| tutorial | for whom |", "| --- | --- |", *rows]
    )
    return pages


_INTRODUCTION = (
    "Four notebooks, each under fifteen minutes on two cores. They are in `docs/tutorials` of the repository, without "
    "output; `ATTNLAB_SMOKE=1` runs them at a size of seconds. The pages here show what they print at full size."
)


def _title(text: str) -> str:
    return text.partition("\n")[0].removeprefix("# ")


def _lead(text: str) -> str:
    """Return the paragraph below the title."""
    return " ".join(text.split("\n\n")[1].split())


class _Page:
    """A notebook as Markdown."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._files = 0

    def parts(self, notebook: Any) -> Iterator[str]:
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                yield cell.source
            elif cell.cell_type == "code":
                yield f"```python\n{cell.source}\n```"
                for output in cell.get("outputs", ()):
                    yield from self._output(output)

    def _output(self, output: Any) -> Iterator[str]:
        if output.output_type == "stream":
            if output.name == "stdout":
                yield _block(output.text)
            return
        data = output.get("data", {})
        if "text/html" in data:
            yield f'<div class="output">{_FRAME.sub(self._frame, data["text/html"])}</div>'
        elif "image/png" in data:
            yield f"![Output]({self._write('png', base64.b64decode(data['image/png']))})"
        elif "text/markdown" in data:
            yield str(data["text/markdown"])
        elif "text/plain" in data:
            yield _block(data["text/plain"])

    def _frame(self, found: re.Match[str]) -> str:
        """Put a page that stands in a frame into a file of its own."""
        title, inner = found.groups()
        name = self._write("html", share(html.unescape(inner), "../").encode())
        return f'<iframe class="frame" loading="lazy" title="{title}" src="{name}"></iframe>'

    def _write(self, suffix: str, content: bytes) -> str:
        self._files += 1
        path = TUTORIALS / f"{self._name}-{self._files}.{suffix}"
        path.write_bytes(content)
        return path.name


def _block(text: str) -> str:
    return f"```text\n{_COLOUR.sub('', text).rstrip()}\n```"
