/* A table that scrolls can be reached with the keyboard. Material wraps tables when a page has loaded. */
window.addEventListener("load", () => {
  for (const wrap of document.querySelectorAll(".md-typeset__scrollwrap")) wrap.tabIndex = 0;
});
