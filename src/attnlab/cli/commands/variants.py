"""The catalogue of attention variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from attnlab.attention import Mixture, Variant, load_variants, mixture, variant
from attnlab.attention import variants as all_variants
from attnlab.attention.spec import borrowed
from attnlab.cli.options import Json, Markdown, VariantsFile
from attnlab.cli.printing import show, show_json, show_pairs
from attnlab.cost import AttentionCost, attention_cost
from attnlab.errors import AttnlabError
from attnlab.formats import significant
from attnlab.pages import Table

_TOKENS, _LAYERS = 1024, 12  # GPT-2's context and depth; the width and the heads are the defaults of a variant
_KERNELS = {
    "fused": "PyTorch's fused softmax",
    "blocked": "attnlab's query blocks, which touch visible keys only and keep no scores",
    "operator": "its own, in time that grows with the number of tokens",
    "module": "its own module, as it is",
}


def variants(
    name: str | None = None,
    /,
    *,
    variants_from: VariantsFile = None,
    as_json: Json = False,
    markdown: Markdown = False,
) -> None:
    """List the attention variants, or explain one: equations, source, cost and kernel.

    Parameters
    ----------
    name
        The variant to explain: a+b is both changes at once, window:256 has a number. Over the layers of a model a*2,b
        takes turns, and a,(b),c repeats b between the first and the last.
    """
    if markdown and (as_json or name is not None):
        raise AttnlabError("--markdown prints the whole list, and nothing else", hint="leave out --json and the name")
    if variants_from is not None:
        load_variants(variants_from)
    mixed = None if name is None else mixture(name)
    if mixed is not None and len(mixed.variants) > 1:
        if as_json:
            show_json(_describe_mixture(mixed))
        else:
            _explain_mixture(mixed)
        return
    chosen = list(all_variants()) if mixed is None else list(mixed.variants)
    if as_json:
        described = [_describe(one) for one in chosen]
        show_json(described if name is None else described[0])
    elif markdown:
        print(_markdown(chosen))
    elif name is None:
        _list(chosen)
    else:
        _explain(chosen[0])


def _list(chosen: Sequence[Variant]) -> None:
    rows = [[one.name, one.meaning, one.kernel, *_ratios(one)] for one in chosen]
    headings = ("variant", "what it is", "kernel", "param.", "FLOPs", "cache")
    show(Table(headings, rows, text_columns=(0, 1, 2), wrap_columns=(1,)))
    show(
        f"\n{len(rows)} variants. Numbers are times those of softmax, at GPT-2's size: parameters of the layer, FLOPs "
        "to train on visible pairs, and cache after the whole context.\n"
        "`attnlab variants NAME` explains one; NAME+NAME joins two.\n"
        f"A number may follow some names: {', '.join(_example(one) for one in chosen if one.number)}."
    )


def _example(one: Variant) -> str:
    """Return a variant's name with a number."""
    assert one.number is not None
    return f"{one.name}:{one.number.example}"


def _markdown(chosen: Sequence[Variant]) -> str:
    headings = ("variant", "what it is", "what is computed otherwise", "source", "kernel", "param.", "FLOPs", "cache")
    ordinary = variant("softmax").equations()
    rows = []
    for one in chosen:
        changed = [line for line in one.equations() if line not in ordinary] or (ordinary if not one.changes else [])
        rows.append([f"`{one.name}`", one.meaning, "<br>".join(changed), _source(one), one.kernel, *_ratios(one)])
    return Table(headings, rows, text_columns=range(5)).to_markdown()


def _source(one: Variant) -> str:
    """Return where a variant comes from, and links to the claims that it examines."""
    ids, colon, _ = one.asks.partition(":")
    links = [f"[{claim}](claims.md#claim-{claim.split('–')[0]})" for claim in ids.split(", ") if colon]
    named = [one.source.removeprefix("docs/claims.md").removeprefix("; "), f"claim {', '.join(links)}" if links else ""]
    return "; ".join(part for part in named if part)


def _ratios(one: Variant) -> list[str]:
    compared = _compared(_cost(one), _cost(variant("softmax")))
    return [significant(number / baseline) for number, baseline in compared.values()]


