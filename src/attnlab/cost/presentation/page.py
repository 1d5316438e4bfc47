"""The page of a cost table: one HTML file that works offline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attnlab.cost.presentation.figures import parts_figure, sweep_figure
from attnlab.cost.presentation.grids import Grid
from attnlab.pages import Details, Figure, Note, Page, Part, Points, Section, Table

if TYPE_CHECKING:
    from attnlab.cost.presentation.table import CostTable
    from attnlab.cost.sweep import Sweep

_EXPLANATIONS = (
    "A FLOP is half a multiply–add of a matrix product, as PyTorch's own counter has it; work on single elements is "
    "not counted. Parameters and FLOPs are exact.",
    "To train is three times the forward products of visible pairs. Kernels make scores again in the backward pass "
    "instead of keeping them, which is counted apart.",
    "Intensity is FLOPs per byte that the products of a pass read and write, each factor once. Reading a prompt uses "
    "each weight for all of its tokens; writing one token uses it once.",
    "The peak of training is weights, gradients, the optimizer's memory, what autograd keeps, and the tensors of the "
    "moment that holds most.",
)


def cost_page(table: CostTable) -> Page:
    """Side by side, by part, the sweeps, and what was measured."""
    from attnlab.cost.presentation.table import describe

    first = table.estimates[0]
    sections = [Section("Side by side", _side_by_side(table))]
    sections += [Section("The maps of a head", _all(heads.grid() for heads in table.heads))] if table.heads else []
    sections += [Section(f"Along the {sweep.axis}: {sweep.label}", _sweep(sweep)) for sweep in table.sweeps]
    if table.measured:
        sections.append(Section("Measured here", _all(grid for one in table.measured for grid in one.grids())))
    parts = [Details(describe(one), _shown(table.by_part(one))) for one in table.estimates]
    sections.append(Section("By part", parts))
    if table.with_tensors:
        tensors = [Details(one.label, _shown(table.tensors(one))) for one in table.estimates]
        sections.append(Section("Every named tensor", tensors))
    sections.append(Section("How it is counted", [Points(_EXPLANATIONS)]))
    names = ", ".join(dict.fromkeys(one.label for one in table.estimates))
    lead = f"Parameters, FLOPs, memory and cache of {names}: predicted without building a model."
    facts = {
        "context": f"{first.model.context_length:,} tokens",
        "batch": f"{first.question.batch_size:,}",
        "recipe": first.question.recipe,
        "vocabulary": f"{first.model.vocabulary_size:,}",
        "bytes a number": str(first.question.bytes_per_number),
    }
    if len({one.model.context_length for one in table.estimates}) > 1:
        facts.pop("context")
    return Page("What attention costs", lead, sections, facts)


def _side_by_side(table: CostTable) -> list[Part]:
    parts: list[Part] = [Note(note) for note in table.notes]
    parts.append(Figure(parts_figure(table, "parameters"), "Where the parameters are."))
    words = "Where the FLOPs of a training step are: visible pairs, and what kernels do again."
    parts.append(Figure(parts_figure(table, "FLOPs"), words))
    return [*parts, *_shown(table.side_by_side())]


def _sweep(sweep: Sweep) -> list[Part]:
    caption = (
        "Forward FLOPs for each token, by what does them. Dashed lines: N = D, and where attention overtakes "
        "projections and MLP together."
    )
    return [Figure(sweep_figure(sweep), caption), *_all(sweep.grids())]


def _shown(grid: Grid) -> list[str | Table | Points]:
    """A table, and how to read it."""
    table = Table(grid.headings, grid.rows, grid.title, grid.text_columns, wrap_columns=(0,))
    return [table, *([grid.words] if grid.words else [])]


def _all(grids: Iterable[Grid]) -> list[Part]:
    return [part for grid in grids for part in _shown(grid)]
