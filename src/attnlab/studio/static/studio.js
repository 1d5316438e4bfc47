// What the pages do by themselves: cells of a matrix tell their change, and the arrow keys walk through them.
"use strict";

document.addEventListener("input", (event) => {
  const place = event.target.dataset?.cell;
  if (place !== undefined) emitEvent("cell", [place, event.target.value]);
});

const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Enter: [1, 0] };

document.addEventListener("keydown", (event) => {
  const cell = event.target, step = STEPS[event.key];
  if (!step || cell.dataset?.cell === undefined || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
  const [name, row, column] = cell.dataset.cell.split(" ");
  // Left and right first move within what is typed.
  if (step[1] < 0 && cell.selectionStart > 0) return;
  if (step[1] > 0 && cell.selectionEnd < cell.value.length) return;
  const next = document.querySelector(`[data-cell="${name} ${Number(row) + step[0]} ${Number(column) + step[1]}"]`);
  if (!next) return;
  event.preventDefault();
  next.focus();
  next.select();
});

document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-copy-address]")) navigator.clipboard.writeText(location.href);
});
