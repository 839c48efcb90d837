// Search of the whole page, and steps from finding to finding.
"use strict";
(() => {
  const { make, show, searches } = gd;
  const MOST = 80;
  const AROUND = 40;
  const PARTS = "h2, h3, h4, p, summary, pre, li, tr, .facts > div";
  const DRAWN = ".timeline, #guard-tree, #graph-view, .filterbar";
  const dialog = document.getElementById("search");
  const field = dialog.querySelector("input");
  const list = dialog.querySelector("ul");
  const status = dialog.querySelector("output");

  /** Show an element and put the focus on it, so that it stands out. */
  const focus = (element) => {
    show(element);
    if (element.tabIndex < 0) element.tabIndex = -1;
    element.focus({ preventScroll: true });
  };

  /** The smallest parts of the page that say something by themselves: [section, text, what shows it]. */
  const parts = () =>
    [...document.querySelectorAll(`main :is(${PARTS})`)]
      .filter((part) => !part.querySelector(PARTS) && !part.closest(DRAWN))
      .map((part) => {
        const heading = part.closest("section")?.querySelector("h2");
        const cells = part.matches(".code tr") ? [...part.querySelectorAll(".n, td.c")] : [...(part.cells ?? [part])];
        const text = cells.map((cell) => cell.textContent.replace(/\s+/g, " ").trim()).filter(Boolean).join(" · ");
        return [heading?.textContent ?? "", text, () => focus(part)];
      });

  const row = ([section, text, act], words) => {
    const at = text.toLowerCase().indexOf(words[0]);
    const from = Math.max(0, at - AROUND);
    const end = at + words[0].length;
    const choose = () => {
      dialog.close();
      act(field.value);
    };
    return make("li", {}, make("button", { attributes: { type: "button" }, on: { click: choose } },
      make("small", { text: section }), `${from ? "…" : ""}${text.slice(from, at)}`,
      make("mark", { text: text.slice(at, end) }), text.slice(end, end + 2 * AROUND)));
  };

  let all = [];
  const search = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? all.filter(([, text]) => words.every((word) => text.toLowerCase().includes(word))) : [];
    list.replaceChildren(...found.slice(0, MOST).map((part) => row(part, words)));
    status.textContent = words.length ? `${found.length} found` : "";
  };
  const start = async () => {
    all = parts();
    dialog.showModal();
    field.select();
    search();
    // What is drawn when it is seen can be found before.
    all.push(...(await Promise.all(searches.map((things) => things()))).flat());
    search();
  };
  field.addEventListener("input", search);
  dialog.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const now = buttons.indexOf(document.activeElement);
    if (event.key === "Enter" && now < 0) buttons[0]?.click();
    else if (event.key === "Escape") dialog.close();
    else if (event.key === "ArrowDown") buttons[now + 1]?.focus();
    else if (event.key === "ArrowUp") (buttons[now - 1] ?? field).focus();
    else return;
    event.preventDefault();
  });
  document.getElementById("find").addEventListener("click", start);

  /** The finding after or before the one in focus, or the one in view. */
  const step = (by) => {
    const cards = [...document.querySelectorAll("main .card:not([hidden])")];
    let now = cards.indexOf(document.activeElement.closest(".card"));
    if (now < 0) {
      const below = cards.findIndex((card) => card.getBoundingClientRect().top > 0);
      now = (below < 0 ? cards.length : below) - (by > 0 ? 1 : 0);
    }
    const card = cards[now + by];
    if (!card) return;
    focus(card);
    if (card.id) history.replaceState(null, "", `#${card.id}`);
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, dialog *")) return;
    if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
    else if (event.key === "/") {
      event.preventDefault();
      start();
    }
  });
})();
