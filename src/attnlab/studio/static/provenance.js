// Pointing at a number of the playground lights up the numbers that it was made of: X → Q, K → S → P → O.

const numbers = (row) => [...row.querySelectorAll("td")];
const cellsOf = (name, test) => [...document.querySelectorAll(`[data-cell^="${name} "]`)]
  .filter((cell) => test(...cell.dataset.cell.split(" ").slice(1).map(Number)))
  .map((cell) => cell.closest("td"));

// One head's tables stand in one place; a row or a column of one of them.
const tableOf = (flow, name) => flow.querySelector(`[data-result=${name}] tbody`);
const rowOf = (flow, name, place) => {
  const table = tableOf(flow, name);
  return table ? numbers(table.rows[place]) : [];
};
const columnOf = (flow, name, place) => {
  const table = tableOf(flow, name);
  return table ? [...table.rows].map((row) => numbers(row)[place]) : [];
};

// A projected vector: a row of X times a column of the projection, which the heads share out among them.
const projected = (name) => (flow, row, column, offset) => [
  ...cellsOf("x", (one) => one === row),
  ...cellsOf(name, (_, other) => other === offset + column),
];

const SOURCES = {
  query: projected("query"),
  key: projected("key"),
  value: projected("value"),
  scores: (flow, row, column) => [...rowOf(flow, "query", row), ...rowOf(flow, "key", column)],
  weights: (flow, row) => rowOf(flow, "scores", row),
  output: (flow, row, column) => [...rowOf(flow, "weights", row), ...columnOf(flow, "value", column)],
};

function clear() {
  for (const cell of document.querySelectorAll(".source, .made")) cell.classList.remove("source", "made");
}

document.addEventListener("pointerover", (event) => {
  const cell = event.target.closest?.("[data-result] tbody td"), table = cell?.closest("[data-result]");
  clear();
  if (!table) return;
  const line = cell.parentElement, flow = table.closest(".flow");
  const row = [...line.parentElement.rows].indexOf(line), column = numbers(line).indexOf(cell);
  cell.classList.add("made");
  const found = SOURCES[table.dataset.result](flow, row, column, Number(table.dataset.offset));
  for (const one of found) one?.classList.add("source");
});
