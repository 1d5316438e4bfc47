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

// Forms that a telephone has no room for are closed there at first.
window.openIfWide = () => setTimeout(() => { // once they are drawn
  for (const one of document.querySelectorAll("details.open-if-wide")) one.open = innerWidth > 960;
});

// The server says which cells hold no number.
window.markCell = (place, wrong) => {
  const cell = document.querySelector(`[data-cell="${place}"]`);
  if (wrong) cell?.setAttribute("aria-invalid", "true");
  else cell?.removeAttribute("aria-invalid");
};

// A studio that ends leaves its pages behind. One that was started again has another key: they say so, and how to come
// back. Once the new address was opened anywhere in this browser, the connection stands again and the page is reloaded.
const ABSENCES = {
  0: "The studio has ended, and this page shows its last state. Start it again with `attnlab studio`.",
  401: "The studio was restarted, and this page shows the state before. Open the new address that `attnlab studio` "
    + "printed; this page then continues by itself.",
};

async function statusOfStudio() {
  try {
    return (await fetch("/static/icon.svg", { cache: "no-store" })).status;
  } catch {
    return 0;
  }
}

async function lookForStudio() {
  const lost = window.did_handshake && window.socket && !window.socket.connected;
  const words = lost ? ABSENCES[await statusOfStudio()] ?? "" : "";
  let notice = document.getElementById("absence");
  if (!notice && words) {
    notice = document.body.appendChild(Object.assign(document.createElement("p"), { id: "absence" }));
    notice.setAttribute("role", "alert");
  }
  if (notice && notice.textContent !== words) notice.textContent = words;
  document.body.classList.toggle("stale", Boolean(words));
}

setInterval(lookForStudio, 2000);

document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-copy-address]")) navigator.clipboard.writeText(location.href);
});
