// The other panels: tokens as words, one map in large, the residual stream, and what may come next.

import { clamp, css, make, percent, placeOf, quoted, shadeOf, shortened, sized } from "./drawing.js";

export class Words {
  constructor(view) {
    this.view = view;
    this.element = make("div", { class: "seen-words", role: "group", "aria-label": "the tokens of the text" });
    this.element.addEventListener("pointerleave", () => this.view.point({ query: null, key: null }));
  }

  layout(flow, colours) {
    Object.assign(this, { flow, colours });
    this.chips = flow.tokens.map((token, number) => {
      const chip = make("button", { type: "button", class: "seen-token" }, token);
      chip.addEventListener("pointerenter", () => this.view.point({ query: number, key: null }));
      chip.addEventListener("focus", () => this.view.point({ query: number, key: null }));
      chip.addEventListener("click", () => this.view.point({ query: number, key: null }, true));
      return chip;
    });
    this.element.replaceChildren(...this.chips);
  }

  draw({ layer, head, query }) {
    const { flow, colours } = this, most = flow.scale(layer, head);
    this.chips.forEach((chip, number) => {
      const share = query === null ? 0 : flow.weight(layer, head, query, number) / most;
      chip.style.background = query === null || !share ? "" : css(shadeOf(colours, 0.55 * clamp(share, -1, 1)));
      chip.classList.toggle("chosen", number === query);
      chip.setAttribute("aria-pressed", String(number === query));
    });
  }
}

export class LargeMap {
  constructor(view) {
    this.view = view;
    this.canvas = make("canvas", { role: "img" });
    this.caption = make("figcaption", {});
    this.element = make("figure", { class: "seen-map" }, this.caption, this.canvas);
    this.canvas.addEventListener("pointermove", (event) => this.point(event, false));
    this.canvas.addEventListener("pointerleave", () => this.view.point({ query: null, key: null }));
    this.canvas.addEventListener("click", (event) => this.point(event, true));
  }

  layout(flow, colours) {
    Object.assign(this, { flow, colours });
    const room = clamp(this.element.clientWidth, 180, 460);
    this.margin = room / flow.count >= 13 ? 64 : 0; // for names, where they can be read
    this.cell = (room - this.margin) / flow.count;
    this.size = room;
  }

  draw({ layer, head, query, key }) {
    const { flow, colours, margin, size } = this, pen = sized(this.canvas, size, size);
    pen.imageSmoothingEnabled = false;
    pen.drawImage(flow.picture(layer, head, colours), margin, margin, size - margin, size - margin);
    pen.strokeStyle = colours.edge;
    pen.strokeRect(margin + 0.5, margin + 0.5, size - margin - 1, size - margin - 1);
    if (margin) this.name(pen, query, key);
    pen.strokeStyle = colours.bad;
    pen.lineWidth = 1.5;
    if (query !== null) pen.strokeRect(margin, margin + query * this.cell, size - margin, this.cell);
    if (key !== null) pen.strokeRect(margin + key * this.cell, margin, this.cell, size - margin);
    const equation = this.view.panels.next ? "; click a cell for its equation" : "";
    this.caption.textContent = `Layer ${layer}, head ${head}: rows attend to columns${equation}`;
    this.canvas.setAttribute("aria-label", `the map of layer ${layer}, head ${head}`);
  }

  name(pen, query, key) {
    pen.font = `${clamp(this.cell - 2, 9, 13)}px ui-monospace, Menlo, Consolas, monospace`;
    pen.textBaseline = "middle";
    this.flow.tokens.forEach((token, number) => {
      const text = shortened(pen, token, this.margin - 6), place = this.margin + (number + 0.5) * this.cell;
      pen.fillStyle = number === query ? this.colours.bad : this.colours.text;
      pen.textAlign = "right";
      pen.fillText(text, this.margin - 5, place);
      pen.save();
      pen.fillStyle = number === key ? this.colours.bad : this.colours.text;
      pen.textAlign = "left";
      pen.translate(place, this.margin - 5);
      pen.rotate(-Math.PI / 2);
      pen.fillText(text, 0, 0);
      pen.restore();
    });
  }

