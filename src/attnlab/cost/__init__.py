"""What attention costs: parameters, FLOPs, memory and cache, predicted and checked against the real thing."""

from attnlab.cost.attention import AttentionCost, attention_cost
from attnlab.cost.call import AttentionCall
from attnlab.cost.parts import Cost, PartCost

__all__ = ["AttentionCall", "AttentionCost", "Cost", "PartCost", "attention_cost"]
