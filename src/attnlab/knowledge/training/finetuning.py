"""Finetuning: a model learns to answer questions, from pairs and perhaps from those that it writes itself.

finetune(pretrained, gather(text, pairs))      a run that begins with the weights of another
finetune(None, gather(text, pairs))            without pretraining, for comparison
learn(run, new_pairs)                          more pairs for a model that has learned some; the old stay known
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.knowledge.material.codec import Codec
from attnlab.knowledge.material.material import Material, PracticePair, read_record
from attnlab.knowledge.material.pairs import Pair, sort_out
from attnlab.knowledge.material.strangers import Strangers
from attnlab.knowledge.training.practising import Practice, practise
from attnlab.knowledge.training.pretraining import make_codec
from attnlab.knowledge.training.recipes import KnowledgeRecipe, Stage
from attnlab.knowledge.training.rows import Fixed, RowCorpus, Source
from attnlab.knowledge.training.staging import Length, Options, run_path, train_stage
from attnlab.runs import RunDirectory
from attnlab.storage.records import read_json, write_json
from attnlab.training import LoadedRun, Reporter, RunResult, Schedule, load_run

_WRITTEN = "practice.json"  # in the folder of the pretrained run: what it wrote for which material
_VERSION = 2  # of how they are written
_LEARN_EPOCHS = 8
_LEARN_REPEATS = 4  # times that an epoch takes a new pair, where it takes an old one once
_LEARN_RATE = 0.25  # of the learning rate of finetuning


def finetune(
    parent: Path | None,
    material: Material,
    recipe: KnowledgeRecipe,
    length: Length | None = None,
    options: Options | None = None,
) -> RunResult:
    """Finetune a pretrained run on the training split, or a fresh model where there is no parent."""
    length, options = length or Length(), options or Options()
    if not material.train:
        raise InputError("there are no pairs to learn", hint="give a file of pairs with --pairs")
    plan = recipe.finetuning
    if parent is None:
        codec, weights, start = make_codec(material, recipe), "", None
        plan = plan.model_copy(update={"epochs": recipe.epochs_alone})
    else:
        loaded = _open(parent)
        codec, weights, start = Codec(loaded.tokenizer), _weights_of(parent), _starting_with(loaded)
        if recipe.practice:
            material = material.with_changes(practice=tuple(_practice(parent, loaded, codec, material, options)))
    usable = _usable(codec, material, recipe.context_length)
    path = run_path(options, "finetune", recipe, length, material.hash + weights)
    return train_stage(
        path,
        "finetune",
        recipe,
        plan,
        length,
        material,
        lambda: pair_corpus(codec, usable, material, recipe),
        options,
        start=start,
        parent=parent,
    )


def learn(
    run: Path,
    pairs: Sequence[Pair],
    *,
    out: Path | None = None,
    epochs: int | None = None,
    reporter: Reporter | None = None,
    **wishes: object,
) -> Path:
    """Teach a finetuned model new pairs, mixed with all that it learned before; a new run beside the old one.

    A new pair replaces an old one of the same question. The new questions leave the heldout and calibration splits.
    """
    new = sort_out(pairs)
    if new.contradictions:
        question = new.contradictions[0].question
        raise InputError(f"the pairs to learn contradict each other: {question!r}", hint="decide for one answer")
    if not new.pairs:
        raise InputError("there are no pairs to learn", hint="give some")
    recipe = _recipe_of(run)
    loaded, old = _open(run), Material.read(run)
    asked = {pair.question for pair in new.pairs}
    material = old.with_changes(
        train=(*(pair for pair in old.train if pair.question not in asked), *new.pairs),
        heldout=tuple(pair for pair in old.heldout if pair.question not in asked),
        calibration=tuple(pair for pair in old.calibration if pair.question not in asked),
        practice=tuple(pair for pair in old.practice if pair.question not in asked),
    )
    codec = Codec(loaded.tokenizer)
    _refuse_unknown(codec, new.pairs, recipe.context_length)
    options = Options(out=out or run.parent, reporter=reporter, wishes=wishes)
    length = Length(epochs=epochs)
    learned = [pair for pair in _usable(codec, material, recipe.context_length) if pair.question not in asked]
    return train_stage(
        run_path(options, "learn", recipe, length, material.hash + _weights_of(run)),
        "learn",
        recipe,
        _gently(recipe.finetuning),
        length,
        material,
        lambda: pair_corpus(codec, learned, material, recipe, new.pairs),
        options,
        start=_starting_with(loaded),
        parent=run,
    ).path


def pair_corpus(
    codec: Codec, learned: Sequence[Pair], material: Material, recipe: KnowledgeRecipe, new: Sequence[Pair] = ()
) -> RowCorpus:
    """The pairs to learn, those that the model wrote, and new ones more often than old."""
    written = _fitting(codec, material.practice, recipe.context_length)
    practice = Practice(written, [pair.answer for pair in learned], codec)
    strangers = round(recipe.strangers * (len(learned) + practice.count))
    sources: list[Source] = [
        Fixed([codec.pair(pair) for pair in learned]),
        practice,
        Strangers(material, codec, strangers, recipe.context_length),
        Fixed([codec.pair(pair) for pair in new], repeats=_LEARN_REPEATS),
    ]
    held = [pair for pair in material.heldout if codec.known(pair.question + pair.answer) is None] or learned or new
    rows = [codec.pair(pair) for pair in held]
    shown = [row for row in rows if len(row.tokens) <= recipe.context_length] or rows
    return RowCorpus("knowledge-pairs", codec, sources, shown, bucketed=recipe.bucketed)


def _gently(plan: Stage) -> Stage:
    """Finetuning for a model that has much to lose."""
    rates = {name: _LEARN_RATE * getattr(plan.optimizer, name) for name in ("learning_rate", "matrix_learning_rate")}
    schedule = Schedule(kind="trapezoid", warmup_steps=5, decay=0.5, end=0.0)
    optimizer = plan.optimizer.model_copy(update=rates)
    return plan.model_copy(update={"epochs": _LEARN_EPOCHS, "optimizer": optimizer, "schedule": schedule})


def _open(path: Path) -> LoadedRun:
    read_record(path)
    status = RunDirectory.open(path).status
    if status != "finished":
        raise FileError(f"{path} has not finished: it is {status}", hint="give the command that began it again")
    return load_run(path)


def _recipe_of(path: Path) -> KnowledgeRecipe:
    return KnowledgeRecipe(**read_record(path)["settings"])


def _weights_of(path: Path) -> str:
    return str((RunDirectory.open(path).result or {}).get("weights_sha256"))


def _starting_with(loaded: LoadedRun) -> _Start:
    return _Start(dict(loaded.model.state_dict()))


class _Start:
    """Weights to begin with."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        self._weights = weights

    def __call__(self) -> Mapping[str, Tensor]:
        return self._weights


