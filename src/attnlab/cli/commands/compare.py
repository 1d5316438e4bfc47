"""Compare variants of attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from attnlab.cli.bundling import bundled, citation
from attnlab.cli.errors import given_options
from attnlab.cli.figures import save_figures
from attnlab.cli.options import (
    CORPUS,
    LAUNCH,
    OUTPUT,
    CorpusOptions,
    Flag,
    LaunchOptions,
    Several,
    StudyOutput,
    names_in,
)
from attnlab.cli.printing import fits, pairs_table, say, show, show_json, showing_steps
from attnlab.cli.recorded import check_options
from attnlab.errors import AttnlabError
from attnlab.experiments.judging.claims import arms_of, published_claims
from attnlab.experiments.reporting.answer import TONES, Answer, claims_table, find_answer
from attnlab.experiments.request import QUESTIONS, RECALL, Request, ladder
from attnlab.formats import byte_count
from attnlab.pages import Table
from attnlab.storage.files import write_whole

if TYPE_CHECKING:
    from attnlab.experiments.planning.plan import Plan

# A comparison that takes seconds: one layer, twenty steps, two seeds, on generated text.
_SMOKE: dict[str, Any] = {
    "corpus": "kinship",
    "changes": ("num_layers=1", "model_width=32", "num_heads=2", "context_length=16"),
    "steps": 20,
    "seeds": 2,
    "pilot": 0,
}
_DISPENSABLE = ("tokens/s", "parameters", "Δ loss", "cache", "worth", "p")  # the report has them all


@Parameter(name="*")
@dataclass(frozen=True)
class SizeOptions:
    """How large the models are, and how long they are trained.

    Parameters
    ----------
    steps
        Steps of each run; by default they follow from the tokens per parameter, or are the recipe's.
    size
        A number of non-embedding parameters such as 25k or 0.5M, or pico, nano, micro, mini, gpt2, gpt2-medium,
        gpt2-large or gpt2-xl.
    rungs
        Smaller sizes that are trained too, such as 6k,14k.
    tokens_per_parameter
        Training tokens for each parameter of the baseline, embeddings included; 120 for sizes by number.
    """

    steps: int | None = None
    size: str | None = None
    rungs: str | None = None
    tokens_per_parameter: float | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of a request that were given; the request chooses the others."""
        given = {**asdict(self), "rungs": None if self.rungs is None else names_in(self.rungs)}
        return {name: value for name, value in given.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True)
class JudgingOptions:
    """How differences are judged.

    Parameters
    ----------
    first_seed
        The first of the seeds.
    margin
        The largest difference that does not matter, as a share of perplexity.
    alpha
        The accepted chance of any false verdict, over all variants and analyses together.
    looks
        How many interim analyses are planned; each tests at alpha / looks.
    match
        Compare each variant once more, with its size changed so that it equals the baseline in this cost.
    tune
        How many learning rates to search for each arm first.
    tune_seeds
        Seeds for each learning rate of the search.
    pilot
        Seeds of a pilot that estimates the noise; 0 for none. By default 3 if no noise is recorded.
    claims
        Judge published claims; without VARIANTS, all of them.
    unchecked
        Also train your own variants that leak or lose gradients; the report says so.
    """

    first_seed: int = 0
    margin: float = 0.03
    alpha: float = 0.05
    looks: int = 1
    match: Literal["parameters", "flops", "cache"] | None = None
    tune: int = 0
    tune_seeds: int = 1
    pilot: int | None = None
    claims: Flag = False
    unchecked: Flag = False


_SIZES, _JUDGING = SizeOptions(), JudgingOptions()


