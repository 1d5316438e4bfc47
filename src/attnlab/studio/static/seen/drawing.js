// Colours, canvases and small elements, shared by all panels.

const SHADES = 256;
const GAMMA = 0.6; // small weights stay visible

export const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// The colours of the page as it is shown now: light, dark, or as the visitor chose.
export function readColours() {
  const named = Object.fromEntries(
    ["back", "text", "soft", "line", "even", "bad", "fresh", "edge"].map((name) => [name, styleOf(`--${name}`)]),
  );
  return { ...named, above: ramp(named.back, named.even, named.text), below: ramp(named.back, named.bad, named.text) };
}

const channels = (hex) => [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));

// From the background through the colour, and from there a little towards that of the text.
function ramp(back, colour, text) {
  const [from, to, end] = [back, colour, text].map(channels);
  return Uint32Array.from({ length: SHADES }, (_, place) => {
    const share = (place / (SHADES - 1)) ** GAMMA;
    const mixed = from.map((first, channel) => {
      const middle = first + (to[channel] - first) * Math.min(1, share * 1.25);
      return Math.round(middle + (end[channel] - middle) * 0.5 * Math.max(0, share * 1.25 - 1));
    });
    return (255 << 24) | (mixed[2] << 16) | (mixed[1] << 8) | mixed[0];
  });
}

export const shadeOf = (colours, share) => {
  const table = share < 0 ? colours.below : colours.above;
  return table[Math.round(clamp(Math.abs(share), 0, 1) * (SHADES - 1))];
};

export const css = (shade) => `rgb(${shade & 255} ${(shade >> 8) & 255} ${(shade >> 16) & 255})`;

// Gives a canvas its size in CSS pixels, sharp on every screen, and returns what draws on it.
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

// Where a pointer is on an element, in CSS pixels.
export function placeOf(event, element) {
  const frame = element.getBoundingClientRect();
  return [event.clientX - frame.left, event.clientY - frame.top];
}

export const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

export const quoted = (token) => `“${token}”`;

export function shortened(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}
