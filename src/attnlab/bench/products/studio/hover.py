"""Pointing at heads on the page Attention: the time to draw one, and the head that is shown after a fast movement.

The model has 12 layers of 12 heads, is narrow, and was trained for one step: the drawing time depends only on its
shape. It runs from the pointer event to the end of the frame that shows the head.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from attnlab.bench.products.studio.serving import CACHE, RUNS, at, visit
from attnlab.errors import AttnlabError
from attnlab.training import RunSpec, train

LAYERS, HEADS, TOKENS = 12, 12, 64
_TEXT = " ".join(["the man Drodor says that he lost his keys"] * 8)
_EDGE, _GAP = 22, 3  # pixels before the first head, and between two
_DRAWN = f"() => document.querySelectorAll('.seen-token').length === {TOKENS}"
_GRID = """() => {
  const [view] = seen.views.values(), { canvas, cell } = view.panels.heads;
  const { left, top } = canvas.getBoundingClientRect();
  return { left, top, cell };
}"""
# Point at one head after the other; return the milliseconds until a frame that shows it was painted, for each.
POINT = """async (places) => {
  const [view] = seen.views.values(), canvas = view.panels.heads.canvas, taken = [], painted = new MessageChannel();
  const frame = () => new Promise((done) => requestAnimationFrame(() => {
    painted.port1.onmessage = done;
    painted.port2.postMessage(null);
  }));
  for (const [layer, head, x, y] of places) {
    const { left, top } = canvas.getBoundingClientRect(), words = `Layer ${layer}, head ${head}.`;
    const begin = performance.now();
    canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: left + x, clientY: top + y }));
    do await frame(); while (!view.said.textContent.startsWith(words) && performance.now() - begin < 10000);
    taken.push(performance.now() - begin);
    await new Promise((done) => setTimeout(done, 7 * taken.length % 16));  // at another moment between two frames
  }
  painted.port1.close();
  return taken;
}"""
_TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass(frozen=True)
class Hovering:
    """Milliseconds until each head was drawn, and whether each fast movement ended with the last head pointed at."""

    milliseconds: list[float]
    shown: list[bool]


def plant_model(folder: Path) -> None:
    """Leave a model with many heads in the folder of the runs."""
    spec = RunSpec(
        recipe="fast",
        size="pico",
        corpus={"name": "kinship", "tokenizer": "word"},
        num_layers=LAYERS,
        num_heads=HEADS,
        model_width=4 * HEADS,
        context_length=TOKENS,
        batch_size=1,
        validation_rows=1,
        steps=1,
    )
    result = train(spec, folder / RUNS / "heads", cache=folder / CACHE, threads=1, workers=1)
    if result.outcome != "finished":
        raise AttnlabError(f"the model to look at {result.outcome}", hint="run `attnlab train` to see why")


def hover(browser: Any, address: str, heads: int, movements: int) -> Hovering:
    """Point at so many heads one by one, and then move over all of them as fast as the browser can be told to."""
    page = visit(browser, at(address, f"/seen?{urlencode({'text': _TEXT})}"))
    try:
        page.wait_for_function(_DRAWN)
        page.locator(".seen-heads canvas").scroll_into_view_if_needed()
        every = list(itertools.product(range(LAYERS), range(HEADS)))
        random.Random(0).shuffle(every)
        page.evaluate(POINT, places_of(page, every[:5]))  # to warm up
        taken = page.evaluate(POINT, places_of(page, (every * (heads // len(every) + 1))[:heads]))
        shown = [_sweep(page, every[number:] + every[:number]) for number in range(movements)]
    finally:
        page.close()
    return Hovering(taken, shown)


def places_of(page: Any, heads: list[tuple[int, int]]) -> list[tuple[int, int, float, float]]:
    """Return layers and heads with their places on the canvas, in pixels."""
    step = page.evaluate(_GRID)["cell"] + _GAP
    return [(layer, head, _EDGE + step * (head + 0.4), _EDGE + step * (layer + 0.4)) for layer, head in heads]


def _sweep(page: Any, heads: list[tuple[int, int]]) -> bool:
    """Move the pointer over heads without a pause; return whether the last one is shown then."""
    grid = page.evaluate(_GRID)
    for _, _, x, y in places_of(page, heads):
        page.mouse.move(grid["left"] + x, grid["top"] + y)
    page.evaluate(_TWO_FRAMES)
    layer, head = heads[-1]
    words: str = page.locator(".seen-said").inner_text()
    return words.startswith(f"Layer {layer}, head {head}.")
