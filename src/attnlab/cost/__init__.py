"""The cost of attention and of whole models: parameters, FLOPs, memory and cache, predicted and checked.

estimate("gpt2", variant="tied-kv").memory.peak        one model, in milliseconds, without building it
tabulate(["gpt2"], ["tied-kv", "gqa"])                 several side by side; prints, and renders in a notebook
Sweep.over("context", Question(size="gpt2"))           where attention exceeds the rest

call           the number of sequences and their lengths in one call
latent         keys and values made from a latent
block          the MLP and the norms, also Llama's
questions      a model by name or by a config.json, with changes
tensors        every parameter by name and shape, and the matrices of one head
ledger         the bytes that autograd keeps, by part
activations    what autograd keeps between the forward and the backward pass
attention      the cost of a part and of an attention layer
model          the cost of a whole model
peak           the peak memory of a training step, and the moment when it occurs
inference      prefill and decoding
serving        the memory of serving
estimate       all of it for one question, compared with measurements
whole_layers   a custom layer, counted by running it
presentation   tables and an offline page
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from attnlab.cost.attention import AttentionCost, Cost, PartCost, attention_cost
from attnlab.cost.call import AttentionCall, ModelCall
from attnlab.cost.estimate import CostEstimate, MachineRates, MeasuredCost, estimate
from attnlab.cost.inference import InferencePass, inference_pass
from attnlab.cost.model import ModelCost, model_cost
from attnlab.cost.peak import TrainingMemory, training_memory
from attnlab.cost.questions.capacity import Capacity, Fit, capacities_beside, capacity
from attnlab.cost.questions.question import Question
from attnlab.cost.serving import ServingMemory, serving_memory
from attnlab.cost.tensors import NamedTensor, PerHead, named_tensors, per_head

if TYPE_CHECKING:
    from attnlab.cost.presentation.cost_table import CostTable, tabulate
    from attnlab.cost.questions.sweep import Crossover, Sweep

__all__ = [
    "AttentionCall",
    "AttentionCost",
    "Capacity",
    "Cost",
    "CostEstimate",
    "CostTable",
    "Crossover",
    "Fit",
    "InferencePass",
    "MachineRates",
    "MeasuredCost",
    "ModelCall",
    "ModelCost",
    "NamedTensor",
    "PartCost",
    "PerHead",
    "Question",
    "ServingMemory",
    "Sweep",
    "TrainingMemory",
    "attention_cost",
    "capacities_beside",
    "capacity",
    "estimate",
    "inference_pass",
    "model_cost",
    "named_tensors",
    "per_head",
    "serving_memory",
    "tabulate",
    "training_memory",
]

# These draw plots. Their libraries take a second to import, and training needs only numbers.
_DRAWING = {
    "Crossover": "questions.sweep",
    "Sweep": "questions.sweep",
    "CostTable": "presentation.cost_table",
    "tabulate": "presentation.cost_table",
}


def __getattr__(name: str) -> Any:
    if name not in _DRAWING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_DRAWING[name]}"), name)
