// One graph at a time, drawn, as operations or as code, at each stage on its way to Inductor.
"use strict";
(() => {
  const { data, make, anchor, baseName, place, whenSeen, searches } = gd;
  const box = document.getElementById("graph-view");
  if (!box) return;
  const MOST_DRAWN = 700;
  const MOST_LABELS = 160;
  const MOST_USERS = 6;
  const ROWS = 500;
  const LETTERS = 400_000;
  const STAGES = { dynamo: "captured graph", joint: "joint graph", forward: "forward", backward: "backward",
    inference: "inference", post_grad: "post-grad", generated: "code" };
  /** Kinds of operations, by their names, in the order in which they are asked. */
  const KINDS = [
    ["product", "products", /matmul|linear|(^|[._])b?mm\b|addmm|baddbmm|einsum|conv|attention|\bdot\b/],
    ["shape", "shapes and indices", /view|reshape|permute|transpose|\.t\b|flatten|squeeze|expand|cat\b|stack|split|chunk|slice|select|getitem|contiguous|clone|copy|\bto\b|pad|index|gather|scatter|embedding|arange|full|zeros|ones/],
    ["sum", "sums and norms", /sum|mean|norm|softmax|amax|amin|max|min|prod|std|var|arg|any|all\b/],
    ["each", "by element", /./],
  ];
  const kindOf = (target) => KINDS.find(([, , pattern]) => pattern.test(target))[0];
  const MAKERS = [["Dynamo", ["dynamo"]], ["AOTAutograd", ["joint", "forward", "backward", "inference"]],
    ["Inductor", ["post_grad", "generated"]]];

  let graphs = [];
  let graph = null;
  let stage = null;
  let hasParameters = false;
  let view = "drawn";
  let root = null;
  let open = new Set();
  let picked = null;
  let found = new Set();

  const select = make("select", { attributes: { "aria-label": "Graph" } });
  const flow = make("div", { className: "flow", attributes: { role: "group", "aria-label": "Stage" } });
  const views = make("div", { className: "flow", attributes: { role: "group", "aria-label": "View" } });
  const search = make("input", { attributes: { type: "search", placeholder: "find a node", "aria-label": "Find a node" } });
  const parameters = make("button", { attributes: { type: "button" }, on: { click: () => {
    hasParameters = !hasParameters;
    const now = view;
    setStage(stage.whole);
    view = now;
    showFlow();
    show();
  } } });
  const folded = make("div", { className: "notice", attributes: { "aria-live": "polite" } });
  const body = make("div", { className: "bodyrow" });
  const main = make("div");
  const side = make("div", { className: "side", attributes: { "aria-live": "polite" } });
  body.append(main, side);

  const pressed = (text, isOn, act) =>
    make("button", { text, attributes: { type: "button", "aria-pressed": String(isOn) }, on: { click: act } });
  const nameOf = (leaf) => stage.labels[stage.nodes[leaf][0]] ?? stage.nodes[leaf][0];
  const label = (item) => `${STAGES[item.stage]}${item.of ? ` (${item.of})` : ""}`;
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

  const showFlow = () => {
    flow.replaceChildren();
    for (const [maker, names] of MAKERS) {
      const items = graph.stages.filter((item) => names.includes(item.stage));
      if (!items.length) continue;
      if (flow.childElementCount) flow.append(make("span", { text: "→", className: "stage-of", attributes: { "aria-hidden": "true" } }));
      flow.append(make("span", { text: maker, className: "stage-of" }));
      for (const item of items) flow.append(pressed(label(item), item === stage?.whole, () => setStage(item)));
    }
    views.replaceChildren();
    const names = stage?.nodes ? [["drawn", "Drawn"], ["ops", "Operations"], ["code", "Code"]] : [["code", "Code"]];
    for (const [name, text] of names) {
      views.append(pressed(text, name === view, () => {
        view = name;
        showFlow();
        show();
      }));
    }
    search.hidden = !stage?.nodes;
    const count = stage?.whole.parameters?.length ?? 0;
    parameters.hidden = !count || view === "code";
    parameters.textContent = hasParameters ? `Hide ${plural(count, "parameter")}` : `${plural(count, "parameter")} hidden`;
    parameters.setAttribute("aria-pressed", String(hasParameters));
    parameters.title = hasParameters ? "" : "Show them";
  };

  /** A stage without its parameters: the same nodes with others' numbers. */
  const withoutParameters = (item) => {
    const hidden = new Set(item.parameters);
    const kept = item.nodes.map((_, index) => index).filter((index) => !hidden.has(index));
    const numbers = new Map(kept.map((index, number) => [index, number]));
    const nodes = kept.map((index) => {
      const [name, opcode, target, inputs, ...rest] = item.nodes[index];
      return [name, opcode, target, inputs.filter((input) => numbers.has(input)).map((input) => numbers.get(input)), ...rest];
    });
    return { ...item, nodes };
  };

  const setStage = (item) => {
    stage = item && { ...(item.nodes && !hasParameters ? withoutParameters(item) : item), whole: item };
    picked = null;
    found = new Set();
    search.value = "";
    if (!stage?.nodes) view = "code";
    else if (view === "code") view = "drawn";
    if (stage?.nodes) {
      root = gdFold.tree(stage.nodes, stage.labels);
      open = gdFold.opened(root);
    }
    showFlow();
    show();
  };

  const setGraph = (index) => {
    graph = graphs.find((item) => item.index === index) ?? graphs[0];
    select.value = String(graph.index);
    for (const row of document.querySelectorAll("#graphs tr.picked")) row.classList.remove("picked");
    document.getElementById(`graph-${graph.index}`)?.classList.add("picked");
    setStage(graph.stages.find((item) => item.stage === "dynamo") ?? graph.stages[0] ?? null);
  };

  const show = () => {
    body.classList.toggle("with-side", view === "drawn" && (picked !== null || found.size > 0));
    folded.hidden = true;
    if (!stage) {
      main.replaceChildren(make("p", { className: "notice", text: graph.isLeftOut
        ? `This graph was left out of the page. graphdoctor report LOG --compile ${graph.id} --html has it.`
        : "The log has no nodes and no code for this graph." }));
      return;
    }
    if (stage.unread) {
      folded.hidden = false;
      folded.textContent = `${plural(stage.unread, "line")} of the printed graph couldn't be read. `;
    } else folded.textContent = "";
    if (view === "code") showCode();
    else if (view === "ops") showOperations();
    else draw();
  };

  const showCode = () => {
    const text = stage.code ?? "torch's log has no code for this graph.";
    const code = make("pre", { className: "codeview", text: text.slice(0, LETTERS), attributes: { tabindex: "0" } });
    main.replaceChildren(code);
    if (stage.kernels?.length) {
      main.prepend(make("div", { className: "notice", text: `Kernels and library calls: ${stage.kernels.join(", ")}` }));
    }
    if (text.length > LETTERS) {
      main.append(make("button", { text: `Show all ${text.length.toLocaleString("en")} characters`, attributes: { type: "button" },
        on: { click: (event) => { code.textContent = text; event.target.remove(); } } }));
    }
  };

  const showOperations = () => {
    const rows = make("tbody");
    const add = (nodes) => {
      for (const [name, opcode, target, inputs, value, where, module] of nodes) {
        const from = inputs.map((input) => stage.nodes[input][0]).join(", ");
        rows.append(make("tr", {}, make("td", { text: name, className: "mono text" }), make("td", { text: opcode, className: "dim text" }),
          make("td", { text: target, className: "mono text" }), make("td", { text: from, className: "mono text" }),
          make("td", { text: value ?? "", className: "mono text" }), make("td", { className: "text" }, place(...where)),
          make("td", { text: module ?? "", className: "mono text" })));
      }
    };
    const head = make("tr", {}, ...["node", "opcode", "target", "inputs", "value", "line", "module"].map((text) =>
      make("th", { text, className: "text", attributes: { scope: "col" } })));
    const table = make("table", { className: "numbers" }, make("thead", {}, head), rows);
    add(stage.nodes.slice(0, ROWS));
    const holder = make("div", { className: "optable", attributes: { tabindex: "0", role: "region", "aria-label": "Operations" } }, table);
    main.replaceChildren(holder);
    if (stage.nodes.length > ROWS) {
      holder.append(make("button", { text: `Show all ${stage.nodes.length.toLocaleString("en")} nodes`, attributes: { type: "button" },
        on: { click: (event) => { add(stage.nodes.slice(ROWS)); event.target.remove(); } } }));
    }
  };

  // The drawing.

  const title = (item) => {
    if (item.branch) return [item.branch.path ?? item.branch.label, `${plural(item.branch.size, "node")} folded`];
    const [name, opcode, target, , value] = stage.nodes[item.leaf];
    if (item.isCopy) return [`${nameOf(item.leaf)} ↑`, ""];
    if (opcode === "output" && graph.endedBy) return ["break", graph.endedBy];
    const called = opcode === "placeholder" || opcode === "output" ? opcode : target.replace(/^torch\.(ops\.)?/, "");
    return [opcode === "placeholder" ? nameOf(item.leaf) : called, value ?? (opcode === "placeholder" || opcode === "output" ? "" : name)];
  };
  const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

  const draw = () => {
    const { shown, standsFor } = gdFold.visible(root, open);
    if (shown.length > MOST_DRAWN) {
      main.replaceChildren(make("p", { className: "notice",
        text: `${plural(shown.length, "node")} are too many to draw (at most ${MOST_DRAWN}). Fold some, or use the list of operations.` }),
        make("button", { text: "Reset folding", attributes: { type: "button" }, on: { click: () => { open = gdFold.opened(root); show(); } } }));
      return;
    }
    const hidden = shown.filter((item) => item.branch);
    const count = hidden.reduce((sum, item) => sum + item.branch.size, 0);
    if (count) {
      folded.hidden = false;
      folded.append(`${count.toLocaleString("en")} of ${plural(stage.nodes.length, "node")} folded into ${plural(hidden.length, "part")}, by module and in runs of neighbors. `);
      folded.append(make("button", { text: "Reset folding", attributes: { type: "button" }, on: { click: () => { open = gdFold.opened(root); show(); } } }));
    }
    const edges = edgesBetween(shown, standsFor);
    const layout = new dagre.graphlib.Graph({ multigraph: false });
    layout.setGraph({ rankdir: "TB", nodesep: 18, ranksep: 34, edgesep: 8, marginx: 16, marginy: 16 });
    layout.setDefaultEdgeLabel(() => ({}));
    const items = new Map(shown.map((item) => [item.id, item]));
    for (const item of items.values()) {
      const [head, sub] = title(item).map((text) => short(text, 34));
      layout.setNode(item.id, { width: Math.max(60, 7.4 * Math.max(head.length, sub.length * 0.88) + 18), height: sub ? 36 : 24 });
    }
    const hasLabels = edges.size <= MOST_LABELS;
    for (const edge of edges.values()) {
      const values = [...new Set(edge.values.filter(Boolean))];
      // An operation has its own shape in its box.
      if (!edge.from.branch) edge.text = "";
      else edge.text = values.length > 1 ? `${short(values[0], 20)} and ${values.length - 1} more` : short(values[0] ?? "", 26);
      edge.all = values.join("\n");
      layout.setEdge(edge.from.id, edge.to.id, hasLabels ? { width: edge.text.length * 6, height: 12, labelpos: "c" } : {});
    }
    // What a graph returns stands at its end, below values that nothing uses.
    const last = shown.find((item) => !item.branch && !item.isCopy && stage.nodes[item.leaf][1] === "output");
    const used = new Set([...edges.values()].map((edge) => edge.from.id));
    for (const { id } of last ? shown : []) if (id !== last.id && !used.has(id)) layout.setEdge(id, last.id, { weight: 0 });
    dagre.layout(layout);
    main.replaceChildren(drawing(layout, items, edges, hasLabels));
    showSide();
  };

  /** The edges between what is shown; a value with many users gets a small copy next to each. */
  const edgesBetween = (shown, standsFor) => {
    const edges = new Map();
    stage.nodes.forEach(([, , , inputs], index) => {
      for (const input of inputs) {
        const [from, to] = [standsFor.get(input), standsFor.get(index)];
        if (!from || !to || from === to) continue;
        const key = `${from.id}\n${to.id}`;
        if (!edges.has(key)) edges.set(key, { from, to, values: [] });
        edges.get(key).values.push(stage.nodes[input][4]);
      }
    });
    const users = new Map();
    for (const { from } of edges.values()) users.set(from, (users.get(from) ?? 0) + 1);
    for (const edge of edges.values()) {
      if (edge.from.branch || users.get(edge.from) <= MOST_USERS) continue;
      edge.from = { id: `c${edge.from.leaf}-${edge.to.id}`, leaf: edge.from.leaf, isCopy: true };
      shown.push(edge.from);
    }
    return edges;
  };

  const drawing = (layout, items, edges, hasLabels) => {
    const { width, height } = layout.graph();
    const scene = make("g");
    const svg = make("svg", { attributes: { role: "group", "aria-label": `Graph ${graph.id}, ${label(stage)}: ${plural(items.size, "node")} drawn`, tabindex: "0" } },
      make("defs", {}, make("marker", { attributes: { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" } },
        make("path", { attributes: { d: "M0 0 L8 4 L0 8 z", fill: "currentColor", opacity: ".6" } }))), scene);
    for (const edge of edges.values()) {
      const route = layout.edge(edge.from.id, edge.to.id);
      const path = route.points.map(({ x, y }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
      const isLit = picked && (picked.id === edge.from.id || picked.id === edge.to.id);
      scene.append(make("path", { className: `edge${isLit ? " lit" : ""}`, attributes: { d: path, "marker-end": "url(#arrow)" } }, make("title", { text: edge.all })));
      if (hasLabels && edge.text) {
        scene.append(make("text", { text: edge.text, className: "edge-text", attributes: { x: route.x, y: route.y + 3, "text-anchor": "middle" } }));
      }
    }
    for (const [id, item] of items) {
      const at = layout.node(id);
      const [head, sub] = title(item);
      const isFound = item.branch ? [...found].some((leaf) => within(item.branch, leaf)) : found.has(item.leaf);
      const [, opcode, target] = item.branch ? [] : stage.nodes[item.leaf];
      const called = opcode?.startsWith("call_") ? ` kind-${kindOf(target)}` : "";
      const kind = item.branch ? "folded" : item.isCopy ? "copy" : `${opcode}${called}${opcode === "output" && graph.endedBy ? " broken" : ""}`;
      const group = make("g", {
        className: `node ${kind}${isFound ? " found" : ""}${picked?.id === id ? " picked" : ""}`,
        attributes: { transform: `translate(${(at.x - at.width / 2).toFixed(1)} ${(at.y - at.height / 2).toFixed(1)})`, tabindex: "0", role: "button",
          "aria-label": `${head} ${sub}${item.branch ? ", unfolds" : ""}`, "data-id": id },
        on: {
          click: () => pick(item),
          dblclick: () => item.branch && unfold(item.branch),
          keydown: (event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            if (item.branch && picked?.id === id) unfold(item.branch);
            else pick(item);
          },
        },
      },
        make("rect", { attributes: { width: at.width, height: at.height, rx: 5 } }),
        make("text", { text: short(head, 34), attributes: { x: at.width / 2, y: sub ? 15 : 16, "text-anchor": "middle" } }));
      if (sub) group.append(make("text", { text: short(sub, 34), className: "sub", attributes: { x: at.width / 2, y: 29, "text-anchor": "middle" } }));
      group.append(make("title", { text: `${head}\n${sub}` }));
      scene.append(group);
    }
    const canvas = make("div", { className: "canvas" }, svg);
    movable(canvas, svg, scene, width, height, layout);
    return canvas;
  };

  const within = (branch, leaf) => branch.leaves.includes(leaf) || branch.children.some((child) => within(child, leaf));

  /** Pan by dragging and with the arrow keys, zoom with the wheel and + and -. */
  const movable = (canvas, svg, scene, width, height, layout) => {
    let [x, y, scale] = [0, 0, 1];
    const seen = make("rect", { className: "seen" });
    const map = make("svg", { className: "minimap", attributes: { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" } },
      ...layout.nodes().map((id) => layout.node(id)).map((node) => make("rect", { attributes: { x: node.x - node.width / 2, y: node.y - node.height / 2, width: node.width, height: node.height } })), seen);
    const place_ = () => {
      scene.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
      const [w, h] = [canvas.clientWidth / scale, canvas.clientHeight / scale];
      map.toggleAttribute("hidden", w >= width && h >= height);
      for (const [name, value] of Object.entries({ x: -x / scale, y: -y / scale, width: w, height: h })) seen.setAttribute(name, value);
    };
    map.addEventListener("pointerdown", (event) => {
      const box = map.getBoundingClientRect();
      const shown = Math.min(box.width / width, box.height / height);
      const at = [(event.clientX - box.left - (box.width - width * shown) / 2) / shown, (event.clientY - box.top - (box.height - height * shown) / 2) / shown];
      x = canvas.clientWidth / 2 - at[0] * scale;
      y = canvas.clientHeight / 2 - at[1] * scale;
      place_();
    });
    const fit = () => {
      const [w, h] = [canvas.clientWidth || 800, canvas.clientHeight || 540];
      // A graph too large to be legible as a whole begins at its first node; the small map shows the rest.
      scale = Math.min(1.15, Math.max(0.8, Math.min(w / width, h / height)));
      const first = layout.nodes().map((id) => layout.node(id)).reduce((top, node) => (node.y < top.y ? node : top));
      x = width * scale > w ? w / 2 - first.x * scale : (w - width * scale) / 2;
      y = height * scale > h ? 8 : (h - height * scale) / 2;
      const target = picked ? layout.node(picked.id) : found.size ? layout.node(svg.querySelector(".found")?.dataset.id ?? "") : null;
      if (target && scale < 0.9) {
        scale = 0.9;
        x = w / 2 - target.x * scale;
        y = h / 2 - target.y * scale;
      }
      place_();
    };
    const zoom = (factor, cx, cy) => {
      const next = Math.min(4, Math.max(0.05, scale * factor));
      x = cx - ((cx - x) / scale) * next;
      y = cy - ((cy - y) / scale) * next;
      scale = next;
      place_();
    };
    const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== svg && !svg.contains(document.activeElement)) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 0.9 : 1.1, event.offsetX, event.offsetY);
    }, { passive: false });
    let last = null;
    svg.addEventListener("pointerdown", (event) => (last = [event.clientX, event.clientY]));
    svg.addEventListener("pointermove", (event) => {
      if (!last || !event.buttons) return void (last = null);
      x += event.clientX - last[0];
      y += event.clientY - last[1];
      last = [event.clientX, event.clientY];
      place_();
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (step) {
        x += step[0];
        y += step[1];
        place_();
      } else if (event.key === "+" || event.key === "=") zoom(1.25, ...middle());
      else if (event.key === "-") zoom(0.8, ...middle());
      else if (event.key === "0") fit();
      else return;
      event.preventDefault();
    });
    const button = (text, name, act) => make("button", { text, attributes: { type: "button", "aria-label": name, title: name }, on: { click: act } });
    const controls = make("div", { className: "flow", attributes: { style: "position:absolute;right:.5rem;top:.5rem" } },
      button("+", "Zoom in", () => zoom(1.25, ...middle())), button("−", "Zoom out", () => zoom(0.8, ...middle())), button("Fit", "Fit the drawing", fit));
    const legend = make("div", { className: "kinds" }, ...KINDS.map(([name, text]) => make("span", { text, className: `kind-${name}` })));
    canvas.append(controls, legend, map);
    requestAnimationFrame(() => fit());
  };

  const pick = (item) => {
    picked = item;
    folded.textContent = "";
    show();
    main.querySelector(`[data-id="${CSS.escape(item.id)}"]`)?.focus({ preventScroll: true });
  };
  const unfold = (branch) => {
    open.add(branch.key);
    picked = null;
    show();
  };
  const go = (leaf) => {
    gdFold.reveal(root, open, leaf);
    picked = { id: `n${leaf}`, leaf };
    view = "drawn";
    show();
  };

  const leave = () => {
    picked = null;
    found = new Set();
    search.value = "";
    folded.textContent = "";
    show();
  };
  side.addEventListener("keydown", (event) => event.key === "Escape" && leave());
  main.addEventListener("keydown", (event) => event.key === "Escape" && leave());
  /** A node to go to, with its value. */
  const nodeButton = (leaf) => make("button", { text: nameOf(leaf), attributes: { type: "button" }, on: { click: () => go(leaf) } },
    make("small", { text: ` ${stage.nodes[leaf][4] ?? ""}`, className: "dim" }));

  const showSide = () => {
    side.replaceChildren(make("button", { text: "×", className: "close", attributes: { type: "button", "aria-label": "Close", title: "Close" }, on: { click: leave } }));
    if (picked?.branch) {
      side.append(make("h4", { text: picked.branch.path ?? picked.branch.label }), make("p", { text: plural(picked.branch.size, "node") }),
        make("button", { text: "Unfold", attributes: { type: "button" }, on: { click: () => unfold(picked.branch) } }));
    } else if (picked) {
      const [name, opcode, target, inputs, value, where, module, text] = stage.nodes[picked.leaf];
      const tensor = /^(\w+)(\[.*\])$/.exec(value ?? "");
      side.append(make("h4", { text: nameOf(picked.leaf) }));
      const facts = make("dl", { className: "facts" });
      for (const [word, content] of [["node", name], ["opcode", opcode], ["target", target], ["call", text], ["shape", tensor?.[2]], ["dtype", tensor?.[1]], ["value", !tensor && value], ["line", where[0] && place(...where)], ["module", module]]) {
        if (content) facts.append(make("div", {}, make("dt", { text: word }), make("dd", { className: "mono" }, content)));
      }
      side.append(facts);
      const users = stage.nodes.flatMap(([, , , from], index) => (from.includes(picked.leaf) ? [index] : []));
      for (const [word, list] of [["Inputs", inputs], ["Used by", users]]) {
        if (list.length) side.append(make("h4", { text: word }), ...list.slice(0, 30).map(nodeButton));
        if (list.length > 30) side.append(` and ${list.length - 30} more`);
      }
      if (picked.leaf !== undefined && open.size > 1) {
        side.append(make("p", {}, make("button", { text: "Fold its module", attributes: { type: "button" }, on: { click: () => foldAround(picked.leaf) } })));
      }
    }
    if (found.size) {
      side.append(make("h4", { text: `${plural(found.size, "node")} found` }), ...[...found].slice(0, 40).map(nodeButton));
      if (found.size > 40) side.append(` and ${found.size - 40} more`);
    }
  };
  const foldAround = (leaf) => {
    const walk = (branch) => {
      if (branch.leaves.includes(leaf)) return branch;
      for (const child of branch.children) {
        const inner = walk(child);
        if (inner) return inner;
      }
      return null;
    };
    const branch = walk(root);
    if (branch?.key) open.delete(branch.key);
    picked = branch?.key ? { id: `b${branch.key}`, branch } : null;
    show();
  };

  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      picked = null;
      found = new Set();
      if (words.length) {
        stage.nodes.forEach(([name, , target, , value, where, module], index) => {
          const text = `${name} ${stage.labels[name] ?? ""} ${target} ${value ?? ""} ${module ?? ""} ${where[0] ? `${baseName(where[0])}:${where[1]}` : ""}`.toLowerCase();
          if (words.every((word) => text.includes(word))) found.add(index);
        });
      }
      folded.textContent = "";
      show();
    }, 150);
  });
  select.addEventListener("change", () => setGraph(Number(select.value)));

  /** A graph at a stage: its nodes with the numbers of their inputs, and those of its own inputs that the user has words for. */
  const stageOf = (found, inputs) => {
    const numbers = new Map(found.nodes.map((node, number) => [node.name, number]));
    // AOTAutograd and Inductor give inputs other names, and nothing says which of them are parameters.
    const own = found.stage === "dynamo" ? inputs : [];
    return {
      ...found,
      unread: found.unread_lines,
      nodes: found.nodes.map((node) => [node.name, node.opcode, node.target,
        node.inputs.filter((name) => numbers.has(name)).map((name) => numbers.get(name)), node.value, [node.file, node.line], node.module, node.text]),
      labels: Object.fromEntries(own.filter(([, words]) => words)),
      parameters: own.filter(([name, , isParameter]) => isParameter && numbers.has(name)).map(([name]) => numbers.get(name)),
    };
  };

  let started;
  const start = () => {
    started ??= (async () => {
      const { graphs: shown, stages, generated } = await data("graphs");
      const of = (all, item) => all.filter((each) => each.graph_index === item.index);
      graphs = shown.map((item) => ({
        ...item,
        stages: [...of(stages, item).map((found) => stageOf(found, item.inputs)),
          ...of(generated, item).map(({ stage, code, kernels }) => ({ stage: "generated", of: stage, code, kernels }))],
      }));
      if (!graphs.length) return;
      for (const item of graphs) select.append(make("option", { text: `${item.id} ${item.name}`, attributes: { value: item.index } }));
      box.replaceChildren(make("div", { className: "viewer" }, make("div", { className: "head" }, select, flow, views, parameters, search), folded, body));
      setGraph(graphs[0].index);
      box.dataset.ready = "true";
    })();
    return started;
  };
  whenSeen(box, start);

  searches.push(async () => {
    await start();
    return graphs.flatMap((item) => item.stages.flatMap((within_) => (within_.nodes ?? []).map(([name, , target, , value]) => [
      "Graphs", `${item.id} ${label(within_)}: ${within_.labels[name] ?? name} ${target} ${value ?? ""}`, async () => {
        await openGraph(item.index);
        hasParameters = true;
        setStage(within_);
        go(stage.nodes.findIndex((node) => node[0] === name));
      }])));
  });

  /** Show a graph, and the nodes of a line when one is given. */
  const openGraph = async (index, line) => {
    await start();
    setGraph(index);
    if (line && stage?.nodes) {
      found = new Set(stage.nodes.flatMap(([, , , , , where], number) => (anchor(...where) === line ? [number] : [])));
      view = "drawn";
      show();
    }
    box.scrollIntoView({ block: "start" });
    select.focus({ preventScroll: true });
  };
  document.addEventListener("click", (event) => {
    const chip = event.target.closest?.("a.chip[data-graph]");
    const line = event.target.closest?.(".code tr[data-g]");
    if (chip) {
      event.preventDefault();
      history.pushState(null, "", `#graph-${chip.dataset.graph}`);
      openGraph(Number(chip.dataset.graph), line?.id);
    } else if (line && event.target.closest("td.c") && !String(getSelection())) {
      openGraph(Number(line.dataset.g.split(" ")[0]), line.id);
    }
  });
  const fromHash = () => {
    const match = /^#graph-(\d+)$/.exec(location.hash);
    if (match) openGraph(Number(match[1]));
  };
  addEventListener("hashchange", fromHash);
  fromHash();
})();