def compare(
    *variants: str,
    baseline: str = "softmax",
    seeds: int = 4,
    sizes: SizeOptions = _SIZES,
    recipe: str = "gpt2",
    text: CorpusOptions = CORPUS,
    change: Several = (),
    add_seeds: int = 0,
    judging: JudgingOptions = _JUDGING,
    retrofit: str | None = None,
    ladder_: Annotated[bool, Parameter(name="--ladder", negative="", show_default=False)] = False,
    plan: Flag = False,
    smoke: Flag = False,
    launching: LaunchOptions = LAUNCH,
    output: StudyOutput = OUTPUT,
    markdown: Flag = False,
) -> int:
    """Train the baseline and the variants over paired seeds, and give a verdict with its evidence.

    A plan is written first: what is compared, how it is judged, with which power, and how long it takes. The same
    command resumes after any interruption, and a finished comparison is shown at once. Without options, the default is
    a small ladder of two sizes: the largest decides, and the trend over sizes is shown beside it.

    Parameters
    ----------
    variants
        What is compared: variants of the catalogue (a, a+b, window:256), mixtures over layers ("a*2,b" takes turns,
        "a,(b),c" repeats b), recipes, optimizers, positions, fields of a run such as dropout=0.1, or several joined by
        &. The name of a comparison's folder opens that comparison.
    baseline
        What they are compared with.
    seeds
        How many paired seeds; a seed fixes the order of the data and the initial weights of all arms.
    recipe
        gpt2 (as published) or fast (reaches a given loss soonest).
    change
        A change of all arms, such as position=rope or batch_size=32; may be repeated.
    add_seeds
        Add this many seeds for the next planned analysis.
    retrofit
        Compare retrofits of this model: a run, a folder of Hugging Face, a GGUF file, or smollm2. Each arm is converted
        without training and then finetuned; softmax is the original. The text is the run's own unless --corpus names
        another.
    ladder_
        Also compare the arms on associative recall with 4, 8 and 16 pairs; with --corpus mqar, only on recall. Then
        --report, --csv and --figures are about recall.
    plan
        Write the plan and stop.
    smoke
        Run a comparison of seconds, on generated text. It shows that the command works; the numbers mean nothing.
    markdown
        Print the table in Markdown.
    """
    opened = _opened(variants, launching.out)
    named = variants if opened is None else opened[0].variants
    fields = {
        "variants": named or (arms_of(published_claims(), baseline) if judging.claims else QUESTIONS),
        "baseline": baseline,
        "seeds": seeds,
        "recipe": recipe,
        "corpus": text.corpus,
        "corpus_options": text.values,
        "tokenizer": text.tokenizer,
        "vocabulary_size": text.vocabulary_size,
        "changes": tuple(change),
        **sizes.fields(),
        **asdict(judging),
    }
    _check_beside(smoke=smoke, retrofit=retrofit, recall_only=ladder_ and text.corpus == RECALL, sizes=sizes)
    out = launching.out
    if retrofit is not None and opened is None:
        request = _retrofits(retrofit, fields, launching, quiet=output.quiet)
    else:
        request = Request.with_variants_of(launching.variants_from, **fields | (_SMOKE if smoke else {}))
    if opened is not None:
        _check_recorded(out / variants[0], request, opened[0])
        request, out = opened
    if ladder_ and output.bundle:
        raise AttnlabError("a ladder is several comparisons", hint="bundle each by `attnlab compare FOLDER --bundle`")
    launch = launching.launch(out)
    output.check()
    each = replace(output, report=None, csv=None, figures=None) if ladder_ else output
    recall = ladder(request) if ladder_ else []
    texts = [] if recall and request.corpus == RECALL else [request]
    answers = []
    for wanted in [*texts, *recall]:
        again = add_seeds or plan or each.csv or each.report or each.figures or each.bundle
        answer = None if again else find_answer(wanted, out)
        answer = answer or _make(wanted, launch, add_seeds, each, only_plan=plan)
        if answer is not None:
            answers.append(answer)
    if output.as_json and not plan:
        show_json([answer.data for answer in answers] if ladder_ else answers[0].data)
    else:
        for number, answer in enumerate(answers):
            if number:
                show("")
            _tell(answer, markdown=markdown)
    if ladder_ and not plan:
        _recall(answers[len(texts) :], Path(answers[0].folder), output, markdown=markdown)
    return 0


def _check_beside(*, smoke: bool, retrofit: str | None, recall_only: bool, sizes: SizeOptions) -> None:
    """Refuse options beside one that sets them itself."""
    taken = {"change", "retrofit", *_SMOKE, *sizes.fields()} if smoke else set[str]()
    by = "smoke"
    if recall_only and not smoke:
        by, taken = "ladder", {"corpus_option"}
    if retrofit is not None and not smoke:
        by, taken = "retrofit", {"size", "rungs", "tokens_per_parameter", "match", "tokenizer", "vocabulary_size"}
        taken |= {"claims", "ladder", "corpus_option"}
    beside = sorted(taken & given_options())
    if beside:
        raise AttnlabError(f"`{by}` sets its own {beside[0]}", hint=f"leave out `{by}` or `{beside[0]}`")


def _retrofits(model: str, fields: Mapping[str, Any], launching: LaunchOptions, *, quiet: bool) -> Request:
    """Convert the model to each arm, and return the request that compares them."""
    from attnlab.attention import load_variants
    from attnlab.cli.retrofit import find_model
    from attnlab.experiments.planning.retrofits import retrofit_request

    if launching.variants_from is not None:
        load_variants(launching.variants_from)
    others = {"corpus", "corpus_options", "tokenizer", "vocabulary_size"}
    with showing_steps() as tell:
        return retrofit_request(
            find_model(model, launching.out),
            text=fields["corpus"] if "corpus" in given_options() else None,
            out=launching.out,
            tell=(lambda _: None) if quiet else tell,
            threads=launching.threads,
            variants_from=launching.variants_from,
            **{name: value for name, value in fields.items() if name not in others},
        )


