"""What attention and whole models cost: parameters, FLOPs, memory and cache, predicted and checked."""

from attnlab.cost.attention import AttentionCost, attention_cost
from attnlab.cost.call import AttentionCall, ModelCall
from attnlab.cost.model import ModelCost, model_cost
from attnlab.cost.parts import Cost, PartCost

__all__ = [
    "AttentionCall",
    "AttentionCost",
    "Cost",
    "ModelCall",
    "ModelCost",
    "PartCost",
    "attention_cost",
    "model_cost",
]