def _explain(one: Variant) -> None:
    spec, cost, baseline = one.spec(), _cost(one), _cost(variant("softmax"))
    show(one.name, f"{one.meaning}\n", *(f"    {line}" for line in one.equations()), "")
    facts = {
        "changes": ", ".join(f"{field} = {getattr(spec, field)}" for field in one.changes) or "nothing",
        "source": one.source or "your own",
        "claims": one.asks,
        "kernel": f"{one.kernel}: {_KERNELS[one.kernel]}",
        "number": one.number and f"{_example(one)} sets {one.number.field}",
    }
    show_pairs({key: fact for key, fact in facts.items() if fact})
    if spec.layer is not None:
        show("\nWhat your own layer cannot provide:\n", *(f"    {one}" for one in spec.layer.limits()))
    show(
        f"\nOne layer at GPT-2's size: width {spec.model_width}, {spec.num_heads} heads, {_TOKENS} tokens\n",
        _beside_softmax([cost], [baseline]),
    )


def _beside_softmax(costs: Sequence[AttentionCost], baselines: Sequence[AttentionCost]) -> Table:
    """Return what layers cost together, beside as many layers of softmax."""
    total: dict[str, tuple[int, int]] = {}
    for cost, baseline in zip(costs, baselines, strict=True):
        compared = _compared(cost, baseline)
        compared["bytes kept for the backward pass"] = cost.activation_bytes, baseline.activation_bytes
        for what, (ours, theirs) in compared.items():
            before = total.get(what, (0, 0))
            total[what] = before[0] + ours, before[1] + theirs
    rows = [[what, f"{ours:,}", significant(ours / theirs)] for what, (ours, theirs) in total.items()]
    return Table(("", "", "× softmax"), rows, wrap_columns=(0,))


def _explain_mixture(mixed: Mixture) -> None:
    layers = mixed.layers(max(_LAYERS, mixed.listed))
    show(mixed.name, f"{mixed.meaning}\n", f"In a model with {len(layers)} layers:\n")
    places = {
        one.name: [number for number, at in enumerate(layers, 1) if at.name == one.name] for one in mixed.variants
    }
    rows = [[one.name, ", ".join(map(str, places[one.name])), one.kernel, *_ratios(one)] for one in mixed.variants]
    headings = ("variant", "layers", "kernel", "param.", "FLOPs", "cache")
    show(Table(headings, rows, text_columns=(0, 1, 2), wrap_columns=(1,)))
    for one in mixed.variants:
        show(f"\n{one.name}", f"{one.meaning}\n", *(f"    {line}" for line in one.equations()))
    specs = [one.spec(context_length=_TOKENS) for one in layers]
    costs = [_cost(one, lent) for one, lent in zip(layers, borrowed(specs), strict=True)]
    show(
        f"\nAttention of {len(layers)} layers at GPT-2's size: width {specs[0].model_width}, {_TOKENS} tokens\n",
        _beside_softmax(costs, [_cost(variant("softmax"))] * len(layers)),
    )


def _describe_mixture(mixed: Mixture) -> dict[str, object]:
    """Return a mixture as plain data, with the variant of each layer."""
    layers = mixed.layers(max(_LAYERS, mixed.listed))
    return {
        "name": mixed.name,
        "meaning": mixed.meaning,
        "layers": [one.name for one in layers],
        "variants": [_describe(one) for one in mixed.variants],
    }


def _describe(one: Variant) -> dict[str, object]:
    """Return a variant as plain data."""
    layer, spec = one.spec().layer, one.spec().model_dump(mode="json")
    return {
        "name": one.name,
        "meaning": one.meaning,
        "equations": one.equations(),
        "source": one.source,
        "asks": one.asks,
        "kernel": one.kernel,
        "number": one.number and asdict(one.number),
        "changes": {field: spec[field] for field in one.changes},
        "spec": spec,
        "cost": _cost(one).as_dict(),
        **({} if layer is None else {"limits": list(layer.limits())}),
    }


def _cost(one: Variant, lent: frozenset[str] = frozenset()) -> AttentionCost:
    return attention_cost(one.spec(context_length=_TOKENS), queries=_TOKENS, visible_only=True, lent=lent)


def _compared(cost: AttentionCost, baseline: AttentionCost) -> dict[str, tuple[int, int]]:
    """Return what the list compares with softmax."""
    training, ordinary = (one.forward_flops + one.backward_flops for one in (cost, baseline))
    return {
        "parameters": (cost.parameters, baseline.parameters),
        "FLOPs to train, visible pairs": (training, ordinary),
        "cache bytes after the context": (cost.cache_bytes(_TOKENS), baseline.cache_bytes(_TOKENS)),
    }