def _opened(variants: Sequence[str], out: Path) -> tuple[Request, Path] | None:
    """Return the comparison whose folder was named instead of variants, with the folder that it lies in."""
    if len(variants) != 1:
        return None
    for path in (Path(variants[0]), out / variants[0]):
        request = Request.of(path)
        if request is not None:
            if request.folder != path.resolve().name:
                raise AttnlabError(
                    f"the plan in {path} does not belong there: the folder was renamed, or another version of attnlab "
                    "made the plan",
                    hint="name the variants and options again instead of the folder",
                )
            return request, path.parent
        if (path / "run.json").is_file():
            raise AttnlabError(
                f"{path} is a single run, and no comparison", hint="`attnlab runs show` tells about a run"
            )
    return None


def _check_recorded(path: Path, asked: Request, recorded: Request) -> None:
    """Refuse options beside the folder of a comparison that differ from what its plan was asked."""
    renamed = {"corpus_options": "corpus_option", "changes": "change"}
    options, known = (
        {renamed.get(name, name): value for name, value in dict(one).items()} for one in (asked, recorded)
    )
    check_options(path, options, known, instead="or name the variants for another comparison")


def _make(
    request: Request, launch: Mapping[str, Any], add_seeds: int, output: StudyOutput, *, only_plan: bool
) -> Answer | None:
    """Carry the comparison out, and write its answer."""
    from attnlab.experiments.comparing import compare as carry_out
    from attnlab.experiments.comparing import plan_comparison
    from attnlab.experiments.reporting.exports import conclude, report_of

    with output.console() as console:
        if only_plan:
            found = plan_comparison(request, listener=console, **launch)
            if output.as_json:
                show_json({"folder": str(launch["out"] / request.folder), **found.model_dump(mode="json")})
            else:
                show(*_plan_lines(found))
            return None

        def planned(plan: Plan) -> None:
            if not output.quiet:
                say(*_plan_lines(plan), "")
            if output.bundle is not None and not output.quiet:
                say(f"The bundle will have about {_predicted(plan)}.\n")

        comparison = carry_out(request, add_seeds=add_seeds, planned=planned, listener=console, **launch)
    answer = conclude(comparison, report=output.report, csv=output.csv)
    if output.figures is not None:
        save_figures(report_of(comparison), output.figures)
    if output.bundle is not None:
        runs = [run.path for result in comparison.rungs for arm in result.arms for run in arm.runs]
        bundled(output.bundle, comparison.path, output.bundle_limit, runs, [comparison.path])
    return answer


def _predicted(plan: Plan) -> str:
    from attnlab.verification.bundles import predict_bytes

    return byte_count(predict_bytes([(arm.parameters, arm.run.steps or 0) for _, arm, _ in plan.runs(plan.seeds)]))


def _plan_lines(plan: Plan) -> list[Table | str]:
    from attnlab.experiments.reporting.tables import plan_rows

    return ["The plan:\n", pairs_table(plan_rows(plan)), *(f"\nwarning: {warning}" for warning in plan.warnings)]


def _tell(answer: Answer, *, markdown: bool) -> None:
    if markdown:
        print(answer.markdown)
        return
    for line in answer.first_lines:
        show(line, "")
    show(_table(answer))
    for note in answer.notes:
        show(f"\n{note}")
    if answer.claims:
        show("", claims_table(answer.claims))
    if answer.report:
        say(f"\nreport: {answer.report}")
    if answer.receipt:
        say(f"\nTo paste into a paper: {citation(answer.folder, answer.receipt)}")


def _recall(answers: Sequence[Answer], folder: Path, output: StudyOutput, *, markdown: bool) -> None:
    """Show how much each arm recalls, and write the page into the folder if no file is named for it."""
    from attnlab.experiments.reporting.recall import (
        PAGE,
        RecallRung,
        recall_csv,
        recall_page,
        recall_table,
        recall_words,
    )
    from attnlab.pages import write_page

    rungs = [RecallRung.of(answer) for answer in answers]
    page, report = recall_page(rungs), output.report or folder / PAGE
    write_page(page, report)
    if output.csv is not None:
        write_whole(output.csv, recall_csv(rungs))
    if output.figures is not None:
        save_figures(page, output.figures)
    if output.as_json:
        return
    table = recall_table(rungs)
    show("", table.to_markdown() if markdown else table, *(f"\n{line}" for line in recall_words(rungs)))
    say(f"\nreport on recall: {report}")


def _table(answer: Answer) -> Table:
    """Return the table without the least important columns, as many as do not fit."""
    dropped: set[str] = set()
    for name in ("", *_DISPENSABLE):
        dropped.add(name)
        kept = [place for place, heading in enumerate(answer.headings) if heading.split("\n")[0] not in dropped]
        rows = [[row[place] for place in kept] for row in answer.rows]
        headings = [answer.headings[place] for place in kept]
        table = Table(headings, rows, text_columns=(0, 1), wrap_columns=(0,), tones=TONES)
        if fits(table):
            break
    return table
