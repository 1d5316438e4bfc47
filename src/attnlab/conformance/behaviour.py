"""Shapes, corner cases, decoding, determinism, and training that resumes exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.attention import Cache
from attnlab.conformance.subject import CONTEXT, WIDTH, Subject, difference, gradients_of, named_parameters, run, seeded
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.training import OptimizerSpec
from attnlab.training.engine.optimizers import Optimizer

_STEPS = 10


def shapes(subject: Subject) -> str | None:
    """Return for which shape or type the output has another, or is not finite."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        layer = subject.layer().to(dtype)
        for batch, tokens in ((1, 1), (3, 2), (2, CONTEXT)):
            x = subject.tokens(tokens, batch).to(dtype)
            output = run(layer, x)
            given = f"{batch} × {tokens} tokens of {dtype}"
            if output.shape != x.shape or output.dtype != dtype:
                return f"{given} give {tuple(output.shape)} of {output.dtype}, not {tuple(x.shape)}"
            if not bool(torch.isfinite(output).all()):
                return f"{given} give numbers that are not finite"
    return None


def corner_cases(subject: Subject) -> str | None:
    """Return which unusual input gives a number or a gradient that is not finite."""
    layer = subject.layer(at_start=True).float()
    x = subject.tokens(CONTEXT, batch=2).float()
    nothing = torch.zeros(2, CONTEXT, dtype=torch.bool)
    nothing[0] = True
    cases: dict[str, tuple[Tensor, Tensor | None]] = {
        "tokens of zeros": (torch.zeros_like(x), None),
        "tokens times 10,000": (1e4 * x, None),
        "tokens over 10,000": (1e-4 * x, None),
    }
    if subject.takes_padding:
        cases["a sequence that is all padding"] = (x, nothing)
    for case, (given, real) in cases.items():
        given = given.clone().requires_grad_()
        output = layer(given, padding=real)
        assert isinstance(output, Tensor)
        found = gradients_of(output.sum(), {"the input": given, **named_parameters(layer)})
        if not bool(torch.isfinite(output).all()):
            return f"{case}: the output is not finite"
        bad = [name for name, gradient in found.items() if not bool(torch.isfinite(gradient).all())]
        if bad:
            return f"{case}: the gradient by {bad[0]} is not finite"
    return None


def decoding(subject: Subject) -> str | None:
    """Return where decoding from a cache differs from the whole sequence."""
    layer, x = subject.layer(), subject.tokens(CONTEXT, batch=2)
    whole = run(layer, x)
    for piece in (1, 3):
        cache = Cache()
        with torch.no_grad():
            parts = [layer(x[:, start : start + piece], cache=cache) for start in range(0, CONTEXT, piece)]
        for number, part in enumerate(parts):
            assert isinstance(part, Tensor)
            first = number * piece
            error = difference(part, whole[:, first : first + part.shape[1]])
            if error > 1e-9:
                return f"{piece} at a time: token {first + 1} differs by a relative {error:.2g} from the whole"
    return None


def determinism(subject: Subject) -> str | None:
    """Return whether the same input gives another output or gradient the second time, or a seed another layer."""
    layer, x = subject.layer().float(), subject.tokens(CONTEXT, batch=2).float()
    twin = named_parameters(subject.layer().float())
    for name, tensor in named_parameters(layer).items():
        if not torch.equal(tensor, twin[name]):
            return f"two layers built from one seed differ in {name}"
    buffers = {name: tensor.clone() for name, tensor in layer.named_buffers()}
    found = []
    for _ in range(2):
        output = layer(x)
        assert isinstance(output, Tensor)
        found.append({"the output": output.detach(), **gradients_of(output.sum(), named_parameters(layer))})
        run(layer, subject.tokens(CONTEXT, seed=5).float())  # state left by one call would affect the next
    different = [name for name, tensor in found[0].items() if not torch.equal(tensor, found[1][name])]
    if different:
        return f"the same {CONTEXT} tokens twice, others between: {different[0]} differs in some bit"
    changed = [name for name, tensor in layer.named_buffers() if not torch.equal(tensor, buffers[name])]
    return f"a call changes the buffer {changed[0].removeprefix('module.')}, in no checkpoint" if changed else None


def resumption(subject: Subject) -> str | None:
    """Return whether ten steps of training end elsewhere if they are interrupted after five."""
    straight, resumed = _trained(subject, None), _trained(subject, _STEPS // 2)
    different = [name for name, tensor in straight.items() if not torch.equal(tensor, resumed[name])]
    if different:
        return f"{_STEPS} steps, resumed after {_STEPS // 2}: {different[0]} differs in some bit"
    start = dict(_model(subject).named_parameters())
    still = [name for name, tensor in straight.items() if (".extras." in name) and torch.equal(tensor, start[name])]
    return f"{_STEPS} steps of training leave {still[0]} as it was" if still else None


def _model(subject: Subject) -> LanguageModel:
    heads = subject.num_heads()
    base = ModelSpec.build(
        "nano", vocabulary_size=11, num_layers=2, num_heads=heads, model_width=WIDTH, context_length=CONTEXT
    )
    layers = tuple(subject.variant.change(one, CONTEXT) for one in base.attention)
    causal = all(layer.mask.causal for layer in layers)
    return build_model(base.replace(attention=layers, family="decoder" if causal else "encoder"))


def _trained(subject: Subject, stop: int | None) -> dict[str, Tensor]:
    """Return the weights after ten steps; after `stop` of them everything is saved, dropped and loaded."""
    model = _model(subject)
    optimizer = Optimizer(OptimizerSpec(learning_rate=1e-2), model)
    with seeded(3):
        rows = torch.randint(11, (_STEPS, 2, CONTEXT + 1))
    for step, row in enumerate(rows):
        if step == stop:
            weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
            state = {name: tensor.clone() for name, tensor in optimizer.state().items()}
            model = _model(subject)
            model.load_state_dict(weights)
            optimizer = Optimizer(OptimizerSpec(learning_rate=1e-2), model)
            optimizer.load_state(state)
        loss = model.loss(row[:, :-1], row[:, 1:])
        torch.autograd.backward(loss)
        optimizer.step(1.0)
    return {name: tensor.detach().clone() for name, tensor in model.named_parameters()}
