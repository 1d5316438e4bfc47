"""Inside a trained model: attention maps of any variant, what each part contributes, and where facts are stored.

taps                the attention weights of every layer and head, and what heads write
subjects            the model to examine (a run, a Hugging Face folder, a model), its texts, and shuffled copies
measures            numerical measures of attention maps
length_direction    whether a key's length or its direction draws attention
alignment           whether heads attend to the right keys, where these are known
heads               roles, attribution, ablation and similarity of heads
embeddings          neighbours, analogies and dimensions of an embedding, and one token in two sentences
directions          how many directions fit into a space, and superposition
neurons             what makes a neuron fire, and what it writes
facts               facts as tokens
tracing             causal tracing: where facts are stored
runs                measures that are stored with a finished run
pages               one text as every head sees it, and further views, as pages
comparison          comparison of the heads of runs
"""

from attnlab.lens.alignment import Pointed, Pointing, pointing
from attnlab.lens.comparison import HeadComparison, compare_heads
from attnlab.lens.directions import (
    Superposed,
    chance_of_closeness,
    covering_bound,
    expected_sampled,
    feature_dimensions,
    johnson_lindenstrauss_bound,
    largest_cosine,
    learn_superposition,
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
    SameToken,
    analogies,
    dimensions,
    nearest,
    orthogonality,
    same_token,
    token_of,
)
from attnlab.lens.facts import Fact, known_facts, world_facts
from attnlab.lens.heads.ablation import Ablation, Removed, ablate
from attnlab.lens.heads.attribution import Attribution, attribute
from attnlab.lens.heads.role_scores import ROLES, delimiter_tokens, repeated_tokens
from attnlab.lens.heads.roles import HeadRole, HeadRoles, RoleScore, head_roles
from attnlab.lens.heads.similarity import (
    HeadSimilarity,
    Matching,
    Pair,
    head_similarity,
    match_all,
    match_heads,
    over_checkpoints,
)
from attnlab.lens.heads.study import Study, study_heads
from attnlab.lens.length_direction import Explained, length_or_direction
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
from attnlab.lens.pages.look import LayerLook, Look, More, look_at
from attnlab.lens.runs import RUN_MEASURES, accuracy, heads_of_run, measures_of_run
from attnlab.lens.taps import Inputs, LayerMaps, Place, attention_maps, evaluating, look, places
from attnlab.lens.tracing import Cell, Tracing, trace

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
    "HeadSimilarity",
    "Inputs",
    "LayerLook",
    "LayerMaps",
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
    "head_roles",
    "head_similarity",
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
