"""One seed of one method: distillation with its own checkpoints, then finetuning as an ordinary run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnlab.attention import Learned, MultiHeadAttention
from attnlab.corpora import Corpus
from attnlab.formats import file_name
from attnlab.models import LanguageModel, ModelSpec
from attnlab.retrofit.conversion.converting import with_layers
from attnlab.retrofit.folder import RUNS
from attnlab.retrofit.healing.curves import HealedRun
from attnlab.retrofit.healing.distilling import Student, distil
from attnlab.retrofit.healing.plan import HealingPlan, Method
from attnlab.retrofit.texts import judging_rows, text_losses
from attnlab.runs import RunDirectory
from attnlab.training import Execution, Reporter, Saving
from attnlab.training.run import StoppedError, train_on

ORIGINAL = "original"


@dataclass(frozen=True)
class HealingJob:
    """A model to be healed: the original, its converted layers, the text, and the folder of its runs."""

    name: str
    original: LanguageModel
    layers: Mapping[int, MultiHeadAttention]
    corpus: Corpus
    plan: HealingPlan
    length: int
    folder: Path
    record: Mapping[str, object]
    loss: float  # after conversion, before any training
    execution: Execution
    reporter: Reporter | None = None

    def run_path(self, method: Method, seed: int) -> Path:
        return self.folder / RUNS / f"{file_name(self.name)}-{method}-seed{seed}"

    def heal(self, method: Method, seed: int) -> HealedRun:
        """Train one seed by one method, or resume it, and return its curve."""
        path, tokens = self.run_path(method, seed), self.plan.batch_size * self.length
        student = Student({number: copy.deepcopy(layer) for number, layer in self.layers.items()})
        points = [(0.0, self.loss)]
        before = 0
        if method == "distil":
            place = self.folder / "distillation" / path.name
            curve = distil(
                self.original, student, self.corpus, self.plan, self.length, seed, place, lambda: self._loss(student)
            )
            before = self.plan.distil_steps(self.length)
            points += [(float(step * tokens), loss) for step, loss in curve]
        steps = self.plan.steps(self.length) - before
        model = with_layers(self.original, _layers(student))
        spec = trained_spec(model.spec, self.length)
        resolved = self.plan.finetuning(spec, steps, seed, self.execution, self.length)
        record = {**self.record, "retrofit": {"variant": self.name, "method": method, "tokens_before": before * tokens}}
        threads = torch.get_num_threads()
        result = train_on(
            self.corpus, path, resolved, record, start=_starting(model), reporter=self.reporter, saving=Saving()
        )
        torch.set_num_threads(threads)  # training divides them among its processes
        if result.outcome == "stopped":
            raise StoppedError(result)
        for entry in RunDirectory.open(path).metrics():
            if entry.get("validation_loss") is not None:
                points.append((float((before + entry["step"]) * tokens), float(entry["validation_loss"])))
        return HealedRun(seed, path, tuple(points), result.outcome == "diverged")

    def _loss(self, student: Student) -> float:
        return validation_loss(with_layers(self.original, _layers(student)), self.corpus, self.plan, self.length)


def validation_loss(model: LanguageModel, corpus: Corpus, plan: HealingPlan, length: int) -> float:
    """Return the loss in nats per token on the held-out texts that healing is measured on."""
    losses = text_losses(model, judging_rows(corpus, plan.validation_rows(length), length))
    return sum(losses) / len(losses)


def trained_spec(spec: ModelSpec, length: int) -> ModelSpec:
    """Return the spec of a model that is trained on texts of this length, which learned positions do not allow."""
    learned = any(isinstance(one.position, Learned) for one in spec.attention)
    return spec if learned else spec.replace(context_length=length)


def _layers(student: Student) -> dict[int, MultiHeadAttention]:
    return {int(number): layer for number, layer in student.layers.items() if isinstance(layer, MultiHeadAttention)}


def _starting(model: LanguageModel) -> Callable[[], Mapping[str, Tensor]]:
    def weights() -> Mapping[str, Tensor]:
        with torch.no_grad():
            return {name: parameter.detach() for name, parameter in model.named_parameters()}

    return weights
