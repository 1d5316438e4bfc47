"""Inside a trained model: attention maps of any variant, and what can be measured on them."""

from attnlab.lens.maps import LayerMaps, attention_maps, evaluating, look
from attnlab.lens.measures import MEASURES, Described, Measure, measure, measure_heads
from attnlab.lens.run_measures import RUN_MEASURES, measures_of_run

__all__ = [
    "MEASURES",
    "RUN_MEASURES",
    "Described",
    "LayerMaps",
    "Measure",
    "attention_maps",
    "evaluating",
    "look",
    "measure",
    "measure_heads",
    "measures_of_run",
]
