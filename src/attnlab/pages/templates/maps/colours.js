const SHADES = 256;
const dark = matchMedia("(prefers-color-scheme: dark)");
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// Colours: lightness changes evenly (Oklab) from that of the page's background, so that more is further from it.

const channel = (x) => Math.round(255 * clamp(x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055, 0, 1));

function fromOklch(lightness, chroma, hue) {
  const angle = (hue * Math.PI) / 180, a = chroma * Math.cos(angle), b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  const [red, green, blue] = linear.map(channel);
  return (255 << 24) | (blue << 16) | (green << 8) | red;
}

let shades, negative; // one colour for each shade, of weights above and below 0
function mixColours() {
  const [from, to] = dark.matches ? [0.205, 0.93] : [1, 0.26];
  const ramp = (hue, turn) => Uint32Array.from({ length: SHADES }, (_, place) => {
    const x = place / (SHADES - 1);
    const chroma = (dark.matches ? 0.02 : 0) + 0.15 * Math.sin(Math.PI * Math.min(1, 0.04 + x * 0.82)) * Math.min(1, 4 * x);
    return fromOklch(from + (to - from) * x, x === 0 && !dark.matches ? 0 : chroma, hue + turn * x);
  });
  shades = dark.matches ? ramp(262, -172) : ramp(222, 48);
  negative = dark.matches ? ramp(20, 40) : ramp(75, -50);
}
const css = (colour) => `rgb(${colour & 255} ${(colour >> 8) & 255} ${(colour >> 16) & 255})`;
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
