"""The view of facts: where those of the generated world live in a run that was trained on it."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.corpora import CorpusSpec, Tokenizer, World, WorldOptions
from attnlab.corpora.generated.world import BIRTHPLACE
from attnlab.errors import InputError
from attnlab.formats import fixed, signed
from attnlab.lens.facts.facts import GROUPS, Fact, known_facts, world_facts
from attnlab.lens.facts.tracing import PARTS, Tracing, What, trace
from attnlab.lens.pages.views import LookView, ends, shade
from attnlab.lens.subjects import Subject
from attnlab.models import LanguageModel
from attnlab.pages import Points, Table

_MOST_FACTS = 200
_SPEAKERS = 8
_WORDS = {"attention": "attention", "mlp": "perceptron", "residual": "all that leaves"}


def facts_view(subject: Subject) -> LookView:
    """Trace the birthplaces that the model knows."""
    if subject.run is None or subject.run[1].record["spec"]["corpus"]["name"] != "world":
        raise InputError(
            "facts are traced in a run that was trained on the generated world, and this is none",
            hint="train one with `corpus=world` and `tokenizer=word`",
        )
    _, loaded = subject.run
    spec = CorpusSpec(**loaded.record["spec"]["corpus"])
    options = spec.parsed_options
    assert isinstance(options, WorldOptions)
    world = World.build(spec.seed, options)
    asked, phrasing, known = _known(subject.model, world, loaded.tokenizer)
    heading = "Where facts live"
    counts: dict[str, int | str] = {"asked": asked, "known": len(known), "phrasing": phrasing}
    if len(known) < 2:
        words = (
            f"Of {asked} birthplaces that the text tells, the model knows {len(known)}: there is nothing to trace. "
            "Train it longer, or on a world with fewer people."
        )
        return LookView("facts", heading, [words], counts)
    found = trace(subject.model, known[:_MOST_FACTS])
    return LookView("facts", heading, _parts(found, counts, phrasing), {**counts, **found.to_dict()})


def _known(model: LanguageModel, world: World, tokenizer: Tokenizer) -> tuple[int, str, list[Fact]]:
    """Return how many facts there are, the phrasing in which the model knows the most of them, and these."""
    best: tuple[int, str, list[Fact]] | None = None
    for phrasing in BIRTHPLACE[: world.options.phrasings]:
        if phrasing.startswith("{place}") or phrasing.index("{place}") < phrasing.index("{name}"):
            continue
        for text in (phrasing, "\n" + phrasing):
            facts = world_facts(world, tokenizer, phrasing=text)
            known = known_facts(model, facts)
            if best is None or len(known) > len(best[2]):
                best = len(facts), text, known
    assert best is not None  # the first phrasing names the person first
    return best


def _parts(found: Tracing, counts: dict[str, int | str], phrasing: str) -> list[str | Points | Table]:
    clean, corrupted = float(found.clean.mean()), float(found.corrupted.mean())
    words = (
        f"Of {counts['asked']} birthplaces the model knows {counts['known']} when it is asked “{phrasing.strip()}”. "
        f"The right place has a probability of {clean:.2f} on average over {len(found.clean)} of these, and of "
        f"{corrupted:.2f} with another person’s name. Put back from the clean pass is one part at some tokens: so much "
        "of the probability returns."
    )
    places = [
        f"{_WORDS[cell.part]} of layer {cell.layer} at the {cell.group}: {signed(cell.effect.mean, 2)} "
        f"({ends(cell.effect, 2)})"
        for cell in sorted(found.found(), key=lambda cell: -cell.effect.mean)
        if cell.part != "residual"
    ]
    said = "Beyond chance and above a tenth of what there is to restore:" if places else "No single place restores it."
    speakers = [[_named(name), signed(one.mean, 2), ends(one, 2)] for name, one in found.speakers().items()]
    return [
        words,
        _effects(found, "restored", "returns when a part is put back (95 % over facts in JSON)"),
        said,
        *([Points(places)] if places else []),
        _effects(found, "ablated", "is lost when a part is replaced by its mean"),
        "Direct effects: what each part writes straight into the logit of the right place, against the other places.",
        Table(("part", "logit", "95 %"), speakers[:_SPEAKERS]),
    ]


def _effects(found: Tracing, what: What, caption: str) -> Table:
    rows, shades = [], []
    for part in PARTS:
        for layer, values in enumerate(found.table(part, what).tolist()):
            rows.append([f"{_WORDS[part]} {layer}", *(fixed(value) for value in values)])
            shades.append([None, *map(shade, values)])
    return Table(("part and layer", *GROUPS), rows, caption=f"Probability that {caption}.", shades=shades)


def _named(name: str) -> str:
    pieces: Sequence[str] = name.split(".")
    if pieces[0] != "blocks":
        return name
    if "heads" in pieces:
        return f"head {pieces[1]}.{pieces[-1]}"
    what = "perceptron" if pieces[2] == "mlp" else pieces[2].replace("_", "-")
    return f"{what} {pieces[1]}{' bias' if pieces[-1] == 'bias' else ''}"
