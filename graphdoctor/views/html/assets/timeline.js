// Rows of bars on a time axis: the calls, and the phases of compiling.
"use strict";
(() => {
  const { data, make, duration, whenSeen } = gd;
  const LINE = 18;

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  /** A color for a name, the same everywhere. */
  const hue = (name) => [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 360, 7);

  /** Fill a bar; eager and compile bars have patterns, so they differ by more than color. */
  const paint = (context, { kind, label }, x, y, width, height) => {
    if (kind === "phase") {
      context.fillStyle = `hsl(${hue(label)} ${color("chip-back-s")} ${color("chip-back-l")})`;
      context.fillRect(x, y, width, height);
      context.fillStyle = color("dim");
      return context.fillRect(x, y, 1, height);
    }
    context.fillStyle = color(kind === "graph" ? "compiled" : kind);
    if (!["eager", "compile", "backward"].includes(kind)) return context.fillRect(x, y, width, height);
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.globalAlpha = 0.35;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
    if (width > 3) {
      context.strokeStyle = color(kind);
      context.lineWidth = 2;
      context.beginPath();
      const slope = { eager: height, backward: -height }[kind] ?? 0;
      for (let at = x - height; at < x + width + 2 * height; at += 6) {
        context.moveTo(at, y + height);
        context.lineTo(at + slope, y);
      }
      context.stroke();
    } else context.fillRect(x, y, width, height);
    context.restore();
  };

  const MOST_GROUPS = 6;
  /** What is in a selected part of a row, the longest first; phases contain others, segments of a call don't. */
  const summary = ({ row, start, end }) => {
    const totals = new Map();
    for (const part of row.bars) {
      const us = Math.min(part.end, end) - Math.max(part.start, start);
      if (us > 0) totals.set(part.group, (totals.get(part.group) ?? 0) + us);
    }
    const groups = [...totals].sort(([, a], [, b]) => b - a);
    const texts = groups.slice(0, MOST_GROUPS).map(([name, us]) => `${name} ${duration(us)} (${Math.round((100 * us) / (end - start))}%)`);
    if (groups.length > MOST_GROUPS) texts.push(`${groups.length - MOST_GROUPS} more`);
    return `${row.name}, ${duration(end - start)} selected: ${texts.join(", ") || "Python"}`;
  };

  /**
   * A drawing.
   * rows: [{name, note, us, depth, bars: [{start, end, depth, kind, label, group, detail}]}], times in µs from the row's start.
   */
  const timeline = (box, rows, { legend, scales }) => {
    let [from, to] = [0, 1];
    let scale = scales[0];
    /** What was dragged over: {row, canvas, start, end} in µs, and the share of the width that the pointer is at. */
    let selected = null;
    let pointer = null;
    const longest = rows.reduce((most, row) => Math.max(most, row.us), 1);
    const detail = make("p", { className: "detail", attributes: { "aria-live": "polite" } });
    const bar = make("div", { className: "bar" });
    const list = make("div", { className: "rows", attributes: { role: "list" } });

    // Thousands of rows: only those in view have pixels.
    const inView = new Set();
    const watcher = new IntersectionObserver(
      (entries) => {
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) {
            inView.add(target);
            target.gdDraw();
          } else if (inView.delete(target)) target.width = 0;
        }
      },
      { rootMargin: "200px" },
    );

    const span = (row) => (scale === "each" ? row.us : longest);
    const redraw = () => inView.forEach((canvas) => canvas.gdDraw());
    const zoom = (factor, centre = (from + to) / 2) => {
      const width = Math.min(1, Math.max(1e-7, (to - from) * factor));
      from = Math.min(1 - width, Math.max(0, centre - ((centre - from) / (to - from)) * width));
      to = from + width;
      redraw();
    };
    const zoomTo = ({ row, start, end }) => {
      [from, to] = [start / span(row), end / span(row)];
      zoom(1.1);
    };
    const select = (area) => {
      const previous = selected;
      selected = area;
      selection.disabled = !area;
      detail.textContent = area ? summary(area) : "";
      for (const { canvas } of [previous, area].filter(Boolean)) canvas.gdDraw();
    };
    const pan = (share) => {
      const width = to - from;
      from = Math.min(1 - width, Math.max(0, from + share * width));
      to = from + width;
      redraw();
    };
    const button = (text, label, act) =>
      make("button", { text, attributes: { type: "button", "aria-label": label, title: label }, on: { click: act } });
    const selection = button("Selection", "Zoom to the selection", () => zoomTo(selected));
    selection.disabled = true;
    bar.append(
      button("+", "Zoom in", () => zoom(0.5)),
      button("−", "Zoom out", () => zoom(2)),
      button("←", "Earlier", () => pan(-0.4)),
      button("→", "Later", () => pan(0.4)),
      button("All", "Show everything", () => ([from, to] = [0, 1], redraw())),
      selection,
    );
    if (scales.length > 1) {
      const names = { common: "Same scale", each: "Fit each row" };
      for (const name of scales) {
        const chooser = button(names[name], names[name], () => {
          scale = name;
          for (const other of bar.querySelectorAll("[data-scale]")) {
            other.setAttribute("aria-pressed", String(other.dataset.scale === name));
          }
          redraw();
        });
        chooser.dataset.scale = name;
        chooser.setAttribute("aria-pressed", String(name === scale));
        bar.append(chooser);
      }
    }
    for (const [kind, text] of legend) bar.append(make("span", { text, className: `swatch ${kind}` }));

    for (const row of rows) {
      const height = LINE * (row.depth ?? 1) + 4;
      const canvas = make("canvas", {
        attributes: { tabindex: "0", role: "img", "aria-label": `${row.name}: ${row.summary ?? duration(row.us)}` },
      });
      canvas.style.height = `${height}px`;
      let chosen = -1;
      const at = (x) => from + (x / canvas.clientWidth) * (to - from);
      const draw = () => {
        const width = canvas.clientWidth;
        const ratio = devicePixelRatio || 1;
        canvas.width = width * ratio;
        canvas.height = height * ratio;
        const context = canvas.getContext("2d");
        context.scale(ratio, ratio);
        const x = (us) => ((us / span(row) - from) / (to - from)) * width;
        context.fillStyle = color("raised");
        context.fillRect(x(0), 2, x(row.us) - x(0), height - 4);
        context.font = "11px ui-monospace, Menlo, Consolas, monospace";
        if (selected?.row === row) {
          context.fillStyle = color("info-back");
          context.fillRect(x(selected.start), 0, x(selected.end) - x(selected.start), height);
        }
        row.bars.forEach((part, number) => {
          const left = Math.max(-2, x(part.start));
          const right = Math.min(width + 2, x(part.end));
          if (right < 0 || left > width) return;
          const top = 2 + (part.depth ?? 0) * LINE;
          paint(context, part, left, top, Math.max(right - left, 1), LINE - 2);
          if (number === chosen) {
            context.strokeStyle = color("link");
            context.lineWidth = 2;
            context.strokeRect(left, top + 1, Math.max(right - left, 2), LINE - 4);
          }
          if (right - left > 34 && part.label) {
            context.save();
            context.beginPath();
            context.rect(left, top, right - left - 3, LINE);
            context.clip();
            if (["eager", "compile", "backward"].includes(part.kind)) {
              // Text on stripes needs a background.
              context.fillStyle = color("page");
              context.fillRect(left + 2, top + 2, context.measureText(part.label).width + 4, LINE - 6);
            }
            context.fillStyle = part.kind === "graph" || part.kind === "guards" ? color("page") : color("text");
            context.fillText(part.label, left + 4, top + 12);
            context.restore();
          }
        });
        if (selected?.row === row) {
          context.strokeStyle = color("link");
          context.lineWidth = 2;
          context.strokeRect(x(selected.start), 1, Math.max(x(selected.end) - x(selected.start), 1), height - 2);
        }
      };
      const choose = (number) => {
        chosen = number;
        const part = row.bars[number];
        detail.textContent = part ? `${row.name}: ${part.detail}` : selected ? summary(selected) : "";
        draw();
      };
      canvas.addEventListener("mousemove", (event) => {
        if (grabbed && event.buttons) return;
        const time = at(event.offsetX) * span(row);
        const slack = ((to - from) * span(row) * 2) / canvas.clientWidth;
        const depth = Math.floor((event.offsetY - 2) / LINE);
        const number = row.bars.findIndex(
          (part) => (part.depth ?? 0) === depth && part.start - slack <= time && time <= part.end + slack,
        );
        if (number !== chosen) choose(number);
      });
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
        event.preventDefault();
        zoom(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, at(event.offsetX));
      }, { passive: false });
      // A mouse selects, and moves the axis with Shift; a finger moves it.
      const time = (event) => Math.min(row.us, Math.max(0, at(event.offsetX) * span(row)));
      let grabbed = null;
      canvas.addEventListener("pointerdown", (event) => {
        grabbed = { x: event.clientX, us: time(event), isPan: event.shiftKey || event.pointerType === "touch" };
        canvas.setPointerCapture(event.pointerId);
        if (grabbed.isPan) return;
        chosen = -1;
        select(null);
        draw();
      });
      canvas.addEventListener("pointermove", (event) => {
        pointer = event.offsetX / canvas.clientWidth;
        if (!grabbed || !event.buttons) return void (grabbed = null);
        if (grabbed.isPan) {
          pan((grabbed.x - event.clientX) / canvas.clientWidth);
          grabbed.x = event.clientX;
        } else if (Math.abs(grabbed.x - event.clientX) > 3) {
          select({ row, canvas, start: Math.min(grabbed.us, time(event)), end: Math.max(grabbed.us, time(event)) });
        }
      });
      canvas.addEventListener("pointerleave", () => (pointer = null));
      let first = 0;
      canvas.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (step) {
          choose(Math.min(row.bars.length - 1, Math.max(0, chosen + step)));
          if (!event.shiftKey) first = chosen;
          else {
            const [{ start }, { end }] = [first, chosen].sort((a, b) => a - b).map((number) => row.bars[number]);
            select({ row, canvas, start, end });
          }
        } else if (event.key === "+" || event.key === "=") zoom(0.5);
        else if (event.key === "-") zoom(2);
        else if (event.key === "0") [from, to] = [0, 1], redraw();
        else return;
        event.preventDefault();
      });
      const name = make("div", { className: "name", text: row.name });
      if (row.fate) name.append(" ", make("strong", { text: row.fate, className: `fate ${row.fate === "recompiled" ? "tone-warning" : "tone-bad"}` }));
      if (row.note) name.append(make("small", { text: row.note }));
      list.append(make("div", { className: "row", attributes: { role: "listitem" } }, name, canvas));
      canvas.gdDraw = draw;
      watcher.observe(canvas);
    }
    box.replaceChildren(bar, list, detail);
    const keys = { w: () => zoom(0.7, centre()), s: () => zoom(1.4, centre()), a: () => pan(-0.2), d: () => pan(0.2),
      f: () => selected && zoomTo(selected), Escape: () => select(null) };
    const centre = () => from + (pointer ?? 0.5) * (to - from);
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, dialog *")) return;
      if (box.matches(":hover") || box.contains(document.activeElement)) keys[event.key]?.();
    });
    addEventListener("resize", redraw);
    document.addEventListener("gd-theme", redraw);
  };

  const WORDS = { graph: "graph", eager: "eager", guards: "guard checks", compile: "compile", backward: "backward pass" };
  const KINDS = [["graph", "compiled graph"], ["eager", "eager operations"], ["guards", "guard checks"],
    ["compile", "compile"], ["backward", "backward pass"], ["python", "Python"]];
  const callsBox = document.getElementById("lanes");
  if (callsBox) {
    whenSeen(callsBox, async () => {
      const { lanes, fates, functions } = await data("lanes");
      const rows = lanes.map((lane, number) => {
        const totals = {}, fate = fates[number], us = lane.duration_us;
        const bars = lane.segments.map((part) => {
          const { kind, start_us: start, end_us: end, compile_id: id, graph_index: index, op_count: count } = part;
          const named = functions[index];
          totals[kind] = (totals[kind] ?? 0) + end - start;
          const what = { graph: `graph ${id ?? index ?? ""}${named ? ` of ${named}` : ""}`, compile: `compile ${id ?? ""}`,
            guards: "guard checks", backward: "backward pass, outside graphs", eager: `${count ?? "some"} eager operation${count === 1 ? "" : "s"}` }[kind];
          const ops = Object.entries(part.op_names).map(([name, times]) => (times > 1 ? `${name} ×${times}` : name)).join(", ");
          const detail = `${what}${ops ? ` (${ops})` : ""}, ${duration(end - start)}, starting at ${duration(start)}`;
          return { start, end, kind, group: WORDS[kind], label: { eager: ops, backward: "backward" }[kind] ?? id ?? "", detail };
        });
        const parts = Object.entries(totals).map(([kind, us]) => `${WORDS[kind]} ${duration(us)}`);
        const hidden = lane.hidden_segments ? `, ${lane.hidden_segments} segments not shown` : "";
        return {
          name: lane.call_index === null ? "steady call" : `call ${lane.call_index}`,
          note: `${duration(us)}${lane.is_profiled ? ", profiled" : ""}${hidden}`,
          us, bars, fate, summary: `${fate ? `${fate}, ` : ""}${duration(us)}, ${parts.join(", ")}`,
        };
      });
      const spread = Math.max(...rows.map((row) => row.us)) / Math.min(...rows.map((row) => row.us));
      timeline(callsBox, rows, { legend: KINDS, scales: spread > 20 ? ["each", "common"] : ["common", "each"] });
    });
  }

  const phasesBox = document.getElementById("phases");
  if (phasesBox) {
    whenSeen(phasesBox, async () => {
      const phases = await data("phases");
      const rows = new Map();
      for (const phase of phases) {
        const { name, compile_id: id, call_index: call, start_us: start, duration_us: us, depth, process, notes } = phase;
        if (us === null) continue;
        const key = `${process ?? ""} ${id ?? "outside"}`;
        if (!rows.has(key)) rows.set(key, { name: id ?? "outside a compile", call, bars: [] });
        const row = rows.get(key);
        const extra = Object.entries(notes).map(([word, value]) => `${word} ${value}`).join(", ");
        row.bars.push({ start, end: start + us, depth, kind: "phase", group: name, label: name,
          detail: `${name}, ${duration(us)}${extra ? ` (${extra})` : ""}` });
      }
      const drawn = [...rows.values()].map((row) => {
        const least = row.bars.reduce((least_, part) => Math.min(least_, part.depth), Infinity);
        const first = row.bars.reduce((first_, part) => Math.min(first_, part.start), Infinity);
        for (const part of row.bars) {
          part.start -= first;
          part.end -= first;
          part.depth -= least;
        }
        const us = row.bars.reduce((last, part) => Math.max(last, part.end), 0);
        const depth = 1 + row.bars.reduce((most, part) => Math.max(most, part.depth), 0);
        return { name: row.name, note: `${row.call === null ? "" : `call ${row.call}, `}${duration(us)}`, us, depth, bars: row.bars };
      });
      drawn.sort((a, b) => b.us - a.us);
      timeline(phasesBox, drawn, { legend: [], scales: ["each", "common"] });
    });
  }
})();
