"""What attention and whole models cost: parameters, FLOPs, memory and cache, predicted and checked.

estimate("gpt2", variant="tied-kv").memory.peak        one model, in milliseconds, without building it
tabulate(["gpt2"], ["tied-kv", "gqa"])                 several side by side; prints, and shows itself in a notebook
Sweep.over("context", Question(size="gpt2"))           where attention overtakes the rest

question       which model, how it is trained, on how much at once
call           the number of sequences and their lengths in one call
parts          the cost of a part, and sums of parts
heads          the maps of one head, from which the parameters of attention follow
tensors        every parameter by name and shape
attention      the cost of an attention layer
activations    what autograd keeps between forward and backward
model          the cost of a whole model
peak           the most memory of a training step, and its moment
inference      reading a prompt and decoding tokens
estimate       all of it for one question
sweep          FLOPs as the context or the width grows
measured       measurements beside predictions
presentation   tables, pages and plots
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnlab.cost.attention import AttentionCost, attention_cost
from attnlab.cost.call import AttentionCall, ModelCall
from attnlab.cost.estimate import CostEstimate, estimate
from attnlab.cost.heads import PerHead, per_head
from attnlab.cost.inference import InferencePass, inference_pass
from attnlab.cost.measured import MachineRates, MeasuredCost
from attnlab.cost.model import ModelCost, model_cost
from attnlab.cost.parts import Cost, PartCost
from attnlab.cost.peak import TrainingMemory, training_memory
from attnlab.cost.question import Question
from attnlab.cost.tensors import NamedTensor, named_tensors

if TYPE_CHECKING:
    from attnlab.cost.presentation.cost_table import CostTable, tabulate
    from attnlab.cost.sweep import Crossover, Sweep

__all__ = [
    "AttentionCall",
    "AttentionCost",
    "Cost",
    "CostEstimate",
    "CostTable",
    "Crossover",
    "InferencePass",
    "MachineRates",
    "MeasuredCost",
    "ModelCall",
    "ModelCost",
    "NamedTensor",
    "PartCost",
    "PerHead",
    "Question",
    "Sweep",
    "TrainingMemory",
    "attention_cost",
    "estimate",
    "inference_pass",
    "model_cost",
    "named_tensors",
    "per_head",
    "tabulate",
    "training_memory",
]

# These draw. What they draw with takes a second to import, and who trains wants numbers alone.
_DRAWING = {
    "Crossover": "sweep",
    "Sweep": "sweep",
    "CostTable": "presentation.cost_table",
    "tabulate": "presentation.cost_table",
}


def __getattr__(name: str) -> Any:
    if name not in _DRAWING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_DRAWING[name]}"), name)
