"""Study variants of attention over several model sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from attnlab.cli.bundling import bundled
from attnlab.cli.figures import save_figures
from attnlab.cli.options import (
    LAUNCH,
    OUTPUT,
    Flag,
    LaunchOptions,
    Several,
    StudyOutput,
    name_value_pairs,
    names_in,
)
from attnlab.cli.printing import pairs_table, say, show, show_json
from attnlab.cli.recorded import check_options
from attnlab.experiments.judging.claims import arms_of, published_claims
from attnlab.experiments.reporting.answer import TONES, claims_table
from attnlab.experiments.request import DEFAULT_TOKENS, QUESTIONS, RUNGS, ScaleRequest
from attnlab.experiments.scale.record import StudyRecord, open_study
from attnlab.formats import fixed, general
from attnlab.pages import Table

if TYPE_CHECKING:
    from attnlab.experiments.scale.rates import RateTable
    from attnlab.experiments.scale.study import StudyPlan


@Parameter(name="*")
@dataclass(frozen=True)
class StudyOptions:
    """The sizes of a study, its texts, and how differences are judged.

    Parameters
    ----------
    rungs
        Sizes in ascending order, by non-embedding parameters, such as 14k,25k,55k,100k.
    up_to
        The largest rung of a variant, such as sigmoid=55k; may be repeated.
    tokens_per_parameter
        Training tokens for each parameter of the baseline, embeddings included.
    least_tokens
        The least training tokens of a rung; models begin to use attention only after some millions.
    half_tokens
        Also train all rungs but the largest with half the tokens, to see whether differences have settled.
    seeds
        Paired seeds on every rung.
    first_seed
        The first of the seeds.
    hours
        Reduce the study until it fits into this many hours on this machine.
    target
        The size for which the difference is forecast: gpt2, or a number such as 10M.
    corpus
        python, docstrings, pydoc, world, or the path of a text file or a folder; may be repeated.
    held_out
        One of the corpora, which takes part in no decision: its learning rates are those of the first.
    tokenizer
        char, byte, word, bpe, gpt2:FOLDER, or run:FOLDER for that of a run.
    vocabulary_size
        Number of tokens of bpe.
    recipe
        gpt2 (as published) or fast (reaches a given loss soonest).
    change
        A change of all arms, such as context_length=128; may be repeated.
    rate_rungs
        Number of smaller rungs on which learning rates are searched; on the next one the law is verified.
    rate_count
        Learning rates that a search starts with, a factor of two apart.
    rate_seeds
        Seeds of each learning rate, which are used nowhere else.
    margin
        The largest difference that does not matter, as a share of perplexity.
    alpha
        Accepted chance of any false verdict.
    claims
        Judge published claims; without VARIANTS, all of them.
    unchecked
        Also train your own variants that leak or lose gradients; the report says so.
    """

    rungs: str = ",".join(RUNGS)
    up_to: Several = ()
    tokens_per_parameter: float = DEFAULT_TOKENS
    least_tokens: int = 0
    half_tokens: bool = True
    seeds: int = 5
    first_seed: int = 0
    hours: float | None = None
    target: str = "gpt2"
    corpus: Annotated[tuple[str, ...], Parameter(negative="")] = ("python",)
    held_out: str | None = None
    tokenizer: str = "char"
    vocabulary_size: int | None = None
    recipe: str = "gpt2"
    change: Several = ()
    rate_rungs: int = 2
    rate_count: int = 5
    rate_seeds: int = 3
    margin: float = 0.03
    alpha: float = 0.05
    claims: Flag = False
    unchecked: Flag = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request."""
        fields = asdict(self)
        return {
            "corpora": fields.pop("corpus"),
            "changes": tuple(fields.pop("change")),
            **fields,
            "rungs": names_in(self.rungs),
            "up_to": name_value_pairs("--up-to", self.up_to, "sigmoid=55k"),
        }


_DESIGN = StudyOptions()


