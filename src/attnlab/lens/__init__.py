"""Inside a trained model: attention maps of any variant, what each part says and is worth, and what can be measured."""

from attnlab.lens.ablation import Ablation, Removed, ablate
from attnlab.lens.attribution import Attribution, attribute
from attnlab.lens.compared import HeadComparison
from attnlab.lens.comparing_heads import compare_heads
from attnlab.lens.contexts import SameToken, same_token
from attnlab.lens.directions import (
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
from attnlab.lens.embeddings import (
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
from attnlab.lens.facts import Fact, known_facts, world_facts
from attnlab.lens.further import More
from attnlab.lens.length_direction import Explained, length_or_direction
from attnlab.lens.looking import look_at
from attnlab.lens.looks import LayerLook, Look
from attnlab.lens.maps import LayerMaps, Place, attention_maps, evaluating, look, places
from attnlab.lens.measures import MEASURES, Described, Measure, measure, measure_heads
from attnlab.lens.neurons import (
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
from attnlab.lens.pointing import Pointed, Pointing, pointing
from attnlab.lens.redundancy import Likeness, Matching, Pair, head_likeness, match_all, match_heads, over_checkpoints
from attnlab.lens.role_reading import delimiter_tokens, repeated_tokens
from attnlab.lens.role_scores import ROLES
from attnlab.lens.roles import HeadRole, HeadRoles, RoleScore, head_roles
from attnlab.lens.run_heads import heads_of_run
from attnlab.lens.run_measures import RUN_MEASURES, accuracy, measures_of_run
from attnlab.lens.studying import Study, study_heads
from attnlab.lens.superposition import Superposed, feature_dimensions, learn_superposition
from attnlab.lens.traced import Cell, Tracing
from attnlab.lens.tracing import trace

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
