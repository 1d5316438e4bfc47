// A text on its way through a model, as the server computed it (studio/work/flow.py).

import { shadeOf } from "./drawing.js";

const STEPS = 65535;

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Uint16Array(bytes.buffer);
}

// The space before a word is not shown, unless the token is nothing else.
const readable = (token) => token.replace(/^\u2423(?=.)/, "");

export class Flow {
  constructor(data) {
    Object.assign(this, data);
    this.tokens = this.tokens.map(readable);
    this.stream.says = this.stream.says.map((row) => row.map(readable));
    this.next = this.next.map((one) => ({ ...one, token: readable(one.token) }));
    this.count = this.tokens.length;
    this.maps = this.layers.map((layer) => (layer.heads ? unpack(layer.data) : null));
    this.columns = Math.max(0, ...this.layers.map((layer) => layer.heads));
    this.pictures = new Map();
    this.largest = new Map();
  }

  has(layer, head) {
    return layer >= 0 && layer < this.layers.length && head >= 0 && head < this.layers[layer].heads;
  }

  // The first head that there is, from a wanted one on.
  nearest(layer, head) {
    if (this.has(layer, head)) return { layer, head };
    const first = this.layers.findIndex((one) => one.heads > 0);
    return first < 0 ? null : { layer: first, head: 0 };
  }

  weight(layer, head, query, key) {
    const { low, high } = this.layers[layer];
    const step = this.maps[layer][(head * this.count + query) * this.count + key];
    return low[head] + ((high[head] - low[head]) * step) / STEPS;
  }

  row(layer, head, query) {
    return Array.from({ length: this.count }, (_, key) => this.weight(layer, head, query, key));
  }

  column(layer, head, key) {
    return Array.from({ length: this.count }, (_, query) => this.weight(layer, head, query, key));
  }

  // The weight that gets the full colour. The first token attends to itself alone, which says nothing.
  scale(layer, head) {
    const name = `${layer} ${head}`;
    if (!this.largest.has(name)) {
      let most = 1e-9;
      for (let query = this.count > 1 ? 1 : 0; query < this.count; query += 1)
        for (let key = 0; key < this.count; key += 1)
          most = Math.max(most, Math.abs(this.weight(layer, head, query, key)));
      this.largest.set(name, most);
    }
    return this.largest.get(name);
  }

  // A map as a picture with one pixel for each weight.
  picture(layer, head, colours) {
    const name = `${layer} ${head}`;
    if (!this.pictures.has(name)) {
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = this.count;
      const image = new ImageData(this.count, this.count), cells = new Uint32Array(image.data.buffer);
      const most = this.scale(layer, head), { low, high } = this.layers[layer];
      const width = (high[head] - low[head]) / STEPS, start = head * this.count * this.count;
      for (let place = 0; place < cells.length; place += 1)
        cells[place] = shadeOf(colours, (low[head] + width * this.maps[layer][start + place]) / most);
      canvas.getContext("2d").putImageData(image, 0, 0);
      this.pictures.set(name, canvas);
    }
    return this.pictures.get(name);
  }

  forgetPictures() {
    this.pictures.clear();
  }
}
