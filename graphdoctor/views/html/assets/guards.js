// The guards of one compile as a tree of the values they check.
"use strict";
(() => {
  const { data, make, duration, place, whenSeen, searches } = gd;
  const box = document.getElementById("guard-tree");
  if (!box) return;
  const ROWS = 400;

  const table = (guards) => {
    const body = make("tbody");
    for (const { kind, expression, expected, guard: text, location, hint } of guards.slice(0, ROWS)) {
      const cell = make("td", {}, make("code", { text: expression }));
      if (expected !== null) cell.append(` is ${expected}`);
      if (hint) cell.append(make("div", { className: "dim", text: hint }));
      body.append(make("tr", { attributes: { title: text } }, make("td", { text: kind ?? "", className: "dim mono" }), cell,
        make("td", {}, location ? place(location.file, location.line) : "")));
    }
    const shown = make("table", {}, body);
    if (guards.length <= ROWS) return [shown];
    return [shown, make("p", { className: "dim", text: `and ${guards.length - ROWS} more; use the filter to find them` })];
  };

  /** A part with everything inside; parts are filled when they are opened. */
  const branch = (part, isOpen, wanted) => {
    const summary = make("summary", {}, make("code", { text: part.label }));
    if (part.times > 1) summary.append(` ×${part.times}`);
    const count = size(part) * part.times;
    summary.append(make("span", { className: "dim", text: ` ${count} guard${count === 1 ? "" : "s"}` }));
    // Of folded parts, what all cost together, if each was measured.
    const isMeasured = part.costs_us.length === part.times && !part.costs_us.includes(null);
    if (isMeasured) summary.append(make("span", { className: "us", text: ` ${duration(part.costs_us.reduce((sum, us) => sum + us))}` }));
    const details = make("details", { className: "part" }, summary);
    let isFilled = false;
    const fill = () => {
      if (isFilled) return;
      isFilled = true;
      const guards = wanted ? part.guards.filter(wanted) : part.guards;
      if (guards.length) details.append(...table(guards));
      for (const inner of part.parts) if (!wanted || holds(inner, wanted)) details.append(branch(inner, Boolean(wanted), wanted));
    };
    details.addEventListener("toggle", fill);
    if (isOpen) {
      fill();
      details.open = true;
    }
    return details;
  };
  const size = (part) => part.guards.length + part.parts.reduce((sum, inner) => sum + size(inner) * inner.times, 0);
  const holds = (part, wanted) => part.guards.some(wanted) || part.parts.some((inner) => holds(inner, wanted));
  const tally = (part, wanted) =>
    part.guards.filter(wanted).length + part.parts.reduce((sum, inner) => sum + tally(inner, wanted), 0);

  let sets = [];
  let chosen = 0;
  const select = make("select", { attributes: { "aria-label": "Compile" } });
  const filter = make("input", { attributes: { type: "search", placeholder: "value, kind or text", "aria-label": "Filter guards" } });
  const status = make("output");
  const tree = make("div");
  const show = () => {
    const found = sets[chosen];
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = words.length
      ? (guard) => {
          const text = `${guard.kind ?? ""} ${guard.expression} ${guard.expected ?? ""} ${guard.guard}`.toLowerCase();
          return words.every((word) => text.includes(word));
        }
      : null;
    const parts = wanted ? found.parts.filter((part) => holds(part, wanted)) : found.parts;
    tree.replaceChildren(...parts.map((part) => branch(part, Boolean(wanted), wanted)));
    const count = wanted ? found.parts.reduce((sum, part) => sum + tally(part, wanted), 0) : null;
    status.textContent = wanted ? `${count} found` : `${found.count} guards`;
  };
  const choose = (id) => {
    chosen = Math.max(0, sets.findIndex((found) => found.id === id));
    select.value = String(chosen);
    show();
  };

  let started;
  const start = () => {
    started ??= (async () => {
      sets = await data("guards");
      if (!sets.length) return;
      sets.forEach((found, number) => select.append(make("option", { text: `${found.id}: ${found.count} guards`, attributes: { value: number } })));
      const bar = make("div", { className: "filterbar" }, make("label", {}, "Compile ", select), make("label", {}, "Filter ", filter), status);
      box.replaceChildren(bar, tree);
      show();
    })();
    return started;
  };
  const leaves = (part) => [...part.guards, ...part.parts.flatMap(leaves)];
  searches.push(async () => {
    await start();
    return sets.flatMap(({ id, parts }) => parts.flatMap(leaves).map(({ kind, expression, expected }) => {
      const text = `${id} ${kind ?? ""} ${expression}${expected === null ? "" : ` is ${expected}`}`;
      return ["Guards", text, () => {
        filter.value = `${kind ?? ""} ${expression}`;
        choose(id);
        box.scrollIntoView({ block: "start" });
        filter.focus({ preventScroll: true });
      }];
    }));
  });
  let waiting;
  filter.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(show, 120);
  });
  select.addEventListener("change", () => {
    chosen = Number(select.value);
    show();
  });
  document.addEventListener("click", async (event) => {
    const link = event.target.closest?.("[data-guards]");
    if (!link) return;
    event.preventDefault();
    await start();
    choose(link.dataset.guards);
    box.scrollIntoView({ block: "start" });
    select.focus({ preventScroll: true });
  });
  whenSeen(box, start);
})();
