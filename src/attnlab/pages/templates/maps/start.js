mixColours();
const elements = [...document.querySelectorAll(".maps")];
if (!window.DecompressionStream || !window.OffscreenCanvas) {
  for (const element of elements) element.prepend("This browser is too old to draw the maps. ");
  return;
}
const large = new Large(document.querySelector(".maps-large"));
const grids = elements.map((element) => new Grid(element, elements.length > 1));
for (const grid of grids) showLegend(grid.element, grid.scale.value, grid.full);
dark.addEventListener("change", () => {
  mixColours();
  grids.forEach((grid) => grid.redraw());
  large.render();
});
