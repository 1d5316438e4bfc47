// A grid of small maps, drawn when they come into sight.

const SMALL = 120; // the most columns and lines of one
const WORKERS = 4; // how many are read at once
const MANY = 8e6; // cells that are not kept once they are drawn

class Grid {
  constructor(element, several) {
    this.element = element;
    Object.assign(this, JSON.parse(element.querySelector("script").textContent), { several });
    element.querySelector("script").textContent = "";
    this.maps = this.rows.map((row) => row.heads.map((head) => new HeadMap(this, row, head)));
    this.full = Math.max(1e-9, ...this.maps.flat().map((map) => map.head.full));
    this.heavy = this.maps.flat().length * this.queries.length * this.keys.length > MANY;
    this.scale = element.querySelector("select");
    this.buttons = this.maps.map(() => []);
    this.waiting = new Set();
    this.workers = 0;
    this.sight = new IntersectionObserver((entries) => this.notice(entries), { rootMargin: "200px" });
    for (const button of element.querySelectorAll(".maps-small")) this.add(button);
    const first = this.buttons.flat()[0];
    if (first) first.tabIndex = 0;
    this.scale.addEventListener("change", () => this.redraw());
    element.addEventListener("keydown", (event) => this.key(event));
  }

  add(button) {
    const [row, head] = [Number(button.dataset.row), Number(button.dataset.head)];
    this.buttons[row][head] = button;
    this.sight.observe(button);
    button.addEventListener("click", () => large.open(this, row, head));
    button.addEventListener("focus", () => this.only(button));
  }

  // One button alone is reached by Tab; the arrows go to the others.
  only(button) {
    for (const other of this.buttons.flat()) other.tabIndex = other === button ? 0 : -1;
  }

  key(event) {
    const button = event.target.closest(".maps-small"), step = STEPS[event.key];
    if (!button || event.ctrlKey || event.altKey || event.metaKey) return;
    let [row, head] = [Number(button.dataset.row), Number(button.dataset.head)];
    if (step) [row, head] = this.beside(row, head, step[0], step[1]);
    else if (event.key === "Home") head = 0;
    else if (event.key === "End") head = this.maps[row].length - 1;
    else return;
    event.preventDefault();
    this.buttons[row][head].focus();
  }

  // The place so many layers and heads away, or the nearest that has a map.
  beside(row, head, layers, heads) {
    let next = row + layers;
    while (this.maps[next] && !this.maps[next].length) next += layers;
    if (!this.maps[next]) next = row;
    return [next, clamp(head + heads, 0, this.maps[next].length - 1)];
  }

  notice(entries) {
    for (const entry of entries) {
      if (entry.isIntersecting) this.waiting.add(entry.target);
      else this.waiting.delete(entry.target);
    }
    for (let count = 0; count < WORKERS; count++) this.work();
  }

  // A few at a time, so that those in sight come first.
  async work() {
    if (this.workers === WORKERS) return;
    this.workers++;
    try {
      for (const button of this.waiting) {
        this.waiting.delete(button);
        const drawn = this.scale.value + dark.matches;
        if (button.dataset.drawn === drawn) continue;
        button.dataset.drawn = drawn;
        await this.draw(button);
      }
    } finally {
      this.workers--;
    }
  }

  async draw(button) {
    const map = this.maps[button.dataset.row][button.dataset.head], canvas = button.firstElementChild;
    await map.weights();
    canvas.width = Math.min(this.keys.length, SMALL);
    canvas.height = Math.min(this.queries.length, SMALL);
    canvas.classList.toggle("few", this.keys.length < SMALL);
    canvas.getContext("2d").putImageData(map.picture(this.scale.value, canvas.width, canvas.height), 0, 0);
    if (map !== large.map) map.forget();
  }

  redraw() {
    showLegend(this.element, this.scale.value, this.full);
    for (const button of this.buttons.flat()) {
      this.sight.unobserve(button);
      this.sight.observe(button);
    }
  }
}

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// The colours with their weights; `full` is that of the full colour where it is one for all.
function showLegend(element, mode, full) {
  const bar = element.querySelector(".maps-bar"), ticks = element.querySelector(".maps-ticks");
  const stops = [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1];
  bar.style.background = `linear-gradient(to right, ${stops.map((x) => css(shades[Math.round(x * (SHADES - 1))])).join(", ")})`;
  const words = full === null || mode === "row" || (mode === "map" && element.matches(".maps"))
    ? ["0", "a quarter", "full"]
    : [0, full / 4, full].map((weight) => String(Number(weight.toPrecision(2))));
  ticks.replaceChildren(...words.map((text) => Object.assign(document.createElement("span"), { textContent: text })));
}
