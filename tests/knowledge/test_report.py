"""The report compares a run with the same recipe without pretraining, and with nothing else."""

from __future__ import annotations

from pathlib import Path

from attnlab.knowledge import Length, finetune, pretrain
from attnlab.knowledge.report import describe
from support.knowledge import finetuned, options, small, world_material


def test_only_the_same_recipe_without_pretraining_is_compared(tmp_path: Path) -> None:
    material, made = world_material(), small()
    parent = pretrain(material, made, Length(steps=2), options(tmp_path)).path
    run = finetune(parent, material, made, Length(steps=3), options(tmp_path)).path
    other = made.model_copy(update={"dropout": 0.3})
    finetune(None, material, other, Length(steps=3), options(tmp_path))
    assert describe(run, unseen=2).alone is None
    finetuned(tmp_path, material)
    found = describe(run, unseen=2)
    assert found.alone is not None
    assert found.alone.exact_match.total == len(material.heldout)
    assert found.to_dict()["without_pretraining"]["total"] == len(material.heldout)