  point(event, click) {
    const [x, y] = placeOf(event, this.canvas);
    const query = Math.floor((y - this.margin) / this.cell), key = Math.floor((x - this.margin) / this.cell);
    const inside = Math.min(query, key) >= 0 && Math.max(query, key) < this.flow.count;
    if (!inside) return;
    this.view.point({ query, key });
    if (click && this.view.panels.next) this.view.explain({ query, key });
  }
}

export class Stream {
  constructor(view) {
    this.view = view;
    this.canvas = make("canvas", { role: "img", "aria-label": "length of the residual stream by part and token" });
    this.caption = make("figcaption", {});
    this.place = make("div", { class: "seen-scroll", tabindex: "0", role: "group", "aria-label": "residual stream" },
      this.canvas);
    this.element = make("figure", { class: "seen-stream" }, this.caption, this.place);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.tell(""));
  }

  layout(flow, colours) {
    Object.assign(this, { flow, colours, shown: null });
    const { rows, norms, says, chances } = flow.stream, height = 18, label = 84;
    const cell = Math.max(8, (this.element.clientWidth - label) / flow.count);
    Object.assign(this, { height, label, cell });
    const pen = sized(this.canvas, label + cell * flow.count, rows.length * height);
    const most = Math.max(1e-9, ...norms.flat().map(Number));
    pen.textBaseline = "middle";
    rows.forEach((name, row) => {
      const y = row * height;
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "right";
      pen.fillStyle = colours.soft;
      pen.fillText(name, label - 6, y + height / 2);
      pen.textAlign = "center";
      norms[row].forEach((norm, token) => {
        const x = label + token * cell;
        pen.fillStyle = css(shadeOf(colours, 0.5 * (Number(norm) / most)));
        pen.fillRect(x, y, cell - 1, height - 1);
        if (cell < 30 || !says[row][token]) return;
        pen.globalAlpha = clamp(0.35 + chances[row][token], 0.35, 1);
        pen.fillStyle = colours.text;
        pen.fillText(shortened(pen, says[row][token], cell - 4), x + cell / 2, y + height / 2);
        pen.globalAlpha = 1;
      });
    });
    this.tell("");
  }

  draw() {}

  tell(words) {
    const usual = "Residual stream: its length behind every part (colour), and the token that would follow at once";
    this.caption.textContent = words || usual;
  }

  point(event) {
    const [x, y] = placeOf(event, this.canvas), { rows, norms, says, chances } = this.flow.stream;
    const row = Math.floor(y / this.height), token = Math.floor((x - this.label) / this.cell);
    if (!rows[row] || token < 0 || token >= this.flow.count) return;
    const next = says[row][token] ? `, would say ${quoted(says[row][token])} (${percent(chances[row][token])})` : "";
    this.tell(`Behind ${rows[row]}, at ${quoted(this.flow.tokens[token])}: length ${norms[row][token]}${next}`);
  }
}

export class Next {
  constructor() {
    this.list = make("ol", { class: "seen-bars" });
    const words = "What may come next";
    this.element = make("figure", { class: "seen-next" }, make("figcaption", {}, words), this.list);
  }

  layout(flow) {
    const most = Math.max(0.01, ...flow.next.flatMap((one) => [one.before, one.after]));
    const changed = flow.next.some((one) => Math.abs(one.before - one.after) > 5e-4);
    this.list.replaceChildren(...flow.next.map((one) => {
      const bars = make("span", { class: "seen-bar" });
      bars.append(make("i", { style: `width:${(100 * one.after) / most}%` }));
      if (changed) bars.append(make("i", { class: "before", style: `width:${(100 * one.before) / most}%` }));
      const numbers = changed ? `${percent(one.after)} (${percent(one.before)} as trained)` : percent(one.after);
      return make("li", {}, make("b", {}, one.token), bars, make("span", {}, numbers));
    }));
  }

  draw() {}
}
