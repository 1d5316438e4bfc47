"""Knowledge models so small that a test can train them: they learn nothing, but everything happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.corpora import World
from attnlab.knowledge import KnowledgeModel, KnowledgeRecipe, Length, Material, Options, finetune, gather_world, recipe
from attnlab.knowledge.codec import Codec
from attnlab.knowledge.training.stages import make_codec
from attnlab.models import build_model
from attnlab.training import Saving

ALONE: dict[str, Any] = {"threads": 1, "workers": 1, "precision": "float32"}
WORLD: dict[str, Any] = {"people": 24, "unseen": 6, "places": 5, "exposures": "1,2", "details": 1}


def small(name: str = "fast", **changes: Any) -> KnowledgeRecipe:
    """A recipe at a size that takes a moment."""
    made = recipe(name).replace(num_layers=1, model_width=16, num_heads=2, **changes)
    stages = {
        name: getattr(made, name).model_copy(update={"epochs": 1, "batch_size": 16})
        for name in ("pretraining", "finetuning")
    }
    vocabulary = 300 if made.tokenizer == "bpe" else None
    return made.model_copy(update={**stages, "epochs_alone": 1, "vocabulary_size": vocabulary})


def world_material(seed: int = 0) -> Material:
    return gather_world(World.generate(seed, **WORLD))


def options(folder: Path, **changes: Any) -> Options:
    return Options(**{"out": folder, "saving": Saving(steps=2), "wishes": ALONE, **changes})


def fresh(material: Material, made: KnowledgeRecipe | None = None) -> KnowledgeModel:
    """A model that nobody trained, in no folder."""
    made = made or small()
    codec = make_codec(material, made)
    return KnowledgeModel(build_model(made.model(codec.vocabulary_size)), Codec(codec.tokenizer), material, {})


def finetuned(folder: Path, material: Material | None = None, steps: int = 3) -> Path:
    """The folder of a run that was finetuned for a few steps."""
    made = small()
    return finetune(None, material or world_material(), made, Length(steps=steps), options(folder)).path
