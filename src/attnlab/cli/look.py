"""Look inside a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.errors import InputError
from attnlab.lens import look_at
from attnlab.lens.look_page import number_rows
from attnlab.lens.looking import MOST_TOKENS, open_subject
from attnlab.lens.looks import Look
from attnlab.models import tap_names
from attnlab.pages import check_writable
from attnlab.training.directory import RunDirectory
from attnlab.training.ledger import DEFAULT_ROOT

DEFAULT_PAGE = Path("look.html")

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Numbers = Annotated[list[int] | None, Parameter(negative="")]


def look(
    run: Path,
    text: str | None = None,
    /,
    *,
    out: Path | None = None,
    source: str | None = None,
    layer: Numbers = None,
    head: Numbers = None,
    tokens: int = MOST_TOKENS,
    step: int | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    weights: Flag = False,
    names: Flag = False,
    runs: Path = DEFAULT_ROOT,
) -> None:
    """Show what every head of a model looks at in a text, as one page that works offline.

    Parameters
    ----------
    run
        A run, or a GPT-2 folder of Transformers.
    text
        What to look at; without it, the first row of the run's validation text.
    out
        Where to write the page; look.html if not said.
    source
        What the encoder of an encoder–decoder reads.
    layer
        Only this layer, counted from 0; may be given several times.
    head
        Only this head of each layer; may be given several times.
    tokens
        Cut a longer text after so many.
    step
        The run as it was after this step, of which it must have kept a checkpoint.
    as_json
        Print the numbers as JSON; a page is then written only with --out.
    weights
        With --json: the weights of every cell too.
    names
        Only list the activations that can be read or replaced by name, with their shapes.
    runs
        The folder that holds the runs.
    """
    if weights and not as_json:
        raise InputError("--weights belongs to --json", hint="add --json; the page holds all weights anyway")
    path = _find(run, runs)
    if names:
        _list_names(path, step, as_json)
        return
    page = out if as_json else out or DEFAULT_PAGE
    if page is not None:
        check_writable(page)  # before the work
    found = look_at(path, text, source=source, step=step, tokens=tokens, layers=layer, heads=head)
    if page is not None:
        found.write(page)
    if as_json:
        show_json(found.to_dict(weights=weights))
    else:
        _print(found)
    for note in found.notes:
        say(f"note: {note}")
    if page is not None:
        say(f"wrote {page}")


def _find(run: Path, root: Path) -> Path:
    """A run may be given by its folder, or by its name below the folder of the runs."""
    if RunDirectory.exists(run) or (run / "config.json").is_file() or not RunDirectory.exists(root / run):
        return run
    return root / run


def _print(found: Look) -> None:
    headings, rows = number_rows(found)
    if rows:
        show(make_table(headings, rows, left=(0,) if headings[0] == "where" else (), wrap=()))
    for layer in found.layers:
        if layer.absence:
            show(f"layer {layer.layer}: {layer.absence}")


def _list_names(path: Path, step: int | None, as_json: bool) -> None:
    known = tap_names(open_subject(path, step=step).model)
    if as_json:
        show_json({name: list(shape) for name, shape in known.items()})
        return
    rows = [[name, " × ".join(map(str, shape))] for name, shape in known.items()]
    show(make_table(["name", "shape"], rows, left=(0, 1), wrap=()))
