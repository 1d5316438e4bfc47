"""Compare variants of attention."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from attnlab.cli.printing import fits, make_table, say, show, show_json, tell
from attnlab.errors import AttnlabError
from attnlab.experiments.judging.claims import arms_of, published_claims
from attnlab.experiments.reporting.answer import Answer, find_answer
from attnlab.experiments.request import QUESTIONS, Request, ladder

if TYPE_CHECKING:
    from rich.table import Table

    from attnlab.experiments.planning.plan import Plan

Flag = Annotated[bool, Parameter(negative="", show_default=False)]

_RUNS = Path("runs")
_DISPENSABLE = ("tokens/s", "parameters", "Δ loss", "cache", "worth", "p")  # the report has them all
STYLES = {
    "better": "bold green",
    "worse": "bold red",
    "unstable": "bold red",
    "equivalent": "cyan",
    "undecided": "yellow",
    "unsettled": "yellow",
    "reproduced": "green",
    "not reproduced": "red",
    "underpowered": "yellow",
}


def compare(
    *variants: str,
    baseline: str = "softmax",
    seeds: int = 4,
    steps: int | None = None,
    size: str | None = None,
    rungs: str | None = None,
    tokens_per_parameter: float | None = None,
    recipe: str = "gpt2",
    corpus: str = "pydoc",
    corpus_option: Annotated[Sequence[str], Parameter(name="--corpus-option", negative="")] = (),
    tokenizer: str = "char",
    vocabulary_size: int | None = None,
    change: Annotated[Sequence[str], Parameter(name="--change", negative="")] = (),
    add_seeds: int = 0,
    first_seed: int = 0,
    margin: float = 0.03,
    alpha: float = 0.05,
    looks: int = 1,
    match: Literal["parameters", "flops", "cache"] | None = None,
    tune: int = 0,
    tune_seeds: int = 1,
    pilot: int | None = None,
    claims: Flag = False,
    ladder_: Annotated[bool, Parameter(name="--ladder", negative="", show_default=False)] = False,
    plan: Flag = False,
    on: Literal["local", "ray", "slurm"] = "local",
    where: Annotated[Sequence[str], Parameter(name="--where", negative="")] = (),
    processes: int | None = None,
    threads: int | None = None,
    variants_from: Path | None = None,
    out: Path = _RUNS,
    report: Path | None = None,
    csv: Path | None = None,
    markdown: Flag = False,
    quiet: Flag = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
) -> int:
    """Train the baseline and the variants over paired seeds, and give a verdict with its evidence.

    A plan is written first: what is compared, how it is judged, with which power, and how long it takes. The same
    command resumes after any interruption, and a finished comparison is shown at once. Without options, the default is
    a small ladder of two sizes: the largest decides, and the trend over sizes is shown beside it.

    Parameters
    ----------
    variants
        What is compared: variants of the catalogue, recipes, optimizers, positions, fields of a run such as
        dropout=0.1, or several joined by &. The name of a comparison's folder opens that comparison.
    baseline
        What they are compared with.
    seeds
        How many pairs of runs; each seed is an order of the data and a draw of initial weights, the same for all.
    steps
        Steps of each run; by default they follow from the tokens per parameter, or are the recipe's.
    size
        A number of non-embedding parameters such as 25k or 0.5M, or pico, nano, micro, mini, gpt2, gpt2-medium,
        gpt2-large or gpt2-xl.
    rungs
        Smaller sizes at which the same is trained too, such as 6k,14k; needs tokens_per_parameter.
    tokens_per_parameter
        Training tokens for each parameter of the baseline, embeddings included.
    recipe
        gpt2 (faithful) or fast (soonest to a loss).
    corpus
        pydoc, world, kinship, mqar, or the path of a text file or a folder.
    corpus_option
        An option of a generated corpus, such as pairs=8 of mqar; may be repeated.
    tokenizer
        char, byte, word, bpe, or gpt2:FOLDER.
    vocabulary_size
        How many tokens bpe is to have.
    change
        A change of all arms alike, such as position=rope or batch_size=32; may be repeated.
    add_seeds
        Take the next planned look with so many seeds more.
    first_seed
        The first of the seeds.
    margin
        The difference that would not matter, as a share of perplexity.
    alpha
        The chance of a false verdict that is accepted for all variants and looks together.
    looks
        How many looks are planned; each tests at alpha / looks.
    match
        Compare each variant once more, made equal to the baseline in this.
    tune
        Learning rates to try for each arm first.
    tune_seeds
        Seeds that each of these is tried with.
    pilot
        Seeds of a pilot that shows the noise; 0 for none. By default 3 where no noise is recorded.
    claims
        Judge published claims; without VARIANTS, all of them.
    ladder_
        The same arms on associative recall too, with more and more to remember.
    plan
        Write the plan and stop.
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
        The folder that holds comparisons and runs.
    report
        Also write the report to this HTML file.
    csv
        Also write all runs to this CSV file.
    markdown
        Print the table in Markdown.
    quiet
        Say nothing while it trains.
    as_json
        Print everything as JSON.
    """
    opened = _opened(variants, out)
    if opened is not None:
        request, out = opened
    else:
        cards = published_claims() if claims else ()
        request = Request.with_variants_of(
            variants_from,
            variants=variants or (arms_of(cards, baseline) if claims else QUESTIONS),
            baseline=baseline,
            recipe=recipe,
            **_ladder_fields(size, rungs, tokens_per_parameter),
            corpus=corpus,
            corpus_options=corpus_options(corpus_option),
            tokenizer=tokenizer,
            vocabulary_size=vocabulary_size,
            steps=steps,
            changes=tuple(change),
            seeds=seeds,
            first_seed=first_seed,
            margin=margin,
            alpha=alpha,
            looks=looks,
            match=match,
            tune=tune,
            tune_seeds=tune_seeds,
            pilot=pilot,
            claims=claims,
        )
    options = {"processes": processes, "threads": threads, **launcher_options(on, where)}
    launch = {"out": out, "on": on, "where": options}
    if ladder_ and (report or csv):
        raise AttnlabError(
            "a ladder has a report and a table for each rung", hint="find them in the folders of the comparisons"
        )
    answers = []
    for wanted in [request, *(ladder(request) if ladder_ else [])]:
        answer = None if add_seeds or plan or csv or report else find_answer(wanted, out)
        answer = answer or _make(wanted, launch, add_seeds, report, csv, quiet=quiet, only_plan=plan)
        if answer is not None:
            answers.append(answer)
    if as_json and not plan:
        show_json([answer.data for answer in answers] if ladder_ else answers[0].data)
        return 0
    for number, answer in enumerate(answers):
        if number:
            show("")
        _tell(answer, markdown=markdown)
    return 0


def _ladder_fields(size: str | None, rungs: str | None, tokens_per_parameter: float | None) -> dict[str, Any]:
    """Return what was said about sizes; what was not is left to the request."""
    fields: dict[str, Any] = {"size": size, "tokens_per_parameter": tokens_per_parameter}
    if rungs is not None:
        fields["rungs"] = tuple(name.strip() for name in rungs.split(",") if name.strip())
    return {name: value for name, value in fields.items() if value is not None}


def _opened(variants: Sequence[str], out: Path) -> tuple[Request, Path] | None:
    """The comparison whose folder was named instead of variants."""
    if len(variants) != 1:
        return None
    for path in (Path(variants[0]), out / variants[0]):
        request = Request.of(path)
        if request is not None:
            return request, path.parent
        if (path / "run.json").is_file():
            raise AttnlabError(
                f"{path} is a single run, and no comparison", hint="`attnlab runs show` tells about a run"
            )
    return None


def corpus_options(pairs: Sequence[str]) -> dict[str, int | float | str | bool]:
    """Return options of a corpus that were written as name=value."""
    return dict(map(_option, pairs))


def _option(pair: str) -> tuple[str, int | float | str | bool]:
    """name=value, the value as the number or the truth that it looks like."""
    name, equals, value = pair.partition("=")
    if not equals or not name:
        raise AttnlabError(f"--corpus-option {pair!r} is no option", hint="write name=value, such as pairs=8")
    if value in {"True", "False"}:
        return name, value == "True"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return name, kind(value)
    return name, value


def launcher_options(on: str, pairs: Sequence[str]) -> dict[str, Any]:
    """What a launcher is told besides how many processes and threads; Slurm's own options are handed on to it."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise AttnlabError(f"--where {pair!r} is no option", hint="write name=value, such as address=auto")
        options[name] = int(value) if value.isdecimal() else value
    if on != "slurm":
        return options
    own = {name: options.pop(name) for name in ("cluster",) if name in options}
    return {**own, "parameters": options}


