// A button behind each figure saves it as SVG, and one behind each table as CSV.
const counted = {};
function save(made, kind, add, make) {
  const heading = made.closest("section")?.querySelector("h2")?.textContent ?? document.title;
  const slug = heading.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");
  const what = { svg: "figure", csv: "table" }[kind];
  const number = counted[slug + what] = (counted[slug + what] ?? 0) + 1;
  const button = Object.assign(document.createElement("button"), { type: "button", className: "save" });
  button.textContent = `Save as ${kind.toUpperCase()}`;
  button.setAttribute("aria-label", `Save ${what} ${number} of ${heading} as ${kind.toUpperCase()}`);
  button.addEventListener("click", async () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await make());
    link.download = `${slug}-${what}-${number}.${kind}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
  add(button);
}
for (const plot of document.querySelectorAll(".js-plotly-plot")) {
  save(plot, "svg", (button) => plot.closest("figure").append(button), async () => {
    const layout = { ...plot.layout, font: { ...plot.layout.template.layout.font, color: "#1c2128" } };
    const size = { width: plot.clientWidth, height: plot.clientHeight };
    const url = await Plotly.toImage({ data: plot.data, layout }, { format: "svg", ...size });
    return new Blob([decodeURIComponent(url.slice(url.indexOf(",") + 1))], { type: "image/svg+xml" });
  });
}
for (const table of document.querySelectorAll(".wide > table")) {
  save(table, "csv", (button) => table.parentElement.after(button), () => {
    const quoted = (cell) => `"${cell.innerText.trim().replace(/\s+/g, " ").replaceAll('"', '""')}"`;
    const lines = [...table.rows].map((row) => [...row.cells].map(quoted).join(","));
    return new Blob([lines.join("\n") + "\n"], { type: "text/csv" });
  });
}
