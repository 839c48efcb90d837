// The table of all rows: sorted, filtered, opened; what it shows is in the page's address. Names of dots in the drawing.
"use strict";
(() => {
  const table = document.getElementById("row-table");
  if (!table) return;
  const { data, make } = gd;
  // More rows at once would take seconds to lay out.
  const FIRST = 200;
  const form = document.getElementById("row-filters");
  const status = form.querySelector("output");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const names = heads.map((head) => head.textContent);
  const byId = new Map(rows.map((row) => [row.id, row]));

  /** The rows that are open, each with the one below it that holds its details. */
  const opened = new Map();

  // What a row is filtered by.

  const facts = rows.map(({ dataset }) => ({
    status: [dataset.status, ...(dataset.status === "ok" ? [] : ["not-ok"])],
    variant: [dataset.variant],
    family: dataset.family === undefined ? [] : [dataset.family],
    code: dataset.code === undefined ? ["none"] : dataset.code.split(" "),
    marks: dataset.marks === undefined ? [] : dataset.marks.split(" "),
  }));
  let texts = null;
  /** The text of each row in small letters, made when it is first needed. */
  const textOf = (number) => {
    texts ??= rows.map((row) => `${row.textContent} ${row.dataset.family ?? ""} ${row.dataset.code ?? ""}`.toLowerCase());
    return texts[number];
  };
  const selects = [...form.querySelectorAll("select")];
  const checks = [...form.querySelectorAll("input[type=checkbox]")];
  const search = form.elements.text;
  const labels = new Map(selects.flatMap((one) => [...one.options].map((option) => [option, option.textContent])));

  /** For each filter that is set, whether a row passes it. */
  const asked = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = new Map();
    if (words.length) found.set("text", (number) => words.every((word) => textOf(number).includes(word)));
    for (const { name, value } of selects) if (value) found.set(name, (number) => facts[number][name].includes(value));
    for (const { name, checked } of checks) if (checked) found.set(name, (number) => facts[number].marks.includes(name));
    return found;
  };

  const passing = new Map(rows.map((row) => [row, true]));
  let sequence = rows;
  let limit = FIRST;
  const more = make("button", { attributes: { type: "button" }, className: "more-rows" });
  table.closest(".scroll").after(more);
  const hide = (row, isHidden) => {
    if (row.hidden !== isHidden) row.hidden = isHidden;
    const detail = opened.get(row);
    if (detail) detail.hidden = isHidden;
  };
  /** Show the first rows that pass the filters, and the rest on request. */
  const show = () => {
    let count = 0;
    for (const row of sequence) {
      if (passing.get(row)) count += 1;
      hide(row, !passing.get(row) || count > limit);
    }
    more.hidden = count <= limit;
    more.textContent = `Show all ${count} rows`;
  };
  const showAll = () => {
    limit = Infinity;
    show();
  };
  more.addEventListener("click", showAll);
  // Paper has all rows that pass.
  let limitOnScreen = FIRST;
  addEventListener("beforeprint", () => {
    limitOnScreen = limit;
    showAll();
  });
  addEventListener("afterprint", () => {
    limit = limitOnScreen;
    show();
  });

  const filter = () => {
    const filters = [...asked()];
    const counts = new Map([...selects, ...checks].map(({ name }) => [name, new Map()]));
    const every = new Map(selects.map(({ name }) => [name, 0]));
    let count = 0;
    rows.forEach((row, number) => {
      const failed = filters.filter(([, passes]) => !passes(number)).map(([name]) => name);
      const shows = failed.length === 0;
      count += shows;
      passing.set(row, shows);
      // A choice counts the rows that the other filters leave.
      if (failed.length > 1) return;
      for (const { name } of selects) {
        if (failed.length && failed[0] !== name) continue;
        every.set(name, every.get(name) + 1);
        const found = counts.get(name);
        for (const value of facts[number][name]) found.set(value, (found.get(value) ?? 0) + 1);
      }
      for (const { name } of checks) {
        if (failed.length && failed[0] !== name) continue;
        if (facts[number].marks.includes(name)) counts.get(name).set(name, (counts.get(name).get(name) ?? 0) + 1);
      }
    });
    for (const select of selects) {
      for (const option of select.options) {
        const found = option.value ? (counts.get(select.name).get(option.value) ?? 0) : every.get(select.name);
        option.textContent = `${labels.get(option)} (${found})`;
      }
    }
    for (const check of checks) {
      check.parentElement.querySelector(".count").textContent = counts.get(check.name).get(check.name) ?? 0;
    }
    const all = `${rows.length} row${rows.length === 1 ? "" : "s"}`;
    status.textContent = filters.length ? `${count} of ${all}` : all;
    show();
  };

  // Order.

  let order = null;
  const keys = new Map();
  const keysOf = (column) => {
    if (!keys.has(column)) {
      keys.set(column, new Map(rows.map((row) => {
        const cell = row.cells[column];
        const text = cell.dataset.v ?? cell.textContent;
        const number = text === "" ? NaN : Number(text);
        return [row, { text, number, empty: text === "" }];
      })));
    }
    return keys.get(column);
  };
  const sort = (column, way) => {
    for (const head of heads) head.removeAttribute("aria-sort");
    order = column < 0 ? null : { column, way };
    sequence = rows;
    if (order) {
      heads[column].setAttribute("aria-sort", way);
      const found = keysOf(column);
      const sign = way === "ascending" ? 1 : -1;
      const { compare } = new Intl.Collator("en", { numeric: true });
      sequence = [...rows].sort((one, other) => {
        const [a, b] = [found.get(one), found.get(other)];
        // Unknown values come last either way.
        if (a.empty || b.empty) return a.empty - b.empty;
        if (Number.isNaN(a.number) || Number.isNaN(b.number)) return sign * compare(a.text, b.text);
        return sign * (a.number - b.number);
      });
    }
    show();
    const all = document.createDocumentFragment();
    for (const row of sequence) {
      all.append(row);
      if (opened.has(row)) all.append(opened.get(row));
    }
    body.append(all);
  };
  heads.forEach((head, column) => {
    const text = head.textContent;
    head.replaceChildren(make("button", {
      text,
      attributes: { type: "button" },
      on: {
        click: () => {
          const isNumber = rows.some((row) => row.cells[column].dataset.v && !row.cells[column].classList.contains("text"));
          const first = isNumber ? "descending" : "ascending";
          const next = first === "descending" ? "ascending" : "descending";
          const now = head.getAttribute("aria-sort");
          sort(now === next ? -1 : column, now === first ? next : first);
          keep();
        },
      },
    }));
  });

  // The address.

  let waiting = 0;
  /** Put what the table shows into the page's address, so that it can be sent. */
  const keep = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const state = new URLSearchParams();
      if (search.value.trim()) state.set("text", search.value.trim());
      for (const { name, value } of selects) if (value) state.set(name, value);
      for (const { name, checked } of checks) if (checked) state.set(name, "1");
      if (order) state.set("sort", names[order.column]);
      if (order?.way === "ascending") state.set("way", "ascending");
      const text = state.toString();
      try {
        history.replaceState(null, "", text ? `#rows?${text}` : "#rows");
      } catch {
        // A sandboxed frame has no address of its own.
      }
    }, 150);
  };
  /** Show what an address asks for. */
  const obey = (text) => {
    const state = new URLSearchParams(text);
    search.value = state.get("text") ?? "";
    for (const select of selects) {
      select.value = state.get(select.name) ?? "";
      if (select.selectedIndex < 0) select.value = "";
    }
    for (const check of checks) check.checked = state.has(check.name);
    filter();
    const column = names.indexOf(state.get("sort"));
    const way = state.get("way") === "ascending" ? "ascending" : "descending";
    if (column !== (order?.column ?? -1) || way !== (order?.way ?? way)) sort(column, way);
  };
  const follow = () => {
    const hash = location.hash.slice(1);
    if (hash.startsWith("rows?")) {
      obey(hash.slice(5));
      document.getElementById("rows").scrollIntoView();
      return;
    }
    const row = byId.get(hash);
    if (!row) return;
    if (!passing.get(row)) obey("");
    if (row.hidden) showAll();
    open(row);
    gd.reveal();
  };
  form.addEventListener("input", () => {
    filter();
    keep();
  });
  form.addEventListener("reset", () => setTimeout(() => {
    obey("");
    keep();
  }));
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#row']");
    if (link && link.hash === location.hash) follow();
  });

  // Details.

  const buttons = new Map();
  for (const row of rows) {
    const head = row.cells[0];
    const button = document.createElement("button");
    button.type = "button";
    button.className = "opens";
    button.setAttribute("aria-expanded", "false");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    buttons.set(row, button);
  }
  body.addEventListener("click", (event) => {
    const row = event.target.closest("button.opens")?.closest("tr");
    if (!row) return;
    if (opened.has(row)) close(row);
    else open(row);
  });
  const close = (row) => {
    opened.get(row).remove();
    opened.delete(row);
    buttons.get(row).setAttribute("aria-expanded", "false");
    buttons.get(row).removeAttribute("aria-controls");
  };
  const open = async (row) => {
    if (opened.has(row)) return;
    const cell = make("td", { attributes: { colspan: String(heads.length) } });
    const detail = make("tr", { className: "row-detail", attributes: { id: `detail-${row.id}` } }, cell);
    opened.set(row, detail);
    row.after(detail);
    buttons.get(row).setAttribute("aria-expanded", "true");
    buttons.get(row).setAttribute("aria-controls", detail.id);
    const found = await data("rows");
    cell.append(drawn(row, found.rows[row.id], (number) => found.texts[number]));
  };

  const copying = (text) => {
    const button = make("button", { text: "Copy", className: "copy", attributes: { type: "button" } });
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(`${text}\n`);
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select it by hand";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    return button;
  };
  const block = (text, name) =>
    make("pre", { text, attributes: { tabindex: "0", role: "region", "aria-label": name } });
  const folded = (title, ...children) => make("details", {}, make("summary", { text: title }), ...children);
  const edit = (text, name) => {
    const shown = make("pre", { className: "edit", attributes: { tabindex: "0", role: "region", "aria-label": name } });
    for (const line of text.split("\n")) {
      const kind = { "+": "come", "-": "gone", "@": "hunk" }[line[0]] ?? "same";
      shown.append(make("span", { text: `${line}\n`, className: kind }));
    }
    return shown;
  };
  /** Text with code between backticks. */
  const ticked = (element, text) => {
    const parts = text.split("`");
    if (parts.length % 2 === 0) element.append(text);
    else parts.forEach((part, number) => element.append(number % 2 ? make("code", { text: part }) : part));
    return element;
  };
  const caused = (cause, text, name) => {
    const severity = text(cause.severity);
    const title = make("h4", {}, make("span", { text: severity, className: "severity" }), " ");
    title.append(make("span", { text: text(cause.code), className: "code", attributes: { title: text(cause.rule) } }), " ");
    const card = make("div", { className: `card sev-${severity}` }, ticked(title, text(cause.message)));
    const where = make("p", {}, make("span", { text: text(cause.place), className: "place" }), " in ");
    where.append(make("code", { text: text(cause.function) }));
    if (cause.package !== undefined) where.append(" ", make("span", { text: text(cause.package), className: "package" }));
    if (cause.costs !== undefined) where.append(make("span", { text: ` · ${text(cause.costs)}`, className: "dim" }));
    card.append(where);
    if (cause.text !== undefined) {
      const line = make("pre", { className: "line", attributes: { tabindex: "0", role: "region", "aria-label": `Line of ${name}` } });
      line.append(make("span", { text: String(cause.line), className: "n" }), ` ${text(cause.text)}`);
      card.append(line);
    }
    if (cause.fix !== undefined) {
      const verdict = cause.fix_verdict === undefined ? "not tried" : text(cause.fix_verdict);
      const badge = make("span", {
        text: verdict === "not tried" ? "suggested, not tried" : verdict,
        className: `verdict v-${verdict.replaceAll(" ", "-")}`,
      });
      card.append(ticked(make("p", { className: "fix-title" }, badge, " "), text(cause.fix)));
    }
    if (cause.diff !== undefined) card.append(folded("Edit", edit(text(cause.diff), `Edit of ${name}`)));
    return card;
  };
  const drawn = (row, detail, text) => {
    const name = buttons.get(row).textContent;
    const box = make("div", { className: "detail" });
    if (!detail) return box;
    if (detail.error !== undefined) box.append(make("p", { text: text(detail.error), className: "words error" }));
    if (detail.traceback !== undefined) {
      box.append(folded("Traceback", block(text(detail.traceback), `Traceback of ${name}`)));
    }
    (detail.causes ?? []).forEach((cause, number) => box.append(caused(cause, text, `finding ${number + 1} of ${name}`)));
    if (detail.more !== undefined) box.append(make("p", { text: text(detail.more), className: "dim" }));
    const facts = make("dl", { className: "all-facts" });
    for (const [label, value] of detail.facts) {
      facts.append(make("div", {}, make("dt", { text: text(label) }), make("dd", { text: text(value) })));
    }
    box.append(facts);
    if (detail.gaps) {
      box.append(make("p", { text: "Not measured:", className: "dim" }));
      box.append(make("ul", {}, ...detail.gaps.map((gap) => make("li", { text: text(gap) }))));
    }
    if (detail.command !== undefined) {
      const command = text(detail.command);
      box.append(make("p", { text: "To run it alone: ", className: "dim" }, copying(command)), block(command, `Command of ${name}`));
    }
    const links = make("p", {});
    const page = row.querySelector("td a[href]");
    if (page) links.append(make("a", { text: "Its own page", attributes: { href: page.getAttribute("href") } }), " · ");
    links.append(make("a", { text: "Link to this row", attributes: { href: `#${row.id}` } }));
    box.append(links);
    return box;
  };
  filter();
  if (location.hash.length > 1) addEventListener("DOMContentLoaded", follow);
})();
