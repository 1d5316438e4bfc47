"""Give a trained model another attention."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.attention import load_variants
from attnlab.cli.figures import FiguresFolder, check_figures_folder, save_figures
from attnlab.cli.options import EXECUTION, ExecutionOptions, Flag, JsonFlag, VariantsFile, names_in
from attnlab.cli.printing import say, show, show_json, showing_steps
from attnlab.errors import InputError
from attnlab.experiments.judging.retrofits import judged
from attnlab.formats import fixed
from attnlab.models.pretrained.opening import locate_pretrained, memory_words
from attnlab.retrofit import RetrofitResult, request_of
from attnlab.retrofit import retrofit as carry_out
from attnlab.retrofit.folder import PAGE
from attnlab.retrofit.page import layers_table, result_tables, sentences, verdicts_table
from attnlab.retrofit.saving import save_retrofitted
from attnlab.runs.ledger import locate_run
from attnlab.storage.files import check_writable, write_whole
from attnlab.training.progress import Silent

_TOLD = 10  # steps between two progress lines
_SMOKE: dict[str, Any] = {"texts": 4, "fitting_texts": 4, "tokens": 2048, "seeds": 2, "batch_size": 1, "length": None}


def retrofit(
    model: str,
    /,
    *,
    to: str,
    text: str | None = None,
    layers: str = "all",
    budget: float | None = None,
    texts: int = 40,
    fitting_texts: int = 16,
    length: int | None = None,
    tokens: int = 0,
    seeds: int = 4,
    batch_size: int = 16,
    learning_rate: float = 3e-4,
    distil_learning_rate: float = 1e-3,
    distil_share: float = 0.3,
    within: float = 0.01,
    report: Path | None = None,
    csv: Path | None = None,
    save: Path | None = None,
    figures: FiguresFolder = None,
    variants_from: VariantsFile = None,
    execution: ExecutionOptions = EXECUTION,
    smoke: Flag = False,
    as_json: JsonFlag = False,
) -> None:
    """Convert a trained model to another attention, measure what each layer costs, and heal it.

    Each variant is a retrofit of its own. Weights come from least squares on real activations, without training; with
    --tokens the converted model is then trained until it is as good as before, or the tokens are used up. The same
    command resumes after any interruption.

    Parameters
    ----------
    model
        A run, a folder of Hugging Face (GPT-2 or Llama), a GGUF file (Llama), or smollm2.
    to
        The variants, with commas between them: tied-kv,gqa:2,window:256,sigmoid.
    text
        A text file or folder to fit, judge and heal on; by default the run's own text, or Python's documentation.
    layers
        Which layers to convert: all, or numbers such as 0,3,5.
    budget
        Convert as many of the cheapest layers as cost at most so many nats per token together.
    texts
        Held-out texts that costs are measured on.
    fitting_texts
        Texts that layers are fitted on.
    length
        Tokens of a text; by default the context, up to 512.
    tokens
        Tokens to heal with, for each seed and method; 0 for none.
    seeds
        Seeds of healing, the same for all variants and methods.
    batch_size
        Texts in a step of healing.
    learning_rate
        The learning rate of finetuning.
    distil_learning_rate
        The learning rate of distillation.
    distil_share
        The share of the tokens that distillation has.
    within
        How near to the original's perplexity counts as healed, as a share of it.
    report
        Also write the page to this HTML file; it is always in the retrofit's folder.
    csv
        Also write costs and curves to this CSV file.
    save
        Also write each retrofitted model for Transformers, into a folder of its name below this one.
    smoke
        Tiny sizes, to try the tool; the figures mean nothing.
    as_json
        Print everything as JSON.
    """
    execution.check()
    if variants_from is not None:
        load_variants(variants_from)
    fields: dict[str, Any] = {
        "text": text,
        "layers": layers,
        "budget": budget,
        "texts": texts,
        "fitting_texts": fitting_texts,
        "length": length,
        "tokens": tokens,
        "seeds": seeds,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "distil_learning_rate": distil_learning_rate,
        "distil_share": distil_share,
        "within": within,
    }
    request = request_of(variants=names_in(to), **fields | (_SMOKE if smoke else {}))
    for path in (report, csv):
        if path is not None:
            check_writable(path)  # before the work
    check_figures_folder(figures)
    place = find_model(model, execution.out)
    if locate_pretrained(place) is not None and not execution.quiet:
        say(memory_words(place))
    try:
        with showing_steps() as tell:
            found = carry_out(
                place,
                request,
                out=execution.out,
                tell=(lambda _: None) if execution.quiet else tell,
                reporter=Silent() if execution.quiet else _Steps(tell),
                threads=execution.threads,
                workers=execution.workers,
                precision="float32",
            )
    except KeyboardInterrupt as interrupt:
        raise type(interrupt)("what was done is kept, and the same command resumes from there") from None
    found = judged(found)
    if save is not None:
        for name, kind in save_retrofitted(found, save).items():
            code = " with the code that runs it (trust_remote_code=True)" if kind == "attnlab" else ""
            say(f"{name} is saved for Transformers as {kind}{code}")
    if figures is not None:
        save_figures(found.page(), figures)
    _tell(found, report, csv, as_json)


class _Steps(Silent):
    """Reports the steps of finetuning on the line of the current stage."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def step(self, done: int, loss: float) -> None:
        if done % _TOLD == 0:
            self._tell(f"finetuning: {done} steps done, loss {fixed(loss, 3)}")


def find_model(model: str, runs: Path) -> Path:
    """Return the folder of a run or the place of a pretrained model by its name."""
    path = locate_run(model, runs) or locate_pretrained(model)
    if path is None:
        what = "is neither a run nor a pretrained model" if Path(model).exists() else "is no run and no model"
        raise InputError(
            f"{model} {what}",
            hint="name the folder of a run, a folder of Hugging Face with GPT-2 or Llama weights, or a GGUF file",
        )
    return path


def _tell(found: RetrofitResult, report: Path | None, csv: Path | None, as_json: bool) -> None:
    found.write(found.folder / PAGE)
    if report is not None:
        found.write(report)
    if csv is not None:
        write_whole(csv, found.to_csv())
    if as_json:
        show_json(found.to_dict())
        return
    for one in found.variants:
        show("", layers_table(one).caption, layers_table(one))
    for table in [*result_tables(found), *([verdicts_table(found)] if found.verdicts else [])]:
        show("", table)
    show("")
    show(*(f"· {line}" for line in sentences(found)))
    for one in found.variants:
        say(f"\n{one.name} is a run: {one.healed}")
    say(f"The page: {found.folder / PAGE}")
