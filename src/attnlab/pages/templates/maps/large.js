// One map, large.

const LARGEST_CELL = 48, TOP = 5;

const longest = (names) => names.reduce((most, name) => Math.max(most, name.length), 0);

class Large {
  constructor(dialog) {
    this.dialog = dialog;
    this.view = dialog.querySelector(".maps-view");
    this.space = dialog.querySelector(".maps-space");
    this.canvas = dialog.querySelector("canvas");
    this.cell = [0, 0]; // query and key
    this.zoom = 0;
    dialog.addEventListener("close", () => this.grid.buttons[this.row][this.head].focus());
    dialog.addEventListener("click", (event) => this.click(event));
    dialog.addEventListener("keydown", (event) => this.key(event));
    this.view.addEventListener("scroll", () => this.later());
    for (const kind of ["pointermove", "pointerdown"]) this.canvas.addEventListener(kind, (event) => this.point(event));
    new ResizeObserver(() => this.dialog.open && this.fit()).observe(this.view);
  }

  async open(grid, row, head) {
    const other = this.grid !== grid;
    if (this.map !== grid.maps[row][head]) this.map?.forget();
    Object.assign(this, { grid, row, head, map: grid.maps[row][head] });
    if (other) this.zoom = 0;
    const last = grid.queries.length - 1;
    if (other) this.cell = [last, Math.max(0, this.map.row.high[last] - 1)];
    this.dialog.querySelector("h3").textContent = this.map.name;
    const numbers = Object.entries(this.map.head.numbers).map(([name, number]) => `${name} ${number}`);
    this.dialog.querySelector(".maps-numbers").textContent = numbers.join(" · ");
    this.view.setAttribute("aria-label", `${this.map.name}: ${grid.queries.length} queries by ${grid.keys.length} keys`);
    this.map.weights().then(() => this.render());
    if (!this.dialog.open) {
      this.dialog.showModal();
      this.view.focus();
    }
  }

  // The map with one pixel for each cell, to be drawn at any size.
  render() {
    if (!this.map?.values || !this.dialog.open) return;
    const mode = this.grid.scale.value;
    this.whole = new OffscreenCanvas(this.grid.keys.length, this.grid.queries.length);
    this.whole.getContext("2d").putImageData(this.map.picture(mode, this.whole.width, this.whole.height), 0, 0);
    showLegend(this.dialog, mode, mode === "page" ? this.grid.full : this.map.head.full);
    this.fit();
    this.say();
  }

  // Sizes in CSS pixels: the room for labels, and that of a cell.
  fit() {
    if (!this.map?.values) return;
    const { clientWidth: width, clientHeight: height } = this.view, narrow = width < 600;
    const room = (names) => clamp(9 + 6.7 * longest(names), 24, narrow ? 58 : 96);
    [this.left, this.top] = [room(this.grid.queries), Math.max(room(this.grid.keys), this.map.head.mass ? 36 : 0)];
    this.right = this.map.head.mass ? (narrow ? 40 : 64) : 8;
    const [queries, keys] = [this.grid.queries.length, this.grid.keys.length];
    const whole = Math.min((width - this.left - this.right) / keys, (height - this.top - 8) / queries);
    const least = Math.min(LARGEST_CELL, Math.max(whole, 0.1));
    this.most = Math.ceil(Math.log(Math.max(1, LARGEST_CELL / least)) / Math.log(1.5));
    this.zoom = clamp(this.zoom, 0, this.most);
    this.size = Math.min(LARGEST_CELL, least * 1.5 ** this.zoom);
    const across = this.left + keys * this.size + this.right, down = this.top + queries * this.size + 8;
    this.space.style.width = `${Math.max(across, this.zoom ? 0 : 1)}px`;
    this.space.style.height = `${down}px`;
    this.later();
  }

