"""Look inside a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.attention import load_variants
from attnlab.cli.figures import FiguresFolder, check_figures_folder, save_figures
from attnlab.cli.options import RUNS, Flag, JsonFlag, RunsFolder, VariantsFile
from attnlab.cli.printing import say, show, show_json, show_section, showing_steps
from attnlab.errors import InputError
from attnlab.lens.comparison import HeadComparison, compare_heads
from attnlab.lens.pages.comparison_page import views as compare_views
from attnlab.lens.pages.head_views import study_rows
from attnlab.lens.pages.look import MOST_TOKENS, Look, More, look_at
from attnlab.lens.pages.look_page import number_rows
from attnlab.lens.pages.survey import survey as survey_of
from attnlab.lens.subjects import open_subject
from attnlab.models import tap_names
from attnlab.models.hf.folder import CONFIG
from attnlab.models.pretrained.opening import locate_pretrained, memory_words
from attnlab.pages import Table
from attnlab.runs import RunDirectory
from attnlab.runs.ledger import locate_run
from attnlab.storage.files import check_writable

DEFAULT_PAGE = Path("look.html")
_SHOWN_BY_ROWS = ("heads", "importance", "drawn_by")  # views that the table of all heads summarises

Numbers = Annotated[list[int] | None, Parameter(negative="")]
Words = Annotated[list[str] | None, Parameter(negative="")]
Paths = Annotated[list[Path] | None, Parameter(negative="", consume_multiple=True)]
Questions = Annotated[list[tuple[str, str, str, str]] | None, Parameter(negative="")]


def look(
    run: str | None = None,
    text: str | None = None,
    /,
    *,
    compare: Paths = None,
    out: Path | None = None,
    figures: FiguresFolder = None,
    source: str | None = None,
    layer: Numbers = None,
    head: Numbers = None,
    tokens: int = MOST_TOKENS,
    step: int | None = None,
    maps_only: Flag = False,
    importance: bool | None = None,
    on: Path | None = None,
    embeddings: Flag = False,
    analogy: Questions = None,
    beside: str | None = None,
    neurons: Flag = False,
    token: Words = None,
    facts: Flag = False,
    over_training: Flag = False,
    survey: Flag = False,
    as_json: JsonFlag = False,
    weights: Flag = False,
    names: Flag = False,
    variants_from: VariantsFile = None,
    runs: RunsFolder = RUNS,
) -> None:
    """Show the attention map, role and importance of every head of a model, as one page that works offline.

    Parameters
    ----------
    run
        A run, a folder of Hugging Face (GPT-2 or Llama), a GGUF file (Llama), or smollm2.
    text
        The text to run the model on; by default the first row of the validation text, or of Python's documentation.
    compare
        Compare the heads of these runs instead: two, or seeds of several variants, or a comparison's folder.
    out
        Where to write the page; look.html by default.
    source
        The input of the encoder in an encoder–decoder.
    layer
        Only the maps of this layer, counted from 0; may be given several times.
    head
        Only the maps of this head of each layer; may be given several times.
    tokens
        Truncate a longer text to this many tokens.
    step
        Use the checkpoint after this step, which the run must have kept.
    maps_only
        Show only the maps, and measure nothing.
    importance
        Measure the importance of each head, even if that takes minutes; or never.
    on
        Measure on this text file instead of the run's own validation rows.
    embeddings
        Also the embedding: dimensions, angles, and the nearest neighbours of the text's tokens.
    analogy
        Four tokens, a is to b as c is to d, by c − a + b; may be given several times.
    beside
        Another sentence: compare a token that it shares with the text, layer by layer.
    neurons
        Also single neurons: which tokens activate them, and which tokens they promote.
    token
        With --embeddings and --neurons: this token; may be given several times.
    facts
        Also where facts are stored, for a run on the generated world.
    over_training
        Also the heads at each checkpoint that the run has kept.
    survey
        Instead of one text, published findings about heads, sinks and redundancy, measured with intervals over texts.
    as_json
        Print the numbers as JSON; a page is then written only with --out.
    weights
        With --json: also the weight of every cell.
    names
        Only list the activations that can be read or replaced by name, with their shapes.
    """
    if weights and not as_json:
        raise InputError("--weights belongs to --json", hint="add --json; the page holds all weights anyway")
    if maps_only and importance:
        raise InputError("--maps-only does not measure the importance of heads", hint="leave one of them out")
    page = out if as_json else out or DEFAULT_PAGE
    check_figures_folder(figures)
    more = More(
        heads=not maps_only,
        importance=importance,
        embeddings=embeddings,
        tokens=tuple(token or ()),
        analogies=tuple(analogy or ()),
        beside=beside,
        neurons=neurons,
        facts=facts,
        over_training=over_training,
        on=on,
    )
    if variants_from is not None:
        load_variants(variants_from)
    if compare is not None:
        _check_comparing(more, run, text, one_run=(layer, head, step, source, weights or None, names or None))
        paths = [_find_subject(path, runs) for path in compare]
        if page is not None:
            check_writable(page)  # before the work
        for path in paths:
            _say_memory(path)
        compared = compare_heads(paths, run, tokens=tokens, importance=importance, on=on)
        if not as_json:
            for view in compare_views(compared):
                show_section(view.heading, view.parts)
        _finish(compared, compared.to_dict() if as_json else None, page, figures)
        return
    if run is None:
        raise InputError("there is no run to look at", hint="name one; `attnlab runs list` shows them")
    path = _find_subject(Path(run), runs)
    if names:
        _list_names(path, step, as_json)
        return
    if page is not None:
        check_writable(page)  # before the work
    _say_memory(path)
    if survey:
        _survey(path, on, text, page, as_json)
        return
    with showing_steps() as progress:
        found = look_at(
            path, text, source=source, step=step, tokens=tokens, layers=layer, heads=head, more=more, progress=progress
        )
    if not as_json:
        _print(found)
    _finish(found, found.to_dict(weights=weights) if as_json else None, page, figures)


def _survey(path: Path, on: Path | None, text: str | None, page: Path | None, as_json: bool) -> None:
    if text is not None:
        raise InputError("--survey measures on many texts, and one was given", hint="give a file of texts by --on")
    with showing_steps() as progress:
        found = survey_of(path, on=on, progress=progress)
    if page is not None:
        found.write(page)
    if as_json:
        show_json(found.to_dict())
    else:
        headings = ("finding", "value", "95 % interval", "what it is")
        show(found.texts, Table(headings, found.rows(), text_columns=(0, 3), wrap_columns=(3,)))
    if page is not None:
        say(f"wrote {page}")


def _check_comparing(more: More, run: str | None, text: str | None, *, one_run: Sequence[object]) -> None:
    alone = replace(more, importance=None, on=None)
    if alone != More() or any(value is not None for value in one_run):
        raise InputError(
            "--compare can be combined only with --importance, --on, --tokens, --out, --figures and --json",
            hint="leave the other options out, or name one run without --compare",
        )
    if text is not None:
        raise InputError(
            f"with --compare there is one text, and {run!r} is another one", hint="name all runs behind --compare"
        )


def _finish(found: Look | HeadComparison, data: object, page: Path | None, figures: Path | None) -> None:
    """Write the page and the figures, print the data, and say what is to be known."""
    if page is not None:
        found.write(page)
    if data is not None:
        show_json(data)
    for note in found.notes:
        say(f"note: {note}")
    if page is not None:
        say(f"wrote {page}")
    if figures is not None:
        save_figures(found.page(), figures)


def _find_subject(run: Path, root: Path) -> Path:
    """Return the path of a model given by its folder, or of a run by its name below the folder of the runs."""
    return run if (run / CONFIG).is_file() else locate_run(run, root) or locate_pretrained(run) or run


def _say_memory(path: Path) -> None:
    """Say what a pretrained model takes before it is opened."""
    if not RunDirectory.exists(path) and (place := locate_pretrained(path)) is not None:
        say(f"opening {place.name}: {memory_words(place)}")


def _print(found: Look) -> None:
    headings, rows = number_rows(found) if found.study is None else study_rows(found.study)
    if rows:
        text = (0, 1) if found.study is not None else (0,) if headings[0] == "where" else ()
        show(Table(headings, rows, text_columns=text, wrap_columns=(1,) if found.study is not None else ()))
    for layer in found.layers:
        if layer.absence:
            show(f"layer {layer.layer}: {layer.absence}")
    for view in found.views:
        if view.name not in _SHOWN_BY_ROWS:
            show_section(view.heading, view.parts)


def _list_names(path: Path, step: int | None, as_json: bool) -> None:
    known = tap_names(open_subject(path, step=step).model)
    if as_json:
        show_json({name: list(shape) for name, shape in known.items()})
        return
    rows = [[name, " × ".join(map(str, shape))] for name, shape in known.items()]
    show(Table(("name", "shape"), rows, text_columns=(0, 1)))
