"""Single neurons, as a part of a look: what makes each fire, what it writes, and those that belong to a token."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.corpora import Batch, Tokenizer
from attnlab.lens.embeddings.neurons import Firing, neurons_for, neurons_writing, watch, writes
from attnlab.lens.maps.looks import printable
from attnlab.lens.pages.views import View, counted, number, percent, plain
from attnlab.models import LanguageModel
from attnlab.pages import Table

_EACH = 8  # neurons of a layer that are shown
_PLACES = 8  # where a neuron fires most, by which it is judged
_SHOWN = 3
_OF_A_TOKEN = 5


def neurons_view(
    model: LanguageModel, tokenizer: Tokenizer, batch: Batch, tokens: Sequence[int] = (), texts: str = ""
) -> View:
    """The neurons of each layer that fire most for one thing, and those that belong to `tokens`."""
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
                    number(places[0].value),
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
        belonging[said] = found = _of_token(model, batch, token)
        parts.append(_sentence(said, found))
    return View("neurons", "Single neurons", parts, plain({"neurons": data, "of_tokens": belonging}))


def _chosen(firing: Firing) -> list[int]:
    """Those that give most of their strongest firing to one token, and of these the strongest."""

    def judged(neuron: int) -> tuple[float, float]:
        shares: dict[int, float] = {}
        for place in firing.top[neuron]:
            shares[place.token] = shares.get(place.token, 0.0) + max(0.0, place.value)
        most = max(shares.values())
        return most / max(sum(shares.values()), 1e-9), most

    return sorted(range(len(firing.top)), key=judged, reverse=True)[:_EACH]


def _of_token(model: LanguageModel, batch: Batch, token: int) -> dict[str, list[dict[str, float]]]:
    """The neurons that fire for a token, if the texts hold it, and those that write it."""
    here = bool((batch.inputs == token).any())
    readers = neurons_for(model, [batch], token) if here else []
    writers = neurons_writing(model, token)
    return {"fire": [one._asdict() for one in readers], "write": [one._asdict() for one in writers]}


def _sentence(said: str, found: dict[str, list[dict[str, float]]]) -> str:
    parts = []
    for what, words in (("fire", "fire for it more than for all else"), ("write", "write it beyond chance")):
        ones = found[what]
        names = ", ".join(f"{one['layer']:.0f}.{one['neuron']:.0f}" for one in ones[:_OF_A_TOKEN])
        verb = words if len(ones) != 1 else words.replace("fire", "fires", 1).replace("write", "writes", 1)
        more = ", …" if len(ones) > _OF_A_TOKEN else ""
        parts.append(f"{counted(len(ones), 'neuron')} {verb}{f' ({names}{more})' if ones else ''}")
    return f"“{said}”: {'; '.join(parts)}."