  later() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.whole) this.draw();
    });
  }

  draw() {
    const { clientWidth: width, clientHeight: height, scrollLeft: x, scrollTop: y } = this.view;
    const ratio = devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { size, left, top, right, whole } = this;
    const across = Math.min(width - left - right, whole.width * size - x), down = Math.min(height - top, whole.height * size - y);
    this.box = { x, y, across, down };
    pen.save();
    pen.beginPath();
    pen.rect(left, top, across, down);
    pen.clip();
    pen.fillStyle = style("--ground");
    pen.fillRect(left, top, across, down);
    pen.imageSmoothingEnabled = size < 1;
    pen.drawImage(whole, left - x, top - y, whole.width * size, whole.height * size);
    this.mark(pen);
    pen.restore();
    pen.strokeStyle = style("--line");
    pen.strokeRect(left - 0.5, top - 0.5, across + 1, down + 1);
    this.label(pen);
    if (this.map.head.mass) this.masses(pen);
  }

  // Where the reader is.
  mark(pen) {
    const { size, left, top, box } = this, [query, key] = this.cell;
    const [x, y] = [left + key * size - box.x, top + query * size - box.y];
    pen.strokeStyle = style("--soft");
    pen.globalAlpha = 0.5;
    pen.lineWidth = 1;
    pen.strokeRect(left - 1, y - 0.5, box.across + 2, size + 1);
    pen.strokeRect(x - 0.5, top - 1, size + 1, box.down + 2);
    pen.globalAlpha = 1;
    const [mark, grow] = [Math.max(size, 5), Math.max(0, 5 - size) / 2];
    pen.lineWidth = 3;
    pen.strokeStyle = style("--back");
    pen.strokeRect(x - grow - 1, y - grow - 1, mark + 2, mark + 2);
    pen.lineWidth = 1.5;
    pen.strokeStyle = style("--bad");
    pen.strokeRect(x - grow - 1, y - grow - 1, mark + 2, mark + 2);
  }

  // As many tokens as there is room for, and always those of the cell.
  label(pen) {
    const { size, left, top, box } = this, every = Math.max(1, Math.ceil(13 / size));
    const write = (text, place, start, length, turned, own) => {
      const along = (place + 0.5) * size - start;
      if (along < 0 || along > length) return;
      pen.save();
      pen.translate(turned ? left + along : left - 5, turned ? top - 5 : top + along);
      if (turned) pen.rotate(-Math.PI / 2);
      pen.textAlign = turned ? "left" : "right";
      pen.textBaseline = "middle";
      pen.font = `${own ? "600 " : ""}11px ui-monospace, Menlo, Consolas, monospace`;
      const room = (turned ? top : left) - 8;
      let shown = text;
      while (shown.length > 1 && pen.measureText(shown).width > room) shown = [...shown].slice(0, -2).join("") + "…";
      if (own) {
        const wide = Math.min(room + 3, pen.measureText(shown).width + 4);
        pen.fillStyle = style("--text");
        pen.fillRect(turned ? -2 : 2 - wide, -7, wide, 14);
      }
      pen.fillStyle = style(own ? "--back" : "--text");
      pen.fillText(shown, 0, 0.5);
      pen.restore();
    };
    const [query, key] = this.cell;
    for (const [names, own, start, length, turned] of [
      [this.grid.queries, query, box.y, box.down, false],
      [this.grid.keys, key, box.x, box.across, true],
    ]) {
      for (let place = 0; place < names.length; place += every) {
        if (Math.abs(place - own) * size >= 13) write(names[place], place, start, length, turned, false);
      }
      write(names[own], own, start, length, turned, true);
    }
  }

  // A bar for the sum of each row.
  masses(pen) {
    const { size, left, top, right, box } = this, { mass } = this.map.head;
    const start = left + box.across + 6, room = right - 10;
    const most = Math.max(1, ...mass.map((sum) => Math.abs(sum) || 0)), one = start + room / most;
    pen.save();
    pen.beginPath();
    pen.rect(start - 1, 0, room + 6, top + box.down);
    pen.clip();
    pen.fillStyle = style("--text");
    pen.font = "11px system-ui, sans-serif";
    pen.fillText("row", start, top - 18);
    pen.fillText("mass", start, top - 6);
    pen.fillStyle = style("--even");
    mass.forEach((sum, query) => {
      const y = top + query * size - box.y;
      if (y + size < top || y > top + box.down || !sum) return;
      const from = Math.max(y, top);
      pen.fillRect(start, from, (Math.abs(sum) / most) * room, Math.max(0.5, y + size - from - (size > 4 ? 1 : 0)));
    });
    pen.strokeStyle = style("--soft");
    pen.setLineDash([2, 2]);
    pen.beginPath();
    pen.moveTo(one, top);
    pen.lineTo(one, top + box.down);
    pen.stroke();
    pen.restore();
  }

  // The cell in words.
  say() {
    const { map, grid } = this, [query, key] = this.cell, width = grid.keys.length;
    if (!map.values) return;
    const weight = map.values[query * width + key], { mass } = map.head;
    const value = !map.sees(query, key) ? "not visible" : Number.isNaN(weight) ? "not a number" : map.digits(weight);
    const sum = mass ? ` · row mass ${mass[query] ?? "not a number"}` : "";
    this.dialog.querySelector(".maps-cell").textContent =
      `“${grid.queries[query]}” (${query}) → “${grid.keys[key]}” (${key}): ${value}${sum}`;
    const row = [...map.values.subarray(query * width, (query + 1) * width)].map((one, place) => [one, place]);
    const most = row.filter(([one]) => one).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0])).slice(0, TOP);
    this.dialog.querySelector(".maps-most").textContent =
      `Most of this row: ${most.map(([one, place]) => `“${grid.keys[place]}” (${place}) ${map.digits(one)}`).join(", ") || "none"}`;
  }

  move(query, key) {
    this.cell = [clamp(query, 0, this.grid.queries.length - 1), clamp(key, 0, this.grid.keys.length - 1)];
    this.say();
    this.later();
  }

  // So that the cell is in sight.
  follow() {
    const { size, view, box } = this, [query, key] = this.cell;
    if (!box) return;
    const near = (at, start, length) => (at < start ? at : at + size > start + length ? at + size - length : start);
    view.scrollTop = near(query * size, view.scrollTop, view.clientHeight - this.top - 8);
    view.scrollLeft = near(key * size, view.scrollLeft, view.clientWidth - this.left - this.right);
  }

  point(event) {
    if (!this.box) return;
    const across = event.offsetX - this.left, down = event.offsetY - this.top;
    if (across < 0 || down < 0 || across >= this.box.across || down >= this.box.down) return;
    this.move(Math.floor((down + this.box.y) / this.size), Math.floor((across + this.box.x) / this.size));
  }

  click(event) {
    if (event.target === this.dialog) this.dialog.close(); // outside of all that is in it
    const button = event.target.closest("[data-go]");
    if (!button) return;
    const [what, step] = button.dataset.go.split(" ");
    this.go(what, Number(step));
  }

  go(what, step) {
    if (what === "close") this.dialog.close();
    else if (what === "zoom") {
      this.zoom = clamp(this.zoom + step, 0, this.most);
      this.fit();
      this.follow();
    } else {
      const [row, head] = this.grid.beside(this.row, this.head, what === "layer" ? step : 0, what === "head" ? step : 0);
      this.open(this.grid, row, head);
    }
  }

  key(event) {
    const step = STEPS[event.key], inside = event.target === this.view;
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const [query, key] = this.cell, { low, high } = this.map.row;
    if (step && event.shiftKey) this.go(step[0] ? "layer" : "head", step[0] || step[1]);
    else if (step && inside) this.move(query + step[0], key + step[1]);
    else if (inside && event.key === "Home") this.move(query, low[query]);
    else if (inside && event.key === "End") this.move(query, high[query] - 1);
    else if (event.key === "+" || event.key === "=") this.go("zoom", 1);
    else if (event.key === "-") this.go("zoom", -1);
    else return;
    event.preventDefault();
    this.follow();
  }
}
