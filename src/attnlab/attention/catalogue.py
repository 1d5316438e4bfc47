"""The catalogue: variants by name.

A variant says what it changes about GPT-2's attention, and nothing else; whoever needs the list (the command line, the
cost model, the benchmarks, the tests) reads it from here. `a+b` names a variant that changes both.

One's own, in a notebook or in a file given by `--variants-from FILE`:

    from attnlab.attention import Variant, add_variant

    add_variant(Variant("sharp", "Softmax at half the temperature.", {"score": {"kind": "cosine", "temperature": 0.5}}))
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from attnlab.attention.builtin import BUILTIN
from attnlab.attention.named import Change, Variant
from attnlab.errors import AttnlabError, FileError, SpecError, UnknownNameError

_known: dict[str, Variant] = {variant.name: variant for variant in BUILTIN}


def add_variant(variant: Variant) -> Variant:
    """Make a variant known by its name. One's own may be replaced, those of attnlab may not."""
    if not variant.name or "+" in variant.name or variant.name.split() != [variant.name]:
        raise SpecError(f"{variant.name!r} cannot name a variant", hint="use letters, digits and hyphens")
    holder = _known.get(variant.name)
    if holder is not None and holder.builtin:
        raise SpecError(f"the name {variant.name!r} belongs to a variant of attnlab", hint="choose another name")
    variant.spec()  # refuse what is impossible now, and not in the middle of a comparison
    _known[variant.name] = variant
    return variant


def variants() -> tuple[Variant, ...]:
    """All known variants, the baseline first."""
    return tuple(_known.values())


def variant(name: str) -> Variant:
    """A variant by its name, or several joined by `+`."""
    parts = [_single(part.strip()) for part in name.split("+")]
    if len(parts) == 1:
        return parts[0]
    changes: dict[str, Change] = {}
    for part in parts:
        clash = changes.keys() & part.changes.keys()
        if clash:
            both = ", ".join(sorted(clash))
            raise SpecError(f"{name!r} changes {both} twice", hint="join variants that change different things")
        changes |= part.changes
    return Variant(
        "+".join(part.name for part in parts),
        " ".join(part.meaning for part in parts),
        changes,
        "; ".join(dict.fromkeys(part.source for part in parts if part.source)),
        "; ".join(part.asks for part in parts if part.asks),
    )


def _single(name: str) -> Variant:
    if name not in _known:
        raise UnknownNameError("variant", name, _known)
    return _known[name]


def load_variants(path: Path) -> tuple[Variant, ...]:
    """Run a Python file of the user's own, and return the variants that it added."""
    before = dict(_known)
    module_spec = importlib.util.spec_from_file_location(f"attnlab_variants_{path.stem}", path)
    if not path.is_file() or module_spec is None or module_spec.loader is None:
        raise FileError(f"{path} is no Python file", hint="give a .py file that calls add_variant")
    try:
        module_spec.loader.exec_module(importlib.util.module_from_spec(module_spec))
    except Exception as error:
        _known.clear()
        _known.update(before)  # all of a file, or nothing
        if isinstance(error, AttnlabError):
            raise
        raise FileError(
            f"{path} failed: {type(error).__name__}: {error}", hint="run it by itself to see where"
        ) from error
    added = tuple(made for name, made in _known.items() if before.get(name) is not made)
    if not added:
        raise FileError(f"{path} adds no variant", hint="call attnlab.attention.add_variant(Variant(…)) in it")
    return added
