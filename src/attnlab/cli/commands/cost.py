"""The cost of a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from attnlab.attention import load_variants
from attnlab.cli.figures import FiguresFolder, check_figures_folder, save_figures
from attnlab.cli.options import Flag, JsonFlag, Several, VariantsFile, name_value_pairs, typed
from attnlab.cli.printing import fits, say, show, show_json
from attnlab.cost import CostTable, tabulate
from attnlab.cost.questions.changes import ATTENTION_CHANGES
from attnlab.cost.questions.question import SIZE_CHANGES
from attnlab.errors import InputError
from attnlab.storage.files import check_writable, write_whole

_WIDEST_PLOT = 100


def cost(
    *sizes: str,
    variant: Several = (),
    context: int | None = None,
    batch: int = 1,
    recipe: str = "gpt2",
    vocabulary: int | None = None,
    number_bytes: int | None = None,
    mixed_precision: Flag = False,
    checkpointing: Flag = False,
    family: Literal["decoder", "encoder"] = "decoder",
    change: Several = (),
    per_head: Flag = False,
    tensors: Flag = False,
    memory: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    sweep: Annotated[str | None, Parameter(show_default=False)] = None,
    measure: Flag = False,
    threads: int | None = None,
    variants_from: VariantsFile = None,
    out: Path | None = None,
    csv: Path | None = None,
    figures: FiguresFolder = None,
    as_json: JsonFlag = False,
) -> None:
    """Count the parameters, FLOPs, memory and cache of a model, without building it.

    Parameters
    ----------
    sizes
        Which sizes (gpt2): pico, nano, micro, mini, gpt2, gpt2-medium, gpt2-large, gpt2-xl, gpt3-small, gpt3-medium,
        gpt3-large, gpt3-1.3b (or gpt3-xl), gpt3-2.7b, gpt3-6.7b, gpt3-13b or gpt3; or a config.json of Hugging Face
        (GPT-2 or Llama), or a folder that holds one.
    variant
        Which attention beside softmax; may be repeated. a+b is both changes at once, window:256 has a number; over the
        layers a*2,b takes turns and a,(b),c repeats b.
    context
        Tokens of a sequence; by default the size's own.
    batch
        Sequences in a batch.
    recipe
        gpt2 (AdamW) or fast (Muon beside AdamW).
    vocabulary
        How many tokens there are; by default GPT-2's, or the configuration's own.
    number_bytes
        Bytes of a number: 4 for float32 (the default), 2 for bfloat16, 8 for float64.
    mixed_precision
        Train with bfloat16 weights, gradients and activations, and float32 master weights and optimizer state.
    checkpointing
        Train with activation checkpointing: only the inputs of blocks are kept, and their forward pass is done again.
    family
        decoder, or encoder with bidirectional attention.
    change
        A change of the size, such as num_layers=24, model_width=1024, num_heads=16, head_width=32 or mlp_width=2048;
        or of a field of attention in every layer, such as num_key_value_heads=4, window=256 or position=rope; a part
        with numbers is JSON, as in head_output='{"kind": "gate", "per": "head"}'. May be repeated.
    per_head
        The maps of a single head, and what they add up to.
    tensors
        Every parameter by its name and shape.
    memory
        A memory such as 80GB or 24GiB: what fits for training and for serving, the largest batch and context, and which
        variants of the catalogue fit; with --variant, those alone.
    sweep
        context or width: where attention overtakes the projections and the MLP, as a plot.
    measure
        Run it here, and put measured time and memory beside the predicted.
    threads
        With --measure: threads to compute with; as many as cores if not said.
    out
        Also write a page with figures to this HTML file.
    csv
        Also write a line for each model to this CSV file; with --memory, what fits.
    as_json
        Print everything as JSON.
    """
    if threads is not None and not measure:
        raise InputError("--threads belongs to --measure", hint="add --measure, or leave --threads out")
    for path in (out, csv):
        if path is not None:
            check_writable(path)
    check_figures_folder(figures)
    if variants_from is not None:
        load_variants(variants_from)
    asked: dict[str, Any] = {
        "context_length": context,
        "batch_size": batch,
        "recipe": recipe,
        "vocabulary_size": vocabulary,
        "mixed_precision": mixed_precision,
        "checkpointing": checkpointing,
        "family": family,
        **({} if number_bytes is None else {"bytes_per_number": number_bytes}),
        **_changes(change),
    }
    table = tabulate(sizes or ("gpt2",), variant, heads=per_head, tensors=tensors, sweep=sweep, memory=memory, **asked)
    if measure:
        table = _measured(table, threads)
    if as_json:
        show_json(table.as_dict())
    else:
        _print(table)
    if out is not None:
        table.write(out)
        say(f"wrote {out}")
    if csv is not None:
        write_whole(csv, table.csv())
        say(f"wrote {csv}")
    if figures is not None:
        save_figures(table.page(), figures)


def _changes(texts: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in name_value_pairs("--change", texts, "num_layers=24").items():
        if name not in (*SIZE_CHANGES, *ATTENTION_CHANGES):
            close = get_close_matches(name, (*SIZE_CHANGES, *ATTENTION_CHANGES), n=1)
            raise InputError(
                f"there is no change called {name!r}",
                hint=(f"did you mean {close[0]!r}? " if close else "")
                + f"known of the size: {', '.join(SIZE_CHANGES)}; of attention: {', '.join(ATTENTION_CHANGES)}",
            )
        if name in SIZE_CHANGES and not value.lstrip("-").isdigit():
            raise InputError(f"{name} is {value!r}, which is no whole number", hint=f"give {name}=64, for instance")
        found[name] = _part(name, value) if value.startswith("{") else typed(value)
    return found


def _part(name: str, text: str) -> object:
    """Return a part of attention with its numbers."""
    try:
        return json.loads(text)
    except ValueError:
        raise InputError(
            f"{name} is {text}, which is no JSON", hint=f"""give {name}='{{"kind": "cosine"}}', for instance"""
        ) from None


def _measured(table: CostTable, threads: int | None) -> CostTable:
    from attnlab.bench.products.cost import measure_costs  # imports all of the training code
    from attnlab.cli.measuring import listening

    with listening() as listener:
        return replace(table, measured=measure_costs(table.estimates, threads, listener))


def _print(table: CostTable) -> None:
    wide = fits(table.side_by_side())
    for place, one in enumerate(table.tables(wide=wide)):
        show(*([""] if place else []), one.caption, "", replace(one, caption=""))
        if one.note:
            show("", one.note)
    console = Console()
    for sweep in table.sweeps:
        width = min(_WIDEST_PLOT, console.width)
        colour = console.color_system is not None and sys.stdout.isatty() and not console.no_color
        show("", sweep.label, "")
        console.print(Text.from_ansi(sweep.text(width, colour=colour)), soft_wrap=True)
    for note in table.notes:
        say(f"note: {note}")