def _make(
    request: Request,
    launch: dict[str, Any],
    add_seeds: int,
    report: Path | None,
    csv: Path | None,
    *,
    quiet: bool,
    only_plan: bool,
) -> Answer | None:
    """Carry the comparison out, and write down what came of it."""
    from attnlab.experiments.comparing import compare as carry_out
    from attnlab.experiments.comparing import plan_comparison
    from attnlab.experiments.launching.progress import LaunchConsole
    from attnlab.experiments.reporting.exports import conclude
    from attnlab.storage.files import check_writable

    for path in (report, csv):
        if path is not None:
            check_writable(path)
    with contextlib.nullcontext() if quiet else LaunchConsole() as console:
        if only_plan:
            show(*_plan_lines(plan_comparison(request, listener=console, **launch)))
            return None

        def planned(plan: Plan) -> None:
            if not quiet:
                tell(*_plan_lines(plan), "")

        comparison = carry_out(request, add_seeds=add_seeds, planned=planned, listener=console, **launch)
    return conclude(comparison, report=report, csv=csv)


def _plan_lines(plan: Plan) -> list[Table | str]:
    from attnlab.experiments.reporting.tables import plan_rows

    table = make_table(["", ""], plan_rows(plan), left=(0, 1), wrap=(1,))
    return ["The plan:\n", table, *(f"\nwarning: {warning}" for warning in plan.warnings)]


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
        headings = ("claim", "at this scale", "found", "source")
        show("", make_table(headings, answer.claims, left=(0, 1, 3), wrap=(0, 2, 3), styles=STYLES))
    if answer.report:
        say(f"\nreport: {answer.report}")


def _table(answer: Answer) -> Table:
    """The table, without as many of the columns that can be missed most easily as do not fit."""
    dropped: set[str] = set()
    for name in ("", *_DISPENSABLE):
        dropped.add(name)
        kept = [place for place, heading in enumerate(answer.headings) if heading.split("\n")[0] not in dropped]
        rows = [[row[place] for place in kept] for row in answer.rows]
        table = make_table([answer.headings[place] for place in kept], rows, left=(0, 1), styles=STYLES)
        if fits(table):
            break
    return table
