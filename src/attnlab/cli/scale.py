"""Study variants of attention over several model sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from attnlab.cli.compare import STYLES, launcher_options
from attnlab.cli.printing import make_table, say, show, show_json, tell
from attnlab.errors import AttnlabError
from attnlab.experiments.request import DEFAULT_TOKENS, QUESTIONS
from attnlab.experiments.scale.request import RUNGS, ScaleRequest

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.experiments.scale.planning import StudyPlan

Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def scale(
    *variants: str,
    baseline: str = "softmax",
    rungs: str = ",".join(RUNGS),
    up_to: Annotated[Sequence[str], Parameter(name="--up-to", negative="")] = (),
    tokens_per_parameter: float = DEFAULT_TOKENS,
    least_tokens: int = 0,
    half_tokens: bool = True,
    seeds: int = 5,
    first_seed: int = 0,
    hours: float | None = None,
    target: str = "gpt2",
    corpus: Annotated[Sequence[str], Parameter(name="--corpus", negative="")] = ("python",),
    held_out: str | None = None,
    tokenizer: str = "char",
    vocabulary_size: int | None = None,
    recipe: str = "gpt2",
    change: Annotated[Sequence[str], Parameter(name="--change", negative="")] = (),
    rate_rungs: int = 2,
    rate_count: int = 5,
    rate_seeds: int = 3,
    margin: float = 0.03,
    alpha: float = 0.05,
    plan: Flag = False,
    rates_only: Flag = False,
    on: Literal["local", "ray", "slurm"] = "local",
    where: Annotated[Sequence[str], Parameter(name="--where", negative="")] = (),
    processes: int | None = None,
    threads: int | None = None,
    variants_from: Path | None = None,
    out: Path = Path("runs"),
    report: Path | None = None,
    csv: Path | None = None,
    quiet: Flag = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
) -> int:
    """Train the baseline and the variants on a ladder of sizes, and forecast the difference at a larger model.

    Learning rates are searched on the smaller rungs and predicted by a law above them. Every rung gets its verdict; the
    result is the trend over sizes, the effective size and effective tokens of each variant, and a forecast whose
    reliability is back-tested. The same command resumes after any interruption.

    Parameters
    ----------
    variants
        Variants of the catalogue, or other treatments of a run.
    baseline
        What they are compared with.
    rungs
        Sizes in ascending order, by non-embedding parameters, such as 14k,25k,55k,100k.
    up_to
        The largest rung of a variant, such as sigmoid=55k; may be repeated.
    tokens_per_parameter
        Training tokens for each parameter of the baseline, embeddings included.
    least_tokens
        Training tokens of a rung at least, because attention sets in only after some millions.
    half_tokens
        Train all rungs but the largest with half the tokens too, to see whether differences have settled.
    seeds
        Paired seeds on every rung.
    first_seed
        The first of the seeds.
    hours
        Reduce the study until it fits into so many hours on this machine.
    target
        Size that the difference is forecast for: gpt2, or a number such as 10M.
    corpus
        python, docstrings, pydoc, world, or the path of a text file or a folder; may be repeated.
    held_out
        One of the corpora, which takes part in no decision: its learning rates are those of the first.
    tokenizer
        char, byte, word, bpe, or gpt2:FOLDER.
    vocabulary_size
        Number of tokens of bpe.
    recipe
        gpt2 (faithful) or fast.
    change
        A change of all arms alike, such as context_length=128; may be repeated.
    rate_rungs
        Number of smaller rungs on which learning rates are searched; on the next one the law is verified.
    rate_count
        Learning rates that a search starts with, a factor of two apart.
    rate_seeds
        Seeds of each learning rate, which are used nowhere else.
    margin
        Difference that would not matter, as a share of perplexity.
    alpha
        Accepted chance of any false verdict.
    plan
        Print the plan and stop.
    rates_only
        Search learning rates, print them and stop.
    on
        Where runs run: local processes, ray, or slurm.
    where
        An option of ray or slurm, such as address=auto or partition=gpu; may be repeated.
    processes
        Runs at a time on this machine.
    threads
        Threads of each run.
    variants_from
        A Python file that adds variants of your own.
    out
        The folder that holds studies and runs.
    report
        Also write the report to this HTML file.
    csv
        Also write all runs to this CSV file.
    quiet
        Print nothing while it trains.
    as_json
        Print everything as JSON.
    """
    request = ScaleRequest.with_variants_of(
        variants_from,
        variants=variants or QUESTIONS,
        baseline=baseline,
        recipe=recipe,
        rungs=tuple(name.strip() for name in rungs.split(",") if name.strip()),
        up_to=dict(_pair(text) for text in up_to),
        tokens_per_parameter=tokens_per_parameter,
        least_tokens=least_tokens,
        half_tokens=half_tokens,
        corpora=tuple(corpus),
        held_out=held_out,
        tokenizer=tokenizer,
        vocabulary_size=vocabulary_size,
        changes=tuple(change),
        seeds=seeds,
        first_seed=first_seed,
        margin=margin,
        alpha=alpha,
        rate_rungs=rate_rungs,
        rate_count=rate_count,
        rate_seeds=rate_seeds,
        hours=hours,
        target=target,
    )
    options = {"processes": processes, "threads": threads, **launcher_options(on, where)}
    if plan:
        return _show_plan(request, on, options, as_json=as_json)
    if rates_only:
        return _show_rates(request, on, options, out, quiet=quiet, as_json=as_json)
    return _carry_out(request, on, options, out, report, csv, quiet=quiet, as_json=as_json)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise AttnlabError(f"--up-to {text!r} is no limit", hint="write variant=size, such as sigmoid=55k")
    return name, value


def _show_plan(request: ScaleRequest, on: str, options: dict[str, object], *, as_json: bool) -> int:
    from attnlab.experiments.scale.report import plan_data
    from attnlab.experiments.scale.study import plan_scale

    found = plan_scale(request, on=on, where=options)
    if as_json:
        show_json(plan_data(found))
    else:
        show(_plan_table(found))
    return 0


def _plan_table(plan: StudyPlan) -> Table:
    from attnlab.experiments.scale.wording import plan_rows

    return make_table(["", ""], plan_rows(plan), left=(0, 1), wrap=(1,))


def _show_rates(
    request: ScaleRequest, on: str, options: dict[str, object], out: Path, *, quiet: bool, as_json: bool
) -> int:
    from attnlab.experiments.launching.progress import LaunchConsole
    from attnlab.experiments.scale.study import search_only

    with contextlib.nullcontext() if quiet else LaunchConsole() as console:
        tables = search_only(request, out=out, on=on, where=options, listener=console)
    if as_json:
        show_json({name: table.rates() for name, table in tables.items()})
        return 0
    for name, table in tables.items():
        rows = [
            (
                point.size,
                point.arm,
                f"{point.rate:g}",
                point.source,
                ", ".join(
                    f"{one.learning_rate:g}: {'–' if one.loss is None else f'{one.loss:.3f}'}" for one in point.trials
                ),
            )
            for point in table.points
        ]
        headings = ("size", "arm", "rate", "source", "mean loss by rate")
        show(f"\n{name}", make_table(headings, rows, left=(0, 1, 3, 4), wrap=(4,)))
    return 0


def _carry_out(
    request: ScaleRequest,
    on: str,
    options: dict[str, object],
    out: Path,
    report: Path | None,
    csv: Path | None,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    from attnlab.experiments.launching.progress import LaunchConsole
    from attnlab.experiments.reporting.tables import LONG_HEADINGS, long_rows
    from attnlab.experiments.scale.findings import findings
    from attnlab.experiments.scale.report import write_study
    from attnlab.experiments.scale.study import scale as carry_out
    from attnlab.experiments.scale.wording import EFFECT_HEADINGS, effect_rows, forecast_words, headline
    from attnlab.storage.files import check_writable

    for path in (report, csv):
        if path is not None:
            check_writable(path)

    def planned(plan: StudyPlan) -> None:
        if not quiet:
            tell(_plan_table(plan), "")

    with contextlib.nullcontext() if quiet else LaunchConsole() as console:
        study = carry_out(request, planned=planned, out=out, on=on, where=options, listener=console)
    page, data = write_study(study, report, csv)
    if as_json:
        show_json(data)
        return 0
    for found in findings(study):
        rows = long_rows([arm.trend for arm in found.arms])
        show(headline(study, found), "", make_table(LONG_HEADINGS, rows, left=(0, 5), styles=STYLES), "")
        for arm in effect_rows(found):
            pairs = [(heading.replace("\n", " "), cell) for heading, cell in zip(EFFECT_HEADINGS, arm, strict=True)]
            show(make_table(["", ""], pairs, left=(0, 1), wrap=(1,)), "")
        show(forecast_words(found, study.target), "")
    say(f"report: {page}")
    return 0
