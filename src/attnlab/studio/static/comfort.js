// Comfort on every page: light, dark or as the system says; density; keyboard shortcuts; and a sheet that names them.
"use strict";

(() => {
const CHOICES = { theme: ["system", "light", "dark"], density: ["comfortable", "compact"] };
const PLACES = { h: "/", a: "/seen", p: "/playground", c: "/compare", s: "/scale", m: "/heads", k: "/cost", q: "/ask", e: "/exhibits" };
const darkSystem = matchMedia("(prefers-color-scheme: dark)");

function chosen(name) {
  const kept = localStorage.getItem(`attnlab-${name}`);
  return CHOICES[name].includes(kept) ? kept : CHOICES[name][0];
}

// The theme as it is shown stands on the root element, where the style sheet finds it.
function applyChoices() {
  const theme = chosen("theme"), root = document.documentElement;
  root.dataset.theme = theme === "system" ? (darkSystem.matches ? "dark" : "light") : theme;
  root.dataset.density = chosen("density");
  document.dispatchEvent(new CustomEvent("studio-theme"));
}

function choose(name, value) {
  localStorage.setItem(`attnlab-${name}`, value);
  applyChoices();
}

applyChoices(); // before anything is painted
darkSystem.addEventListener("change", applyChoices);

// The sheet

function choiceOf(name) {
  const options = CHOICES[name].map((value) => `<option${value === chosen(name) ? " selected" : ""}>${value}</option>`);
  return `<label class="field"><span class="label">${name}</span><select data-choice="${name}">${options.join("")}</select></label>`;
}

const KEYS = [
  ["?", "this sheet"], ["x", "save pictures and tables of this page"], ["/", "search"], ["t", "light or dark"],
  ["g h", "home"], ["g a", "attention"], ["g p", "playground"], ["g c", "compare"], ["g s", "scale"], ["g m", "heads (maps)"],
  ["g k", "cost"], ["g q", "ask"], ["g e", "exhibits"], ["n", "next token (attention)"], ["u", "undo (attention)"],
  ["arrow keys", "walk through the cells of a matrix, or through the heads"],
];

// Opens a sheet over the page; the browser closes it with Escape, and the focus returns.
window.openSheet = (title, html) => {
  document.getElementById("sheet")?.remove();
  const sheet = document.createElement("dialog");
  sheet.id = "sheet";
  sheet.setAttribute("aria-labelledby", "sheet-title");
  sheet.innerHTML = `<h2 id="sheet-title">${title}</h2>${html}<form method="dialog"><button class="main">Close</button></form>`;
  document.body.append(sheet);
  sheet.addEventListener("close", () => sheet.remove());
  sheet.showModal();
  return sheet;
};

function openHelp() {
  const rows = KEYS.map(([key, words]) => `<dt><kbd>${key}</kbd></dt><dd>${words}</dd>`).join("");
  const asks = window.Notification?.permission === "default";
  const notify = asks ? '<p><button type="button" data-notify>Notify me when a verdict falls</button></p>' : "";
  const choices = `<div class="fields">${choiceOf("theme")}${choiceOf("density")}</div>`;
  const sheet = openSheet("Comfort and shortcuts", `${choices}${notify}<dl>${rows}</dl>`);
  sheet.querySelector("[data-notify]")?.addEventListener("click", () => Notification.requestPermission());
  sheet.addEventListener("change", (event) => choose(event.target.dataset.choice, event.target.value));
}

// When a verdict falls, the title of the tab says so, and the system too if it may.
window.tellVerdict = (title, verdict) => {
  document.title = `\u2713 ${document.title}`;
  if (window.Notification?.permission === "granted") new Notification(title, { body: verdict });
};

// Shortcuts

const press = (words) => [...document.querySelectorAll("main button")].find((one) => one.textContent.trim() === words)?.click();
const typing = (target) => target.closest?.("input, textarea, select, [contenteditable], dialog") !== null;
let going = false; // after g

function act(key) {
  if (going) {
    going = false;
    if (PLACES[key]) location.assign(PLACES[key]);
    return Boolean(PLACES[key]);
  }
  const acts = {
    "?": openHelp,
    x: () => openExports(),
    t: () => choose("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
    "/": () => [...document.querySelectorAll("main label.field")]
      .find((one) => one.querySelector(".label")?.textContent === "search")?.querySelector("input")?.focus(),
    n: () => press("Next token"),
    u: () => press("Undo"),
    g: () => { going = true; setTimeout(() => { going = false; }, 1500); },
  };
  acts[key]?.();
  return key in acts;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || typing(event.target)) return;
  if (act(event.key)) event.preventDefault();
});

document.addEventListener("click", (event) => {
  if (event.target.closest?.("[data-open-help]")) openHelp();
  if (event.target.closest?.("[data-open-exports]")) openExports();
});
})();
