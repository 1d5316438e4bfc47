"""A retrofit from request to result, in a folder from which the same request resumes.

result = retrofit("runs/softmax-nano-gpt2-seed0-…", request_of(variants=("tied-kv", "window:16"), tokens=200_000))

retrofit-<model>-<hash>/   retrofit.json            the request
                           about.json               the model
                           progress.json            the current step
                           layers/<variant>         converted layers
                           costs.json               losses of every text with each layer converted
                           models/<variant>/        the converted model, a run of zero steps
                           distillation/, runs/     healing; each folder of `runs` is an ordinary run
                           gains.json, answer.json
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from attnlab.attention import AttentionSpec, MultiHeadAttention, make_layer, variant
from attnlab.corpora import Batch, Corpus
from attnlab.formats import file_name
from attnlab.lens.subjects import Subject, open_subject
from attnlab.models import LanguageModel
from attnlab.processes.machine import check_memory
from attnlab.processes.memory import keep_memory
from attnlab.retrofit.conversion.converting import chosen_targets, convert_layers, with_layers
from attnlab.retrofit.conversion.targets import target_layers
from attnlab.retrofit.costs import (
    ALL,
    Losses,
    cheapest_layers,
    difference,
    layer_costs,
    layer_losses,
    rows_at_once,
)
from attnlab.retrofit.folder import ABOUT, ANSWER, COSTS, GAINS, LAYERS, PREFIX, REQUEST, noting
from attnlab.retrofit.gains import Gains, measure_gains
from attnlab.retrofit.healing.converted import write_converted
from attnlab.retrofit.healing.curves import Healing
from attnlab.retrofit.healing.plan import METHODS
from attnlab.retrofit.healing.running import ORIGINAL, HealingJob, validation_loss
from attnlab.retrofit.request import RetrofitRequest
from attnlab.retrofit.result import RetrofitResult, VariantResult
from attnlab.retrofit.texts import fitting_rows, judging_rows, open_text, text_losses
from attnlab.runs.checkpoints import digest
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.storage.disk import make_folders
from attnlab.storage.locks import holding
from attnlab.storage.plans import plan_hash, read_plan, write_plan
from attnlab.storage.records import read_json, write_json
from attnlab.storage.tensors import read_tensors, write_tensors
from attnlab.training import Execution, Reporter, choose_execution

MODELS_AT_ONCE = 3  # the original, a converted one, and space for the conversion
Tell = Callable[[str], None]


def retrofit(
    model: str | Path | LanguageModel | Subject,
    request: RetrofitRequest,
    *,
    out: Path = Path(DEFAULT_ROOT),
    cache: Path | None = None,
    tell: Tell = lambda _: None,
    reporter: Reporter | None = None,
    **wishes: Any,
) -> RetrofitResult:
    """Carry out a request on a model in a folder below `out`, or resume it.

    `cache` is the folder of corpora. `tell` is called with the current step, `reporter` with the steps of healing.
    `wishes` are the arguments of `choose_execution`.
    """
    keep_memory()
    subject = open_subject(model)
    spec = subject.model.spec
    chosen, length = request.chosen_layers(spec.num_layers), request.text_length(spec)
    targets = {name: chosen_targets(target_layers(spec, name), chosen) for name in request.variants}
    request.healing.steps(length)
    check_memory("this retrofit", 4 * MODELS_AT_ONCE * subject.model.num_parameters())
    corpus = open_text(subject, request.text, cache)
    texts = judging_rows(corpus, request.texts, length)
    plan = _planned(subject, request, corpus)
    folder = out / _named(subject, plan)
    make_folders(folder)
    with holding(folder):
        if (folder / REQUEST).exists():
            read_plan(folder, name=REQUEST)
        else:
            write_plan(folder, plan, REQUEST)
        if isinstance(model, str | Path):
            write_json(folder / ABOUT, {"title": subject.title, "model": str(model)})
        tell = noting(folder, tell)
        execution = choose_execution(request.healing.batch_size, **wishes)
        torch.set_num_threads(execution.threads * execution.workers)
        study = _Study(subject, request, corpus, texts, length, folder, execution, tell, reporter)
        result = study.carry_out(targets)
        write_json(folder / ANSWER, result.to_dict())
    return result


def folder_of(subject: Subject, request: RetrofitRequest, cache: Path | None = None) -> str:
    """Return the name of the folder in which a request on a model is carried out."""
    return _named(subject, _planned(subject, request, open_text(subject, request.text, cache)))


def _planned(subject: Subject, request: RetrofitRequest, corpus: Corpus) -> dict[str, object]:
    return {
        "request": request.model_dump(mode="json"),
        "weights_sha256": digest(subject.model.state_dict()),
        "text_sha256": corpus.hash,
    }


def _named(subject: Subject, plan: Mapping[str, object]) -> str:
    return f"{PREFIX}{file_name(subject.title, 40)}-{plan_hash(plan)[:8]}"


@dataclass(frozen=True)
class _Study:
    """A request with everything that it needs."""

    subject: Subject
    request: RetrofitRequest
    corpus: Corpus
    texts: Batch
    length: int
    folder: Path
    execution: Execution
    tell: Tell
    reporter: Reporter | None

    @property
    def model(self) -> LanguageModel:
        return self.subject.model

    def carry_out(self, targets: Mapping[str, Mapping[int, AttentionSpec]]) -> RetrofitResult:
        layers = {name: self._converted(name, wanted) for name, wanted in targets.items()}
        base, losses = self._losses({name: found for name, (found, _) in layers.items()})
        original_loss = self._loss(self.model, base)
        found = []
        for name, (made, errors) in layers.items():
            costs = layer_costs(base, losses[name], errors)
            subset = None
            if self.request.budget is not None:
                self.tell(f"{name}: layers for a budget of {self.request.budget:g} nats")
                subset = cheapest_layers(self.model, made, costs, self.request.budget, base, self.texts)
            kept = {number: made[number] for number in (made if subset is None else subset.layers)}
            changed = with_layers(self.model, kept)
            loss = self._loss(changed, losses[name][ALL] if subset is None else None)
            path = self.folder / "models" / file_name(name)
            self._write(path, name, changed, loss)
            found.append(
                VariantResult(
                    name,
                    variant(name).meaning,
                    costs,
                    difference(losses[name][ALL], base),
                    subset,
                    tuple(kept),
                    loss,
                    path,
                    self._gains(name, changed),
                    self._healed(name, kept, loss) if kept else (),
                )
            )
        return RetrofitResult(
            self.subject.title,
            self.folder,
            self.request,
            self.model.spec.num_layers,
            self.length,
            len(base),
            self.corpus.spec.name,
            original_loss,
            tuple(found),
            self._control(original_loss),
        )

    def _loss(self, model: LanguageModel, known: list[float] | None) -> float:
        """Return the loss on the texts for evaluating healing; without healing, on the texts of the costs.

        `known` are the losses on the latter, if they were measured.
        """
        if self.request.healing.tokens:
            return validation_loss(model, self.corpus, self.request.healing, self.length)
        return fmean(text_losses(model, self.texts) if known is None else known)

    def _converted(
        self, name: str, targets: Mapping[int, AttentionSpec]
    ) -> tuple[dict[int, MultiHeadAttention], dict[int, float]]:
        """Return the converted layers with the errors of their outputs; made once, and read from then on."""
        path = self.folder / LAYERS / file_name(name)
        weights, about = path.with_suffix(".safetensors"), path.with_suffix(".json")
        layers: dict[int, MultiHeadAttention] = {}
        if about.exists():
            errors = {int(number): float(error) for number, error in read_json(about)["errors"].items()}
            stored = read_tensors(weights)
            for number, target in targets.items():
                layer = make_layer(target)
                assert isinstance(layer, MultiHeadAttention)
                prefix = f"{number}."
                mine = {key[len(prefix) :]: tensor for key, tensor in stored.items() if key.startswith(prefix)}
                layer.load_state_dict(mine)
                layers[number] = layer.eval()
            return layers, errors
        tokens, errors = fitting_rows(self.corpus, self.request.fitting_texts, self.length), {}
        tell = self._counting(f"{name}: converting layer", len(targets))
        tell(1)
        for number, made in convert_layers(self.model, targets, tokens):
            layers[number], errors[number] = made.layer, made.error
            tell(min(len(layers) + 1, len(targets)))
        make_folders(path.parent)
        stored = {f"{number}.{key}": one for number, layer in layers.items() for key, one in layer.state_dict().items()}
        write_tensors(weights, stored)
        write_json(about, {"errors": {str(number): error for number, error in errors.items()}})
        return layers, errors

    def _losses(self, layers: Mapping[str, Mapping[int, MultiHeadAttention]]) -> tuple[list[float], dict[str, Losses]]:
        """Return the losses of all texts: of the original, and of each variant with each layer converted."""
        path = self.folder / COSTS
        kept: dict[str, Any] = read_json(path) if path.exists() else {"base": [], "losses": {}}
        count, size = len(self.texts.inputs), rows_at_once(self.model, self.length)
        models = sum(len(one) + 1 for one in layers.values())
        for start in range(len(kept["base"]), count, size):
            piece = Batch(*(tensor[start : start + size] for tensor in self.texts[:2]))
            words = f"text {start + 1} of {count}, model"
            base, found = layer_losses(self.model, layers, piece, self._counting(words, models))
            kept["base"] += base
            for name, losses in found.items():
                mine = kept["losses"].setdefault(name, {})
                for key, values in losses.items():
                    mine.setdefault(key, []).extend(values)
            write_json(path, kept)
        return kept["base"], kept["losses"]

    def _counting(self, words: str, total: int) -> Callable[[int], None]:
        return lambda number: self.tell(f"{words} {number} of {total}")

    def _write(self, path: Path, name: str, model: LanguageModel, loss: float) -> None:
        """Write a converted model as a run."""
        resolved = self.request.healing.finetuning(model.spec, 1, 0, self.execution, self.length)
        record = {**self._record(name), "retrofit": {"variant": name, "method": "conversion"}}
        write_converted(path, model, self.corpus, resolved, record, loss)

    def _record(self, name: str) -> dict[str, object]:
        """Return what the runs of a variant record of where they come from."""
        spec: dict[str, object] = {"variant": name, "size": self.subject.title, "recipe": "retrofit"}
        if self.request.text is None and self.subject.run is not None:
            spec["corpus"] = self.corpus.spec.model_dump(mode="json")
        return {"spec": spec, "command": "attnlab retrofit"}

    def _gains(self, name: str, changed: LanguageModel) -> Gains:
        """Return what is gained; measured once, and read from then on."""
        path = self.folder / GAINS
        kept: dict[str, Any] = read_json(path) if path.exists() else {}
        if name not in kept:
            self.tell(f"{name}: generating")
            prompt = self.texts.inputs[0, : self.length // 2].tolist()
            kept[name] = asdict(measure_gains(self.model, changed, prompt))
            write_json(path, kept)
        return Gains(**kept[name])

    def _healed(self, name: str, layers: Mapping[int, MultiHeadAttention], loss: float) -> tuple[Healing, ...]:
        """Return the healing of a variant by each method, over all seeds; nothing if no tokens were asked for."""
        healing = self.request.healing
        if not healing.tokens:
            return ()
        job = self._job(name, layers, loss)
        found = []
        for method in METHODS:
            runs = []
            for seed in range(1, healing.seeds + 1):
                self.tell(f"{name}: {method}, seed {seed} of {healing.seeds}")
                runs.append(job.heal(method, seed))
            found.append(Healing(method, tuple(runs)))
        return tuple(found)

    def _control(self, loss: float) -> Healing | None:
        """Return the original, finetuned on the same tokens."""
        healing = self.request.healing
        if not healing.tokens:
            return None
        job, runs = self._job(ORIGINAL, {}, loss), []
        for seed in range(1, healing.seeds + 1):
            self.tell(f"the original: seed {seed} of {healing.seeds}")
            runs.append(job.heal("finetune", seed))
        return Healing("finetune", tuple(runs))

    def _job(self, name: str, layers: Mapping[int, MultiHeadAttention], loss: float) -> HealingJob:
        return HealingJob(
            name,
            self.model,
            layers,
            self.corpus,
            self.request.healing,
            self.length,
            self.folder,
            self._record(name),
            loss,
            self.execution,
            self.reporter,
        )