def scale(
    *variants: str,
    baseline: str = "softmax",
    design: StudyOptions = _DESIGN,
    plan: Flag = False,
    rates_only: Flag = False,
    launching: LaunchOptions = LAUNCH,
    output: StudyOutput = OUTPUT,
) -> int:
    """Train the baseline and the variants on a ladder of sizes, and forecast the difference at a larger model.

    Learning rates are searched on the smaller rungs and predicted by a law above them. Every rung gets its verdict; the
    result is the trend over sizes, the effective size and effective tokens of each variant, and a forecast whose
    reliability is back-tested. The same command resumes after any interruption.

    Parameters
    ----------
    variants
        Variants of the catalogue (a, a+b, window:256), mixtures over layers ("a*2,b", "a,(b),c"), or other treatments
        of a run. The name of a study's folder resumes that study.
    baseline
        What they are compared with.
    plan
        Print the plan and stop.
    rates_only
        Search learning rates, print them and stop.
    """
    opened = _opened(variants, launching.out)
    named = variants if opened is None else opened.request.variants
    usual = arms_of(published_claims(), baseline) if design.claims else QUESTIONS
    request = ScaleRequest.with_variants_of(
        launching.variants_from, variants=named or usual, baseline=baseline, **design.fields()
    )
    launch = launching.launch()
    if opened is not None:
        _check_recorded(opened, request)
        request, launch = opened.request, launching.launch(opened.ladder.parent)
    if plan:
        from attnlab.experiments.scale.study import plan_data, plan_scale

        found = plan_scale(request, on=launch["on"], where=launch["where"])
        show_json(plan_data(found)) if output.as_json else show(_plan_table(found))
        return 0
    if rates_only:
        from attnlab.experiments.scale.study import search_only

        with output.console() as console:
            tables = search_only(request, listener=console, **launch)
        if output.as_json:
            show_json({name: table.rates() for name, table in tables.items()})
        else:
            _show_rates(tables)
        return 0
    return _carry_out(request, launch, output)


def _opened(variants: Sequence[str], out: Path) -> StudyRecord | None:
    """Return the study whose folder was named instead of variants."""
    if len(variants) != 1:
        return None
    places = (Path(variants[0]), out / variants[0])
    return next((found for path in places if (found := open_study(path)) is not None), None)


def _check_recorded(opened: StudyRecord, asked: ScaleRequest) -> None:
    """Refuse options beside the folder of a study that differ from what it records."""
    renamed = {"corpora": "corpus", "changes": "change"}
    options, known = (
        {renamed.get(name, name): value for name, value in dict(one).items()} for one in (asked, opened.request)
    )
    check_options(opened.folder, options, known, instead="or name the variants for another study")


def _plan_table(plan: StudyPlan) -> Table:
    from attnlab.experiments.scale.findings import plan_rows

    return pairs_table(plan_rows(plan))


def _show_rates(tables: Mapping[str, RateTable]) -> None:
    headings = ("size", "arm", "rate", "source", "mean loss by rate")
    for name, table in tables.items():
        rows = []
        for point in table.points:
            tried = ", ".join(f"{general(one.learning_rate)}: {fixed(one.loss, 3)}" for one in point.trials)
            rows.append((point.size, point.arm, general(point.rate), point.source, tried))
        show(f"\n{name}", Table(headings, rows, text_columns=(0, 1, 3, 4), wrap_columns=(4,)))


def _carry_out(request: ScaleRequest, launch: Mapping[str, Any], output: StudyOutput) -> int:
    from attnlab.experiments.reporting.exports import standpoints_of
    from attnlab.experiments.reporting.tables import LONG_HEADINGS, long_rows
    from attnlab.experiments.scale.findings import EFFECT_HEADINGS, effect_rows, findings, forecast_words, headline
    from attnlab.experiments.scale.report import study_page, write_study
    from attnlab.experiments.scale.study import scale as carry_out

    output.check()

    def planned(plan: StudyPlan) -> None:
        if not output.quiet:
            say(_plan_table(plan), "")

    with output.console() as console:
        study = carry_out(request, planned=planned, judged=write_study, listener=console, **launch)
    page, data = write_study(study, output.report, output.csv)
    if output.figures is not None:
        save_figures(study_page(study, findings(study)), output.figures)
    if output.bundle is not None:
        comparisons = [one.comparison for one in study.corpora]
        rungs = [result for comparison in comparisons for result in comparison.rungs]
        runs = [run.path for result in rungs for arm in result.arms for run in arm.runs]
        folders = [comparison.path for comparison in comparisons]
        bundled(output.bundle, study.path, output.bundle_limit, runs, folders, [page.parent])
    if output.as_json:
        show_json(data)
        return 0
    for found in findings(study):
        rows = long_rows([arm.trend for arm in found.arms])
        table = Table(LONG_HEADINGS, rows, text_columns=(0, 5), wrap_columns=(0,), tones=TONES)
        show(headline(study, found), "", table, "")
        for arm in effect_rows(found):
            pairs = [(heading.replace("\n", " "), cell) for heading, cell in zip(EFFECT_HEADINGS, arm, strict=True)]
            show(pairs_table(pairs), "")
        show(forecast_words(found, study.target), "")
        if standpoints := standpoints_of(found.study.comparison):
            show(claims_table([one.row for one in standpoints]), "")
    say(f"report: {page}")
    return 0
