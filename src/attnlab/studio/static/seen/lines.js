// One head as lines from every token (left) to the tokens that it attends to (right).

import { clamp, css, make, placeOf, shadeOf, shortened, sized } from "./drawing.js";

const PAD = 8, FEW = 6, LEAST_SHARE = 0.02; // FEW: lines of a token while none is chosen

export class Lines {
  constructor(view) {
    this.view = view;
    this.below = make("canvas", { "aria-hidden": "true" });
    this.above = make("canvas", { role: "img" });
    this.place = make("div", { class: "seen-layers" }, this.below, this.above);
    const words = "From each token to those it attends to";
    this.element = make("figure", { class: "seen-lines" }, make("figcaption", {}, words), this.place);
    this.above.addEventListener("pointermove", (event) => this.point(event, false));
    this.above.addEventListener("pointerleave", () => this.view.point({ query: null, key: null }));
    this.above.addEventListener("click", (event) => this.point(event, true));
  }

  layout(flow, colours) {
    Object.assign(this, { flow, colours });
    this.width = Math.max(240, this.element.clientWidth);
    this.row = clamp(520 / flow.count, 11, 26);
    this.height = flow.count * this.row + 2 * PAD;
    const pen = sized(this.above, this.width, this.height);
    pen.font = `${clamp(this.row - 2, 9, 14)}px ui-monospace, Menlo, Consolas, monospace`;
    const longest = Math.max(...flow.tokens.map((token) => pen.measureText(token).width));
    this.label = Math.min(longest + 10, this.width * 0.34);
    pen.fillStyle = colours.text;
    pen.textBaseline = "middle";
    flow.tokens.forEach((token, number) => {
      const text = shortened(pen, token, this.label - 8), y = this.y(number);
      pen.textAlign = "right";
      pen.fillText(text, this.label - 4, y);
      pen.textAlign = "left";
      pen.fillText(text, this.width - this.label + 4, y);
    });
  }

  y(number) {
    return PAD + (number + 0.5) * this.row;
  }

  draw({ layer, head, query, key }) {
    const { flow } = this, pen = sized(this.below, this.width, this.height);
    this.above.setAttribute("aria-label", `lines of layer ${layer}, head ${head}`);
    const most = flow.scale(layer, head);
    if (query !== null) {
      this.shade(pen, query, 0, 0.35);
      const row = flow.row(layer, head, query);
      row.forEach((weight, other) => this.shade(pen, other, 1, weight / most));
      row.forEach((weight, other) => this.stroke(pen, query, other, weight, most));
    } else if (key !== null) {
      this.shade(pen, key, 1, 0.35);
      const column = flow.column(layer, head, key);
      column.forEach((weight, other) => this.shade(pen, other, 0, weight / most));
      column.forEach((weight, other) => this.stroke(pen, other, key, weight, most));
    } else {
      for (let one = 0; one < flow.count; one += 1) this.strokeFew(pen, layer, head, one, most);
    }
    pen.globalAlpha = 1;
  }

  // The strongest lines of one token.
  strokeFew(pen, layer, head, query, most) {
    const ranked = this.flow.row(layer, head, query).map((weight, key) => [weight, key]);
    ranked.sort((one, other) => Math.abs(other[0]) - Math.abs(one[0]));
    for (const [weight, key] of ranked.slice(0, FEW)) this.stroke(pen, query, key, weight, most);
  }

  stroke(pen, query, key, weight, most) {
    const share = Math.abs(weight) / most;
    if (share < LEAST_SHARE) return;
    const from = this.label + 2, to = this.width - this.label - 2, middle = (from + to) / 2;
    pen.globalAlpha = clamp(share ** 0.8, 0.05, 0.95);
    pen.strokeStyle = weight < 0 ? this.colours.bad : this.colours.even;
    pen.lineWidth = 0.6 + 2.6 * Math.min(1, share);
    pen.beginPath();
    pen.moveTo(from, this.y(query));
    pen.bezierCurveTo(middle, this.y(query), middle, this.y(key), to, this.y(key));
    pen.stroke();
    this.view.counts.strokes += 1;
  }

  shade(pen, number, side, share) {
    if (Math.abs(share) < LEAST_SHARE) return;
    pen.globalAlpha = 0.75;
    pen.fillStyle = css(shadeOf(this.colours, 0.6 * clamp(share, -1, 1)));
    pen.fillRect(side ? this.width - this.label : 0, this.y(number) - this.row / 2, this.label, this.row - 1);
  }

  point(event, click) {
    const [x, y] = placeOf(event, this.above), number = Math.floor((y - PAD) / this.row);
    if (number < 0 || number >= this.flow.count) return;
    const side = x > this.width / 2 ? "key" : "query";
    this.view.point(side === "key" ? { key: number, query: null } : { query: number, key: null }, click);
  }
}
