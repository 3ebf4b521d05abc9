// SPDX-License-Identifier: Apache-2.0 OR MIT
// Reads values under the pointer or the arrow keys, and shows and hides curves.
(() => {
  "use strict";
  const tip = document.getElementById("tip");
  const all = (root, query) => [...root.querySelectorAll(query)];

  for (const button of all(document, "button[data-toggle]")) {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      const kind = button.dataset.toggle;
      const found = all(button.closest("section"), `.plots [data-${kind}]`);
      for (const part of found) {
        if (part.dataset[kind] === button.dataset[kind]) part.classList.toggle(`off-${kind}`, !shown);
      }
      hide();
    });
  }

  let open = null;

  function hide() {
    if (!open) return;
    open.hair.classList.remove("on");
    for (const mark of all(open.svg, ".hot")) mark.classList.remove("hot");
    tip.hidden = true;
    open = null;
  }

  function keyOf(group, section) {
    const key = group.dataset.key
      ? document.getElementById(group.dataset.key)
      : section.querySelector(`.legend .key[data-c="${group.dataset.c}"]`);
    if (!key) return document.createElement("span");
    const copy = key.cloneNode(true);
    copy.removeAttribute("id");
    if (group.dataset.w) {
      copy.classList.remove("live", "sim");
      copy.classList.add(group.dataset.w);
    }
    return copy;
  }

  function element(name, text, className) {
    const made = document.createElement(name);
    made.textContent = text;
    if (className) made.className = className;
    return made;
  }

  function show(plot, column) {
    hide();
    open = plot;
    plot.column = column;
    const marks = all(plot.svg, `[data-k="${column}"]`)
      .filter((mark) => !mark.closest(".off-c, .off-w"))
      .sort((a, b) => a.dataset.y - b.dataset.y);
    const rows = marks.map((mark) => {
      mark.classList.add("hot");
      const row = document.createElement("tr");
      const name = element("th", mark.parentNode.dataset.name);
      name.scope = "row";
      name.prepend(keyOf(mark.parentNode, plot.section));
      row.append(name, element("td", mark.dataset.v));
      return row;
    });
    const table = document.createElement("table");
    table.append(...rows);
    tip.replaceChildren(element("p", plot.heads[column]), rows.length ? table : element("p", "no value"));
    const x = plot.xs[column];
    plot.hair.setAttribute("x1", x);
    plot.hair.setAttribute("x2", x);
    plot.hair.classList.add("on");
    tip.hidden = false;
    place(plot, x);
  }

  // Beside the column, on the side with room, and never outside the window.
  function place(plot, x) {
    const box = plot.svg.getBoundingClientRect();
    const at = box.left + (x / plot.svg.viewBox.baseVal.width) * box.width;
    const width = document.documentElement.clientWidth;
    const right = at + 14;
    let left = right + tip.offsetWidth > width - 6 ? at - 14 - tip.offsetWidth : right;
    left = Math.max(6, Math.min(left, width - 6 - tip.offsetWidth));
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${box.top + window.scrollY + 6}px`;
  }

  for (const holder of all(document, ".plot")) {
    const svg = holder.querySelector("svg");
    const plot = {
      svg,
      hair: svg.querySelector(".hair"),
      section: holder.closest("section"),
      xs: JSON.parse(svg.dataset.xs),
      heads: JSON.parse(svg.dataset.heads),
      column: 0,
    };
    const last = plot.xs.length - 1;
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
      const away = plot.xs.map((column) => Math.abs(column - x));
      return away.indexOf(Math.min(...away));
    };
    const point = (event) => {
      const column = nearest(event);
      if (open !== plot || plot.column !== column) show(plot, column);
    };
    holder.addEventListener("pointermove", point);
    holder.addEventListener("pointerdown", point);
    holder.addEventListener("pointerleave", hide);
    holder.addEventListener("focus", () => {
      if (holder.matches(":focus-visible")) show(plot, plot.column);
    });
    holder.addEventListener("blur", hide);
    holder.addEventListener("keydown", (event) => {
      const to = {
        ArrowLeft: Math.max(0, plot.column - 1),
        ArrowRight: Math.min(last, plot.column + 1),
        Home: 0,
        End: last,
      }[event.key];
      if (event.key === "Escape") hide();
      if (to === undefined) return;
      event.preventDefault();
      show(plot, to);
    });
  }

  window.addEventListener("resize", hide);
  window.addEventListener("beforeprint", hide);
})();
