// The whole view: panels that share what is chosen. Everything that pointing does happens here, without the server, and
// is drawn once a frame however fast the pointer moves.

import { make, percent, quoted, readColours } from "./drawing.js";
import { Flow } from "./flow.js";
import { HeadGrid } from "./heads.js";
import { Lines } from "./lines.js";
import { LargeMap, Next, Stream, Words } from "./panels.js";

const FULL = ["words", "heads", "lines", "map", "stream", "next"];
const MOST_NAMED = 3; // tokens that a sentence names

class View {
  constructor(place, parts = FULL) {
    this.place = place;
    this.state = { layer: 0, head: 0, query: null, key: null, held: false, fixed: false };
    this.counts = { frames: 0, strokes: 0, pictures: 0 };
    const makers = { words: Words, heads: HeadGrid, lines: Lines, map: LargeMap, stream: Stream, next: Next };
    this.panels = Object.fromEntries(parts.map((name) => [name, new makers[name](this)]));
    this.said = make("p", { class: "seen-said", role: "status" });
    const { words, ...others } = this.panels;
    const grid = make("div", { class: "seen-panels" }, ...Object.values(others).map((panel) => panel.element));
    place.replaceChildren(this.said, ...(words ? [words.element] : []), grid);
    this.resizes = new ResizeObserver(() => this.relayout());
    this.resizes.observe(place);
    this.ended = new AbortController();
    document.addEventListener("studio-theme", () => this.recolour(), { signal: this.ended.signal });
  }

  // Lets go of a page that no longer shows it.
  end() {
    this.resizes.disconnect();
    this.ended.abort();
  }

  show(data) {
    this.flow = new Flow(data);
    const { layer, head } = this.state, found = this.flow.nearest(layer, head);
    const outside = (place) => place !== null && place >= this.flow.count;
    const { query, key } = this.state;
    Object.assign(this.state, found ?? {}, outside(query) || outside(key) ? { query: null, key: null, fixed: false } : {});
    this.mapless = found === null;
    this.width = this.place.clientWidth;
    this.layout();
  }

  relayout() {
    if (!this.flow || this.place.clientWidth === this.width) return;
    this.width = this.place.clientWidth;
    this.layout();
  }

  recolour() {
    if (!this.flow) return;
    this.flow.forgetPictures();
    this.layout();
  }

  layout() {
    const colours = readColours();
    for (const panel of this.shown()) panel.layout(this.flow, colours);
    this.schedule();
  }

  // Where no layer has a map, there is still a stream and a next token.
  shown() {
    const maps = new Set(["words", "heads", "lines", "map"]);
    return Object.entries(this.panels).filter(([name]) => !this.mapless || !maps.has(name)).map(([, panel]) => panel);
  }

  select(change) {
    Object.assign(this.state, change);
    this.schedule();
  }

  // A token that is pointed at; a click holds it until the next click.
  point(change, click = false) {
    if (this.state.fixed && !click) return;
    const same = change.query === this.state.query && change.key === this.state.key;
    const fixed = click && !(this.state.fixed && same);
    this.select({ ...change, fixed });
  }

  explain({ query, key }) {
    const { layer, head } = this.state;
    if (typeof emitEvent === "function") emitEvent("explain", { view: this.place.id, layer, head, query, key });
  }

  schedule() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = undefined;
      if (this.flow) this.draw();
    });
  }

  draw() {
    this.counts.frames += 1;
    for (const panel of this.shown()) panel.draw(this.state);
    this.said.textContent = this.sentence();
  }

  sentence() {
    if (this.mapless) return "No layer of this model has a map of weights.";
    const { layer, head, query, key } = this.state, { flow } = this, where = `Layer ${layer}, head ${head}`;
    if (query !== null && key !== null) {
      const weight = flow.weight(layer, head, query, key).toFixed(4);
      return `${where}: ${quoted(flow.tokens[query])} attends to ${quoted(flow.tokens[key])} with weight ${weight}.`;
    }
    if (query === null && key === null) return `${where}. Point at a head, a token or a cell.`;
    const weights = query !== null ? flow.row(layer, head, query) : flow.column(layer, head, key);
    const ranked = weights.map((weight, place) => [weight, place]).sort((one, other) => other[0] - one[0]);
    const named = ranked.slice(0, MOST_NAMED).map(([weight, place]) => `${quoted(flow.tokens[place])} ${percent(weight)}`);
    const subject = quoted(flow.tokens[query ?? key]);
    return `${where}: ${subject} ${query !== null ? "attends to" : "is attended to by"} ${named.join(", ")}.`;
  }
}

const views = new Map();

// Shows what lies at an address in the element with this id; `parts` are the panels, all by default.
window.seen = {
  views,
  async show(id, address, parts) {
    const answer = await fetch(address, { cache: "no-store" });
    if (!answer.ok) return;
    const data = await answer.json();
    const place = document.getElementById(id);
    if (!place) return;
    for (const [key, view] of views) {
      if (view.place.isConnected) continue;
      view.end();
      views.delete(key);
    }
    if (!views.has(id)) views.set(id, new View(place, parts));
    views.get(id).show(data);
    place.dataset.shown = address;
  },
};
