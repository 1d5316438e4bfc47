"""Inside a trained model: attention maps of any variant, what each part says and is worth, and what can be measured.

subjects      what is looked at: a run, a folder of Transformers, a model
texts         the texts that a model is looked at with
maps          attention maps and their measures
heads         what each head does, says and is worth
comparison    what a change did to the heads
embeddings    vectors, directions, neurons
facts         where facts live
pages         the page of a look
"""

from attnlab.lens.comparison.compared import HeadComparison
from attnlab.lens.comparison.comparing_heads import compare_heads
from attnlab.lens.embeddings.contexts import SameToken, same_token
from attnlab.lens.embeddings.directions import (
    chance_of_closeness,
    covering_bound,
    expected_sampled,
    johnson_lindenstrauss_bound,
    largest_cosine,
    sampled_directions,
    spread_directions,
    spread_ladder,
    welch_bound,
)
from attnlab.lens.embeddings.embeddings import (
    Analogies,
    Analogy,
    Dimensions,
    Neighbour,
    Orthogonality,
    analogies,
    dimensions,
    nearest,
    orthogonality,
    token_of,
)
from attnlab.lens.embeddings.neurons import (
    Fired,
    Firing,
    Reader,
    Writer,
    Writes,
    Written,
    neurons_for,
    neurons_writing,
    watch,
    writes,
)
from attnlab.lens.embeddings.superposition import Superposed, feature_dimensions, learn_superposition
from attnlab.lens.facts.facts import Fact, known_facts, world_facts
from attnlab.lens.facts.traced import Cell, Tracing
from attnlab.lens.facts.tracing import trace
from attnlab.lens.heads.ablation import Ablation, Removed, ablate
from attnlab.lens.heads.attribution import Attribution, attribute
from attnlab.lens.heads.redundancy import (
    Likeness,
    Matching,
    Pair,
    head_likeness,
    match_all,
    match_heads,
    over_checkpoints,
)
from attnlab.lens.heads.role_reading import delimiter_tokens, repeated_tokens
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.roles import HeadRole, HeadRoles, RoleScore, head_roles
from attnlab.lens.heads.run_heads import heads_of_run
from attnlab.lens.heads.studying import Study, study_heads
from attnlab.lens.maps.attention_maps import LayerMaps, Place, attention_maps, evaluating, look, places
from attnlab.lens.maps.length_direction import Explained, length_or_direction
from attnlab.lens.maps.looking import look_at
from attnlab.lens.maps.looks import LayerLook, Look
from attnlab.lens.maps.measures import MEASURES, Described, Measure, measure, measure_heads
from attnlab.lens.maps.pointing import Pointed, Pointing, pointing
from attnlab.lens.maps.run_measures import RUN_MEASURES, accuracy, measures_of_run
from attnlab.lens.pages.further import More

__all__ = [
    "MEASURES",
    "ROLES",
    "RUN_MEASURES",
    "Ablation",
    "Analogies",
    "Analogy",
    "Attribution",
    "Cell",
    "Described",
    "Dimensions",
    "Explained",
    "Fact",
    "Fired",
    "Firing",
    "HeadComparison",
    "HeadRole",
    "HeadRoles",
    "LayerLook",
    "LayerMaps",
    "Likeness",
    "Look",
    "Matching",
    "Measure",
    "More",
    "Neighbour",
    "Orthogonality",
    "Pair",
    "Place",
    "Pointed",
    "Pointing",
    "Reader",
    "Removed",
    "RoleScore",
    "SameToken",
    "Study",
    "Superposed",
    "Tracing",
    "Writer",
    "Writes",
    "Written",
    "ablate",
    "accuracy",
    "analogies",
    "attention_maps",
    "attribute",
    "chance_of_closeness",
    "compare_heads",
    "covering_bound",
    "delimiter_tokens",
    "dimensions",
    "evaluating",
    "expected_sampled",
    "feature_dimensions",
    "head_likeness",
    "head_roles",
    "heads_of_run",
    "johnson_lindenstrauss_bound",
    "known_facts",
    "largest_cosine",
    "learn_superposition",
    "length_or_direction",
    "look",
    "look_at",
    "match_all",
    "match_heads",
    "measure",
    "measure_heads",
    "measures_of_run",
    "nearest",
    "neurons_for",
    "neurons_writing",
    "orthogonality",
    "over_checkpoints",
    "places",
    "pointing",
    "repeated_tokens",
    "same_token",
    "sampled_directions",
    "spread_directions",
    "spread_ladder",
    "study_heads",
    "token_of",
    "trace",
    "watch",
    "welch_bound",
    "world_facts",
    "writes",
]
