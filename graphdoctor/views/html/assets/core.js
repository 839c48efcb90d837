// What every section uses: data, elements, theme, filters, tables, links to lines and graphs.
"use strict";
const gd = (() => {
  const blobs = {};
  /** What a search of the page finds in drawings, from those who draw: each gives [section, text, what shows it]. */
  const searches = [];

  /** The data with a name: base64 of gzip of JSON, decoded once, on first use. */
  const data = (name) => {
    blobs[name] ??= (async () => {
      const text = document.getElementById(`data-${name}`).textContent.trim();
      const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      return new Response(stream).json();
    })();
    return blobs[name];
  };

  /** An element; text from outside is only ever set as text. */
  const make = (tag, options = {}, ...children) => {
    const { text, className, attributes = {}, on = {} } = options;
    const svg = ["svg", "g", "rect", "path", "text", "title", "defs", "marker"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    if (className) element.setAttribute("class", className);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    for (const [name, handler] of Object.entries(on)) element.addEventListener(name, handler);
    element.append(...children);
    return element;
  };

  const duration = (us) => {
    if (us < 1000) return `${us < 10 ? us.toFixed(1) : us.toFixed(0)} µs`;
    return us < 1e6 ? `${(us / 1000).toFixed(2)} ms` : `${(us / 1e6).toFixed(2)} s`;
  };

  let files;
  /** The id of a line of the annotated source, which no element has if the page doesn't have the line. */
  const anchor = (file, line) => {
    files ??= new Map([...document.querySelectorAll("details.file")].map((box) => [box.dataset.file, box.id]));
    return `${files.get(file)}-L${line}`;
  };
  const baseName = (file) => file.split(/[/\\]/).at(-1);

  /** A link to a line of the annotated source, or plain text if the page doesn't have the line. */
  const place = (file, line) => {
    if (!file || line === null) return document.createTextNode("");
    const text = `${baseName(file)}:${line}`;
    const id = anchor(file, line);
    if (!document.getElementById(id)) return make("span", { text, className: "place" });
    return make("a", { text, className: "place", attributes: { href: `#${id}` } });
  };

  /** Run once when an element comes near the screen, or right away if the browser can't observe that. */
  const whenSeen = (element, start) => {
    if (!("IntersectionObserver" in window)) return void start();
    const observer = new IntersectionObserver(
      (entries) => {
        if (!entries.some((entry) => entry.isIntersecting)) return;
        observer.disconnect();
        start();
      },
      { rootMargin: "300px" },
    );
    observer.observe(element);
  };

  const themes = ["system", "light", "dark"];
  const setTheme = (theme) => {
    const root = document.documentElement;
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    try {
      localStorage.setItem("graphdoctor-theme", theme);
    } catch {
      // A sandboxed frame has no storage.
    }
    showTheme();
    document.dispatchEvent(new Event("gd-theme"));
  };
  const showTheme = () => {
    const button = document.getElementById("theme");
    if (!button) return;
    const label = `Theme: ${document.documentElement.dataset.theme ?? "system"}`;
    button.setAttribute("aria-label", label);
    button.title = label;
  };
  document.getElementById("theme")?.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "system";
    setTheme(themes[(themes.indexOf(now) + 1) % themes.length]);
  });
  showTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.dispatchEvent(new Event("gd-theme"));
  });

  // Filters: hide what doesn't contain every word.
  for (const input of document.querySelectorAll("input[data-filters]")) {
    const items = [...document.querySelectorAll(input.dataset.filters)];
    const status = input.closest(".filterbar").querySelector("output");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const item of items) {
        const text = item.textContent.toLowerCase();
        item.hidden = !words.every((word) => text.includes(word));
        count += !item.hidden;
      }
      status.textContent = words.length ? `${count} of ${items.length}` : "";
      if (words.length) for (const item of items) if (!item.hidden) item.closest("details")?.setAttribute("open", "");
    });
  }

  /** Show the first rows, and the rest on request. */
  const page = (table) => {
    const size = Number(table.dataset.page);
    const rows = [...table.tBodies[0].rows];
    if (rows.length <= size) return;
    const hide = () => [...table.tBodies[0].rows].forEach((row, number) => (row.hidden = number >= size));
    hide();
    table.addEventListener("gd-sorted", hide);
    const more = make("button", {
      text: `Show all ${rows.length} rows`,
      attributes: { type: "button" },
      on: {
        click: () => {
          table.removeEventListener("gd-sorted", hide);
          for (const row of rows) row.hidden = false;
          more.remove();
        },
      },
    });
    table.gdShowAll = () => more.click();
    table.closest(".scroll").after(more);
  };
  const sortable = (table) => {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = make("button", { text: cell.textContent, attributes: { type: "button" } });
      cell.replaceChildren(button);
      button.addEventListener("click", () => {
        const way = cell.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        cell.setAttribute("aria-sort", way);
        const value = (row) => {
          const text = row.cells[column]?.dataset.v ?? row.cells[column]?.textContent ?? "";
          return text === "unknown" ? "" : text;
        };
        const sign = way === "ascending" ? 1 : -1;
        const rows = [...table.tBodies[0].rows].map((row) => [value(row), row]);
        rows.sort(([a], [b]) => {
          // Unknown values come last either way.
          if (a === "" || b === "") return (a === "") - (b === "");
          const [x, y] = [Number(a), Number(b)];
          return sign * (Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y);
        });
        table.tBodies[0].append(...rows.map(([, row]) => row));
        table.dispatchEvent(new Event("gd-sorted"));
      });
    });
  };
  // On a narrow screen each row is a block, and each value needs its heading beside it.
  for (const table of document.querySelectorAll("table.numbers")) {
    const headings = [...(table.tHead?.rows[0].cells ?? [])].map((cell) => cell.textContent);
    for (const row of table.tBodies[0]?.rows ?? []) {
      [...row.cells].forEach((cell, column) => headings[column] && (cell.dataset.label = headings[column]));
    }
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    sortable(table);
    page(table);
  }

  /** Select the text of an element, for a page that may not write to the clipboard. */
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copies);
      try {
        await navigator.clipboard.writeText(source.textContent.replace(/\n$/, "") + "\n");
        button.textContent = "Copied";
      } catch {
        for (let outer = source.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
        select(source);
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }

  // A graph under the pointer or in focus highlights its lines in every file.
  const light = (index) => {
    for (const lit of document.querySelectorAll(".code tr.lit, .chip.lit")) lit.classList.remove("lit");
    if (index === undefined) return;
    const word = CSS.escape(index);
    for (const row of document.querySelectorAll(`.code tr[data-g~="${word}"], .chip[data-graph="${word}"]`)) {
      row.classList.add("lit");
    }
  };
  for (const [begin, end] of [["mouseover", "mouseout"], ["focusin", "focusout"]]) {
    document.addEventListener(begin, (event) => {
      const chip = event.target.closest?.("[data-graph]");
      if (chip && !chip.matches("tr")) light(chip.dataset.graph);
    });
    document.addEventListener(end, (event) => {
      const chip = event.target.closest?.("[data-graph]");
      if (chip && !chip.matches("tr")) light(undefined);
    });
  }

  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (target) show(target);
  };
  /** Open and unhide an element, and scroll there. */
  const show = (target) => {
    if (target.closest("[hidden]")) {
      target.closest("table")?.gdShowAll?.();
      for (const input of document.querySelectorAll("input[data-filters]")) {
        if (!input.value || !target.closest(input.dataset.filters)) continue;
        input.value = "";
        input.dispatchEvent(new Event("input"));
      }
    }
    for (let outer = target.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
    const fold = target.closest("tbody.folded")?.previousElementSibling.querySelector("input");
    if (fold) fold.checked = true;
    const block = target.matches("tr, li, article") ? "center" : "start";
    bring(target, block);
    stay(target, block);
  };
  /** Scroll to a target; around a table that scrolls by itself, its head stays in view too. */
  const bring = (target, block, behavior = "auto") => {
    target.scrollIntoView({ block, behavior });
    target.closest(".row-box")?.scrollIntoView({ block: "nearest", behavior });
  };
  /** Keep a target where it is while drawings above it load, until the reader moves on. */
  const stay = (target, block) => {
    if (!("ResizeObserver" in window)) return;
    const moves = ["wheel", "touchstart", "keydown", "pointerdown"];
    const observer = new ResizeObserver(() => bring(target, block, "instant"));
    const end = () => {
      observer.disconnect();
      for (const move of moves) removeEventListener(move, end);
    };
    // Not before the scrolling that just began is over, which lasts less than a second.
    setTimeout(() => observer.observe(document.body), 50);
    setTimeout(end, 3000);
    for (const move of moves) addEventListener(move, end, { passive: true });
  };
  addEventListener("hashchange", reveal);
  // A link to where the page is already changes no address.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.hash === location.hash) reveal();
  });

  // The section in view is the current one.
  const links = new Map([...document.querySelectorAll(".sections a")].map((link) => [link.hash.slice(1), link]));
  if ("IntersectionObserver" in window) {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries) {
          if (!entry.isIntersecting) continue;
          for (const link of links.values()) link.removeAttribute("aria-current");
          links.get(entry.target.id)?.setAttribute("aria-current", "true");
        }
      },
      { rootMargin: "-20% 0px -70% 0px" },
    );
    for (const id of links.keys()) {
      const section = document.getElementById(id);
      if (section) seen.observe(section);
    }
  }

  const keys = document.getElementById("keys");
  addEventListener("keydown", (event) => {
    if (event.key === "?" && !keys.open && !event.target.matches("input, select")) keys.showModal();
  });

  // Folded parts would be missing on paper.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const details of unfolded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of unfolded) details.open = false;
  });

  addEventListener("DOMContentLoaded", () => {
    reveal();
    document.documentElement.dataset.ready = "true";
  });
  return { data, make, duration, anchor, baseName, place, whenSeen, show, reveal, searches };
})();
