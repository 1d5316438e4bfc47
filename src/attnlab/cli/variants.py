"""The catalogue of attention variants."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from attnlab.attention import AttentionSpec, Variant, load_variants, variant
from attnlab.attention import variants as all_variants
from attnlab.cli.printing import make_table, show, show_json
from attnlab.cost import AttentionCost, attention_cost
from attnlab.errors import AttnlabError

_TOKENS = 1024  # GPT-2's context; the width and the heads are the defaults of a variant
_KERNELS = {
    "fused": "PyTorch's fused softmax",
    "blocked": "attnlab's query blocks, which touch visible keys only and keep no scores",
    "operator": "its own, in time that grows with the number of tokens",
}


def variants(
    name: str | None = None,
    /,
    *,
    variants_from: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    markdown: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """List the attention variants, or explain one: equations, source, cost and the kernel that serves it.

    Parameters
    ----------
    name
        The variant to explain; a+b is both changes at once.
    variants_from
        A Python file that adds variants of your own.
    as_json
        Print it as JSON.
    markdown
        Print the list as a Markdown table.
    """
    if markdown and (as_json or name is not None):
        raise AttnlabError("--markdown prints the whole list, and nothing else", hint="leave out --json and the name")
    if variants_from is not None:
        load_variants(variants_from)
    chosen = list(all_variants()) if name is None else [variant(name)]
    if as_json:
        described = [_describe(one) for one in chosen]
        show_json(described if name is None else described[0])
    elif markdown:
        print(_markdown(chosen))
    elif name is None:
        _list(chosen)
    else:
        _explain(chosen[0])


def _list(chosen: list[Variant]) -> None:
    rows = [[one.name, one.meaning, one.kernel, *_ratios(one)] for one in chosen]
    show(make_table(["variant", "what it is", "kernel", "param.", "FLOPs", "cache"], rows, left=(0, 1, 2), wrap=(1,)))
    show(
        f"\n{len(rows)} variants. Numbers are times those of softmax, at GPT-2's size: parameters of the layer, FLOPs "
        "to train on visible pairs, and cache after the whole context.\n"
        "`attnlab variants NAME` explains one; NAME+NAME joins two."
    )


def _markdown(chosen: list[Variant]) -> str:
    headings = ["variant", "what it is", "what is computed otherwise", "source", "kernel", "param.", "FLOPs", "cache"]
    ordinary = variant("softmax").equations()
    rows = []
    for one in chosen:
        changed = [line for line in one.equations() if line not in ordinary] or (ordinary if not one.changes else [])
        rows.append([f"`{one.name}`", one.meaning, "<br>".join(changed), one.source, one.kernel, *_ratios(one)])
    cells = [headings, ["---"] * 5 + ["---:"] * 3, *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def _ratios(one: Variant) -> list[str]:
    compared = _compared(_cost(one), _cost(variant("softmax")))
    return [_times(number, baseline) for number, baseline in compared.values()]


def _explain(one: Variant) -> None:
    spec, cost, baseline = one.spec(), _cost(one), _cost(variant("softmax"))
    show(one.name, f"{one.meaning}\n", *(f"    {line}" for line in one.equations()), "")
    facts = {
        "changes": ", ".join(f"{field} = {getattr(spec, field)}" for field in one.changes) or "nothing",
        "source": one.source or "your own",
        "the notes": one.asks,
        "kernel": f"{one.kernel}: {_KERNELS[one.kernel]}",
    }
    show(make_table(["", ""], [[key, fact] for key, fact in facts.items() if fact], left=(0, 1), wrap=(1,)))
    compared = _compared(cost, baseline)
    compared["bytes kept for the backward pass"] = cost.activation_bytes, baseline.activation_bytes
    rows = [[what, f"{a:,}", _times(a, b)] for what, (a, b) in compared.items()]
    show(
        f"\nOne layer at GPT-2's size: width {spec.model_width}, {spec.num_heads} heads, {_TOKENS} tokens\n",
        make_table(["", "", "× softmax"], rows),
    )


def _describe(one: Variant) -> dict[str, Any]:
    """A variant as plain data."""
    spec = one.spec()
    return {
        "name": one.name,
        "meaning": one.meaning,
        "equations": one.equations(),
        "source": one.source,
        "asks": one.asks,
        "kernel": one.kernel,
        "changes": {field: _plain(getattr(spec, field)) for field in one.changes},
        "spec": spec.model_dump(mode="json"),
        "cost": _cost(one).as_dict(),
    }


def _plain(value: object) -> Any:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def _cost(one: Variant) -> AttentionCost:
    spec: AttentionSpec = one.spec(context_length=_TOKENS)
    return attention_cost(spec, queries=_TOKENS, visible_only=True)


def _compared(cost: AttentionCost, baseline: AttentionCost) -> dict[str, tuple[int, int]]:
    """What the list compares with softmax."""
    return {
        "parameters": (cost.parameters, baseline.parameters),
        "FLOPs to train, visible pairs": (_training(cost), _training(baseline)),
        "cache bytes after the context": (cost.cache_bytes(_TOKENS), baseline.cache_bytes(_TOKENS)),
    }


def _training(cost: AttentionCost) -> int:
    return cost.forward_flops + cost.backward_flops


def _times(number: int, baseline: int) -> str:
    ratio = number / baseline
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.1f}"
