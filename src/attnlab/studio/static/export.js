// Every picture of a page as SVG and PNG, every table as CSV: a sheet lists them.

const SVG = "http://www.w3.org/2000/svg";
const INLINED = ["fill", "stroke", "stroke-width", "opacity", "font", "color"];

function save(name, content, type) {
  const link = document.createElement("a");
  link.href = content instanceof Blob ? URL.createObjectURL(content) : URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Tables

const cellText = (cell) => {
  const input = cell.querySelector("input");
  return (input ? input.value : cell.innerText).trim().replaceAll("\u2212", "-").replaceAll("\u00a0", " ");
};

const quotedCell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

window.tableCsv = (table) => [...table.rows]
  .map((row) => [...row.cells].map((cell) => quotedCell(cellText(cell))).join(","))
  .join("\r\n") + "\r\n";

// Pictures

// A copy of an SVG that looks the same without the page's style sheet.
function standalone(svg) {
  const copy = svg.cloneNode(true), from = [svg, ...svg.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
  to.forEach((element, place) => {
    const style = getComputedStyle(from[place]);
    for (const name of INLINED) element.style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", SVG);
  return copy;
}

function framed(width, height, ...children) {
  const outer = document.createElementNS(SVG, "svg");
  const size = { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}` };
  for (const [name, value] of Object.entries(size)) outer.setAttribute(name, value);
  const back = document.createElementNS(SVG, "rect");
  Object.entries({ width, height, fill: getComputedStyle(document.body).backgroundColor }).forEach((one) => back.setAttribute(...one));
  outer.append(back, ...children);
  return outer;
}

// Canvases of one picture lie on each other.
function canvasesAsSvg(canvases) {
  const { width, height } = canvases[0].getBoundingClientRect();
  const images = canvases.map((canvas) => {
    const image = document.createElementNS(SVG, "image");
    Object.entries({ width, height, href: canvas.toDataURL() }).forEach((one) => image.setAttribute(...one));
    return image;
  });
  return framed(width, height, ...images);
}

window.pictureSvg = (picture) => {
  const canvases = [...picture.querySelectorAll("canvas")];
  const layers = picture.matches("svg") ? [picture] : [...picture.querySelectorAll("svg.main-svg")];
  if (!layers.length) return new XMLSerializer().serializeToString(canvasesAsSvg(canvases));
  const { width, height } = layers[0].getBoundingClientRect();
  return new XMLSerializer().serializeToString(framed(width, height, ...layers.map(standalone)));
};

async function savePng(name, text) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => save(name, blob), "image/png");
}

// The sheet

const nameOf = (element, kind, number) => {
  const words = element.querySelector("caption, figcaption")?.innerText || element.getAttribute("aria-label") || "";
  return words.trim().split("\n")[0].slice(0, 70) || `${kind} ${number + 1}`;
};

const fileName = (words) => words.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 50) || "picture";

window.openExports = () => {
  const shown = (element) => element.getClientRects().length > 0;
  const tables = [...document.querySelectorAll("main table")].filter(shown);
  const pictures = [...document.querySelectorAll("main .js-plotly-plot, main svg.small, main .seen-panels figure")]
    .filter((one) => shown(one) && (one.matches("svg") || one.querySelector("canvas, svg.main-svg")));
  const row = (words, place, kinds) => `<li>${words.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`)} ${kinds
    .map((kind) => `<button type="button" data-save="${kind} ${place}">${kind}</button>`).join(" ")}</li>`;
  const names = { picture: pictures.map((one, n) => nameOf(one, "picture", n)), table: tables.map((one, n) => nameOf(one, "table", n)) };
  const rows = [
    ...names.picture.map((words, place) => row(words, place, ["SVG", "PNG"])),
    ...names.table.map((words, place) => row(words, place, ["CSV"])),
  ];
  const html = rows.length ? `<ul class="exports">${rows.join("")}</ul>` : "<p>There is no picture and no table on this page.</p>";
  openSheet("Save pictures and tables", html).addEventListener("click", (event) => {
    const [kind, place] = (event.target.dataset?.save ?? "").split(" ");
    if (kind === "CSV") save(`${fileName(names.table[place])}.csv`, tableCsv(tables[place]), "text/csv");
    if (kind === "SVG") save(`${fileName(names.picture[place])}.svg`, pictureSvg(pictures[place]), "image/svg+xml");
    if (kind === "PNG") savePng(`${fileName(names.picture[place])}.png`, pictureSvg(pictures[place]));
  });
};
