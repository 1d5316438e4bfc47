// All heads as small maps: pointing at one shows it large, a click holds it.

import { clamp, make, placeOf, sized } from "./drawing.js";

const GAP = 3, LABEL = 22, LEAST = 16, MOST = 110;

export class HeadGrid {
  constructor(view) {
    this.view = view;
    this.canvas = make("canvas", { role: "img" });
    this.mark = make("div", { class: "seen-mark" });
    this.place = make("div", {
      class: "seen-scroll", tabindex: "0", role: "group", "aria-label": "all heads; the arrow keys choose one",
    }, this.canvas, this.mark);
    this.element = make("figure", { class: "seen-heads" }, make("figcaption", {}, "Every head"), this.place);
    this.place.addEventListener("pointermove", (event) => this.point(event, false));
    this.place.addEventListener("click", (event) => this.point(event, true));
    this.place.addEventListener("keydown", (event) => this.press(event));
  }

  layout(flow, colours) {
    this.flow = flow;
    const room = this.element.clientWidth - LABEL;
    this.cell = clamp(Math.floor(room / Math.max(1, flow.columns)) - GAP, LEAST, MOST);
    const step = this.cell + GAP;
    const pen = sized(this.canvas, LABEL + flow.columns * step, LABEL + flow.layers.length * step);
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = colours.soft;
    pen.textAlign = "center";
    for (let head = 0; head < flow.columns; head += 1) pen.fillText(head, LABEL + head * step + this.cell / 2, 14);
    pen.textAlign = "right";
    flow.layers.forEach((layer, number) => {
      const y = LABEL + number * step;
      pen.fillStyle = colours.soft;
      pen.fillText(number, LABEL - 6, y + this.cell / 2 + 4);
      for (let head = 0; head < layer.heads; head += 1) {
        const x = LABEL + head * step;
        pen.imageSmoothingEnabled = flow.count > this.cell;
        pen.drawImage(flow.picture(number, head, colours), x, y, this.cell, this.cell);
        pen.strokeStyle = colours.line;
        pen.strokeRect(x + 0.5, y + 0.5, this.cell - 1, this.cell - 1);
      }
    });
    this.canvas.setAttribute("aria-label", `maps of ${flow.layers.length} layers, layer by layer`);
    this.view.counts.pictures += flow.layers.reduce((sum, layer) => sum + layer.heads, 0);
  }

  draw({ layer, head, held }) {
    const step = this.cell + GAP, size = `${this.cell + 4}px`;
    Object.assign(this.mark.style, {
      left: `${LABEL + head * step - 2}px`, top: `${LABEL + layer * step - 2}px`, width: size, height: size,
    });
    this.mark.classList.toggle("held", held);
  }

  point(event, click) {
    const [x, y] = placeOf(event, this.canvas), step = this.cell + GAP;
    const layer = Math.floor((y - LABEL) / step), head = Math.floor((x - LABEL) / step);
    if (!this.flow?.has(layer, head)) return;
    const { layer: now, head: same, held } = this.view.state;
    if (click) this.view.select({ layer, head, held: !(held && now === layer && same === head) });
    else if (!held) this.view.select({ layer, head });
  }

  press(event) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!steps) return;
    event.preventDefault();
    const layer = this.view.state.layer + steps[0], head = this.view.state.head + steps[1];
    if (this.flow.has(layer, head)) this.view.select({ layer, head });
  }
}
