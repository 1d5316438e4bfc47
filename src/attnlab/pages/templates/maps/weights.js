// From letters to weights; how they are packed stands in packing.py.

const NOT_A_NUMBER = 65535;

function decode(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
  return bytes;
}

// Without Blob and Response, which would ask another process.
async function inflate(bytes, length) {
  const { writable, readable } = new DecompressionStream("deflate"), writer = writable.getWriter();
  writer.write(bytes).then(() => writer.close());
  const whole = new Uint8Array(length), reader = readable.getReader();
  for (let place = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return whole;
    whole.set(value, place);
    place += value.length;
  }
}

class HeadMap {
  constructor(grid, row, head) {
    Object.assign(this, { grid, row, head, name: `${grid.several ? grid.label + ", " : ""}${row.name}, ${head.name}` });
  }

  // All weights, (queries × keys); what a query does not see is not a number, as is what the model made none.
  async weights() {
    this.reading ??= this.read();
    return (this.values = await this.reading);
  }

  // Reading again is quick, and all maps of a large model would fill a telephone.
  forget() {
    if (this.grid.heavy) this.reading = this.values = undefined;
  }

  async read() {
    const { low, high } = this.row, width = this.grid.keys.length;
    const count = low.reduce((sum, first, query) => sum + high[query] - first, 0), meaning = this.meanings();
    const planes = await inflate(decode(this.head.data), 2 * count);
    const values = new Float32Array(low.length * width).fill(NaN);
    let place = 0;
    for (let query = 0; query < low.length; query++) {
      const end = query * width + high[query];
      for (let cell = query * width + low[query]; cell < end; cell++, place++) {
        values[cell] = meaning[planes[place] | (planes[count + place] << 8)];
      }
    }
    return values;
  }

  // The weight that each code stands for.
  meanings() {
    const { levels, root, knee, step } = this.grid.steps, { signed, scale } = this.head;
    const sizes = levels + Math.ceil((1 - knee) / step) + 1;
    const found = new Float32Array(NOT_A_NUMBER + 1).fill(NaN);
    for (let size = 0; size <= sizes; size++) {
      const weight = scale * (size < levels ? (size * root) ** 2 : knee + (size - levels) * step);
      if (!signed) found[size] = weight;
      else [found[2 * size], found[2 * size + 1]] = [weight, -weight];
    }
    return found;
  }

  sees(query, key) {
    return key >= this.row.low[query] && key < this.row.high[query];
  }

  // The weight that gets the full colour in each row.
  full(mode) {
    if (mode === "page") return () => this.grid.full;
    if (mode !== "row") return () => this.head.full;
    const width = this.grid.keys.length;
    return (query) => {
      let most = 0;
      for (let key = this.row.low[query]; key < this.row.high[query]; key++) {
        most = Math.max(most, Math.abs(this.values[query * width + key]) || 0);
      }
      return most || 1;
    };
  }

  // As many digits as the step at this weight is worth.
  digits(weight) {
    const { root, knee, step } = this.grid.steps, { scale } = this.head, share = Math.abs(weight) / scale;
    const own = scale * (share < knee ? 2 * Math.sqrt(share) * root + root * root : step);
    return weight.toFixed(clamp(Math.ceil(-Math.log10(own) - 1e-9), 0, 8));
  }

  // Shades of the map in so many columns and lines; where several cells fall together, the strongest shows.
  picture(mode, columns, lines) {
    const width = this.grid.keys.length, queries = this.row.low.length, full = this.full(mode);
    const strongest = new Float32Array(columns * lines).fill(-1), below = new Uint8Array(columns * lines);
    const column = Uint16Array.from({ length: width }, (_, key) => Math.floor((key * columns) / width));
    for (let query = 0; query < queries; query++) {
      const line = Math.floor((query * lines) / queries) * columns, start = query * width, scale = 1 / full(query);
      for (let key = this.row.low[query]; key < this.row.high[query]; key++) {
        const weight = this.values[start + key], share = Math.abs(weight) * scale, place = line + column[key];
        if (share > strongest[place]) {
          strongest[place] = share;
          below[place] = weight < 0 ? 1 : 0;
        }
      }
    }
    const image = new ImageData(columns, lines), colours = new Uint32Array(image.data.buffer);
    strongest.forEach((share, place) => {
      const shade = Math.round((SHADES - 1) * Math.sqrt(Math.min(1, share)));
      if (share >= 0) colours[place] = (below[place] ? negative : shades)[shade];
    });
    return image;
  }
}