def _practice(
    parent: Path, loaded: LoadedRun, codec: Codec, material: Material, options: Options
) -> list[PracticePair]:
    """What the pretrained model writes; it is kept beside it, for it takes a moment."""
    key = f"{_VERSION} {material.with_changes(practice=()).hash} {_weights_of(parent)}"
    kept = read_json(parent / _WRITTEN) if (parent / _WRITTEN).exists() else {}
    if kept.get("key") != key:
        if options.reporter is not None:
            options.reporter.note(f"reading {len(material.documents)} documents and writing down questions")
        written = practise(loaded.model, codec, material)
        kept = {"key": key, "pairs": [[pair.question, pair.answer, pair.probability] for pair in written]}
        write_json(parent / _WRITTEN, kept)
    return [PracticePair(*row) for row in kept["pairs"]]


def _usable(codec: Codec, material: Material, context: int) -> list[Pair]:
    """The training pairs that fit into the context and have no unknown character."""
    found = [pair for pair in material.train if _problem(codec, pair, context) is None]
    if not found:
        raise InputError(
            f"none of the {len(material.train)} pairs can be learned: {_problem(codec, material.train[0], context)}",
            hint="use a tokenizer that knows every text (bpe), or a longer context",
        )
    return found


def _refuse_unknown(codec: Codec, pairs: Sequence[Pair], context: int) -> None:
    for pair in pairs:
        problem = _problem(codec, pair, context)
        if problem is not None:
            raise InputError(f"a pair cannot be learned: {problem}", hint="leave it out; nothing else is lost")


def _problem(codec: Codec, pair: Pair, context: int) -> str | None:
    unknown = codec.known(pair.question + pair.answer)
    if unknown is not None:
        return unknown
    length = len(codec.pair(pair).tokens)
    return None if length <= context + 1 else f"a pair has {length} tokens, and the model reads {context}"


def _fitting(codec: Codec, pairs: Sequence[PracticePair], context: int) -> list[PracticePair]:
    return [pair for pair in pairs if _problem(codec, pair.pair, context) is None]
