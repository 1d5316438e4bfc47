"""Where attention overtakes: the crossovers against their formulas and against brute force, and the plots."""

from __future__ import annotations

import json

import pytest

from attnlab.cost import Question, Sweep, model_cost
from attnlab.cost.questions.sweep import BOTH, GROUPS, Line, flops_by_group, plot_lines
from attnlab.errors import AttnlabError


def crossovers(sweep: Sweep) -> dict[str, int | None]:
    return {one.name: one.value for one in sweep.crossovers}


@pytest.mark.parametrize("size", ["nano", "gpt2", "gpt3"])
def test_crossovers_of_softmax_follow_from_the_width(size: str) -> None:
    """Visible pairs: 2 (N + 1) D against 8 D² and 16 D² a token and layer."""
    sweep = Sweep.over("context", Question(size=size))
    found, width = crossovers(sweep), sweep.width
    assert [found[name] for name in ("the projections", "the MLP", BOTH)] == [
        4 * width - 1,
        8 * width - 1,
        12 * width - 1,
    ]


@pytest.mark.parametrize("variant", ["softmax", "window", "gqa", "cosine", "softmax,window", "gqa:1,window:9"])
def test_crossovers_are_the_first(variant: str) -> None:
    question = Question(size="pico", variant=variant)
    sweep = Sweep.over("context", question)
    at = crossovers(sweep)["the MLP"]
    assert at is not None
    here, before = Sweep.over("context", question, [at]).points[0], Sweep.over("context", question, [at - 1]).points[0]
    assert here.flops["attention"] >= here.flops["mlp"]
    assert before.flops["attention"] < before.flops["mlp"]


def test_linear_attention_never_overtakes() -> None:
    assert set(crossovers(Sweep.over("context", Question(size="gpt2", variant="linear"))).values()) == {None}


def test_the_cache_outgrows_the_weights() -> None:
    question = Question(size="pico", batch_size=7)
    at = next(one.value for one in Sweep.over("context", question).crossovers if "cache" in one.name)
    assert at is not None
    for tokens, larger in ((at, True), (at - 1, False)):
        cost = model_cost(question.replace(context_length=tokens).model(), batch=7)
        assert (cost.cache_bytes(tokens) >= cost.weight_bytes) is larger


def test_width_crossovers_are_the_last() -> None:
    question = Question(size="gpt2", context_length=4096)
    sweep = Sweep.over("width", question)
    for name, others in (("the projections", ("projections",)), (BOTH, ("projections", "mlp"))):
        last = crossovers(sweep)[name]
        assert last is not None
        here, beyond = Sweep.over("width", question, [last, last + 64]).points
        assert here.flops["attention"] >= sum(here.flops[other] for other in others)
        assert beyond.flops["attention"] < sum(beyond.flops[other] for other in others)


TURNS = ["softmax,tied-kv,window", "softmax,tied-kv,window,gqa,mqa"]
MIXED = ["window:64*2,softmax", "softmax,(window:9,linear),gqa:3"]


@pytest.mark.parametrize("variant", ["softmax", "linear", *TURNS, *MIXED])
def test_points_are_what_the_model_costs(variant: str) -> None:
    question = Question(size="gpt2", variant=variant)
    for tokens in (96, 1000):
        point = Sweep.over("context", question, [tokens]).points[0]
        cost = model_cost(question.replace(context_length=tokens).model(), visible_only=True)
        assert point.total == cost.forward_flops
        assert point.flops["mlp"] == sum(part.forward_flops for part in cost.by_kind() if part.name == "mlp")
        assert list(flops_by_group(question.model(), 5)) == list(GROUPS)


def test_growth_below_and_above_the_width() -> None:
    growths = {one.name: one.growth for one in Sweep.over("context", Question(size="gpt2")).regimes()}
    assert growths["D/8"] == pytest.approx(1.0, abs=0.1)
    assert growths["64 D"] > 1.7
    assert list(growths.values()) == sorted(growths.values())


@pytest.mark.parametrize("axis", ["context", "width"])
def test_plots_and_data(axis: str) -> None:
    sweep = Sweep.over(axis, Question(size="gpt2"))
    text = sweep.text(60)
    assert all(name in text for name in (*GROUPS, "forward FLOPs per token", "N = D"))
    assert max(map(len, text.splitlines()[2:])) <= 60
    figure = sweep.figure()
    assert [trace.name for trace in figure.data] == list(GROUPS)
    assert len({trace.line.dash for trace in figure.data}) == len(GROUPS)
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    told = json.loads(json.dumps(sweep.as_dict()))
    assert told["points"][3]["forward_flops"] == sweep.points[3].flops


def test_what_is_nothing_has_no_line() -> None:
    text = plot_lines([Line("some", [1, 10], [1, 10]), Line("none", [1, 10], [0, 0])], x="x", y="y", marks={"far": 99})
    assert "some" in text
    assert "none" not in text
    assert "far" not in text


@pytest.mark.parametrize(
    ("axis", "question", "values", "said"),
    [
        ("depth", Question(), None, "no sweep called 'depth'"),
        ("context", Question(), [0], "a sweep along"),
        ("context", Question(), [], "a sweep along"),
        ("width", Question(), [100], "no multiple of the heads' 64"),
        ("context", Question(variant="bidirectional"), None, "would see the token"),
    ],
)
def test_what_cannot_be_swept(axis: str, question: Question, values: list[int] | None, said: str) -> None:
    with pytest.raises(AttnlabError, match=said) as caught:
        Sweep.over(axis, question, values)
    assert caught.value.hint
