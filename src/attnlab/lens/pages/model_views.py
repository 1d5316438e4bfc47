"""Views of what is in a model's weights: the directions of its embedding, its neurons, and the facts it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import torch
import torch.nn.functional as F

from attnlab.corpora import Batch, CorpusSpec, Tokenizer, World, WorldOptions
from attnlab.corpora.generated.world import BIRTHPLACE
from attnlab.errors import InputError
from attnlab.formats import fixed, percent, plural, signed
from attnlab.lens.embeddings import analogies, dimensions, nearest, orthogonality, same_token, token_of
from attnlab.lens.facts import GROUPS, Fact, known_facts, world_facts
from attnlab.lens.neurons import Firing, Reader, Writer, neurons_for, neurons_writing, watch, writes
from attnlab.lens.pages.look_page import LookView, ends, printable, shade
from attnlab.lens.subjects import Subject
from attnlab.lens.tracing import PARTS, Tracing, What, trace
from attnlab.models import LanguageModel
from attnlab.pages import Points, Table

Question = tuple[str, str, str, str]
_NEIGHBOURS = 6
_ANSWERS = 5


def embeddings_view(model: LanguageModel, tokenizer: Tokenizer, tokens: Sequence[int]) -> LookView:
    """Show statistics of the vectors, and the neighbours of some tokens."""
    vectors = model.embedding.weight.detach()
    apart, used = orthogonality(vectors), dimensions(vectors)
    points = [
        f"{used.effective:.1f} effective dimensions of {used.width}; as many random vectors would have "
        f"{used.random:.1f}.",
        f"Two tokens have |cos| = {apart.mean:.3f} on average, {apart.centred:.3f} without the mean vector that all "
        f"share; two random directions {apart.expected:.3f}.",
        f"One pair in a hundred is above {dict(apart.quantiles)[0.99]:.2f}, where random ones are above "
        f"{apart.expected_quantile:.2f}.",
    ]
    found = {token: nearest(vectors, token, count=_NEIGHBOURS) for token in tokens}
    rows = [
        [
            printable(tokenizer, [token])[0],
            ", ".join(f"{printable(tokenizer, [one.token])[0]} {fixed(one.similarity)}" for one in neighbours),
        ]
        for token, neighbours in found.items()
    ]
    table = Table(("token", "nearest by cosine"), rows, text_columns=(0, 1), wrap_columns=(1,))
    data = {
        "dimensions": asdict(used),
        "orthogonality": asdict(apart),
        "nearest": {str(token): [one._asdict() for one in neighbours] for token, neighbours in found.items()},
    }
    return LookView("embeddings", "Embeddings", [Points(points), table], data)


def analogies_view(model: LanguageModel, tokenizer: Tokenizer, questions: Sequence[Question]) -> LookView:
    """Show analogies, a is to b as c is to d, with the ranks that controls give d."""
    vectors = model.embedding.weight.detach()
    asked: list[tuple[int, int, int, int]] = []
    for question in questions:
        a, b, c, d = (token_of(tokenizer, word) for word in question)
        asked.append((a, b, c, d))
    found = analogies(vectors, asked)
    unit = F.normalize(vectors.double(), dim=-1)
    rows, answers = [], []
    for question, one, exchanged in zip(questions, found.found, found.shuffled_ranks.double().t(), strict=True):
        a, b, c, _ = one.tokens
        similarity = unit @ F.normalize(unit[c] - unit[a] + unit[b], dim=0)
        similarity[[a, b, c]] = -torch.inf
        best = printable(tokenizer, similarity.topk(min(_ANSWERS, len(unit) - 3)).indices.tolist())
        answers.append(best)
        w, x, y, z = (word.strip() or word for word in question)
        rows.append(
            [
                f"{w} : {x} = {y} : {z}",
                str(one.rank),
                str(one.rank_alone),
                fixed(float(exchanged.median()), 0),
                fixed(one.parallel),
                ", ".join(best),
            ]
        )
    count = len(unit) - 3
    words = (
        f"a is to b as c is to d: the rank of d by its cosine with c − a + b among {count} tokens; by c alone; and "
        f"with the pairs exchanged (median). {percent(found.first)} come first, {percent(found.first_alone)} by c "
        f"alone and {percent(found.first_shuffled)} with pairs exchanged, which do as well with "
        f"p = {found.p:.2f}."
    )
    headings = ("analogy", "rank", "by c alone", "exchanged", "cos of b − a and d − c", "nearest")
    table = Table(headings, rows, text_columns=(0, 5), wrap_columns=(5,))
    data = {
        **found.to_dict(),
        "nearest": [list(best) for best in answers],
        "questions": [list(question) for question in questions],
    }
    return LookView("analogies", "Analogies", [words, table], data)


def beside_view(model: LanguageModel, tokenizer: Tokenizer, one: Sequence[int], other: str) -> LookView:
    """Show the last token that the text shares with another sentence, layer by layer."""
    context = model.spec.context_length
    found = same_token(model, one[:context], tokenizer.encode(other)[:context])
    names = ["embedding", "with position", *(f"behind layer {layer}" for layer in range(model.spec.num_layers))]
    columns = zip(names, found.similarity, found.others, found.kept, strict=True)
    rows = [[name, *(fixed(value) for value in values)] for name, *values in columns]
    said = printable(tokenizer, [found.token])[0]
    words = (
        f"“{said}” is token {found.places[0]} of the text and token {found.places[1]} of “{other.strip()}”. Its "
        "embedding is the same in both. Further up it takes on its sentence: “kept” is 1 where the two vectors are "
        "still the token alone, and 0 where they are as similar as any two different tokens."
    )
    table = Table(("where", "cosine of the two", "of other tokens", "kept"), rows)
    return LookView("same_token", "The same token in another sentence", [words, table], found.to_dict())


# Neurons

_EACH = 8  # neurons of a layer that are shown
_PLACES = 8  # where a neuron fires most, by which it is ranked
_SHOWN = 3
_OF_A_TOKEN = 5


def neurons_view(
    model: LanguageModel, tokenizer: Tokenizer, batch: Batch, tokens: Sequence[int] = (), texts: str = ""
) -> LookView:
    """Show the neurons of each layer that fire most for one thing, and those that belong to `tokens`."""
    rows, data = [], []
    for layer in range(model.spec.num_layers):
        firing = watch(model, [batch], layer=layer, count=_PLACES, context=6)
        for neuron in _chosen(firing):
            written = writes(model, layer, neuron, count=_SHOWN)
            places = firing.top[neuron][:_SHOWN]
            rows.append(
                [
                    f"{layer}.{neuron}",
                    "  ".join("".join(printable(tokenizer, place.context)) for place in places),
                    fixed(places[0].value),
                    percent(1 - float(firing.off[neuron])),
                    " ".join(printable(tokenizer, [one.token for one in written.promoted])),
                    " ".join(printable(tokenizer, [one.token for one in written.suppressed])),
                ]
            )
            data.append(
                {
                    "layer": layer,
                    "neuron": neuron,
                    "top": [place._asdict() for place in firing.top[neuron]],
                    "promoted": [one._asdict() for one in written.promoted],
                    "suppressed": [one._asdict() for one in written.suppressed],
                }
            )
    words = (
        f"On {texts or 'the texts'}: of each layer’s {model.spec.mlp_width} neurons those that fire most for one "
        "token. A neuron is named by its layer and its number; the text ends with the token at which it fires most. "
        "Promoted and suppressed is what its column writes straight into the logits."
    )
    headings = ("neuron", "fires most behind", "at most", "is on", "promotes", "suppresses")
    parts: list[str | Table] = [words, Table(headings, rows, text_columns=(0, 1, 4, 5), wrap_columns=(1,))]
    belonging = {}
    for token in tokens:
        said = printable(tokenizer, [token])[0]
        readers = neurons_for(model, [batch], token) if bool((batch.inputs == token).any()) else []
        writers = neurons_writing(model, token)
        belonging[said] = {"fire": [one._asdict() for one in readers], "write": [one._asdict() for one in writers]}
        parts.append(_sentence(said, readers, writers))
    return LookView("neurons", "Single neurons", parts, {"neurons": data, "of_tokens": belonging})


def _chosen(firing: Firing) -> list[int]:
    """Return the neurons whose strongest activations are mostly for one token, and of these the strongest."""

    def judged(neuron: int) -> tuple[float, float]:
        shares: dict[int, float] = {}
        for place in firing.top[neuron]:
            shares[place.token] = shares.get(place.token, 0.0) + max(0.0, place.value)
        most = max(shares.values())
        return most / max(sum(shares.values()), 1e-9), most

    return sorted(range(len(firing.top)), key=judged, reverse=True)[:_EACH]


def _sentence(said: str, readers: Sequence[Reader], writers: Sequence[Writer]) -> str:
    parts = []
    kinds: list[tuple[Sequence[Reader | Writer], str]] = [
        (readers, "fire for it more than for all else"),
        (writers, "write it beyond chance"),
    ]
    for ones, words in kinds:
        names = ", ".join(f"{one.layer}.{one.neuron}" for one in ones[:_OF_A_TOKEN])
        verb = words if len(ones) != 1 else words.replace("fire", "fires", 1).replace("write", "writes", 1)
        more = ", …" if len(ones) > _OF_A_TOKEN else ""
        parts.append(f"{plural(len(ones), 'neuron')} {verb}{f' ({names}{more})' if ones else ''}")
    return f"“{said}”: {'; '.join(parts)}."


# Facts


_MOST_FACTS = 200
_SPEAKERS = 8
_WORDS = {"attention": "attention", "mlp": "perceptron", "residual": "all that leaves"}


def facts_view(subject: Subject) -> LookView:
    """Trace the birthplaces that the model knows."""
    if subject.run is None or subject.run[1].record["spec"]["corpus"]["name"] != "world":
        raise InputError(
            "facts can be traced only in a run that was trained on the generated world",
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
