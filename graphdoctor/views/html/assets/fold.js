// A graph's nodes as a tree of modules, which large graphs are folded by.
"use strict";
const gdFold = (() => {
  const MOST_LEAVES = 150;
  const FIRST = 80;
  const MANY_INPUTS = 12;
  const INPUTS = "graph inputs";

  const tokens = (path) => path.match(/\[[^\]]*\]|[^.[\]]+/g) ?? [path];

  /** Split long lists into runs of neighbors. */
  const chunked = (branch) => {
    for (const key of ["children", "leaves"]) {
      const items = branch[key];
      if (items.length <= MOST_LEAVES) continue;
      const size = Math.max(50, Math.ceil(items.length / 60));
      const runs = [];
      for (let at = 0; at < items.length; at += size) {
        const part = items.slice(at, at + size);
        const run = { key: `${branch.key}#${key}${at}`, label: `${key === "leaves" ? "operations" : "parts"} ${at + 1} to ${at + part.length}`,
          children: [], leaves: [] };
        run[key] = part;
        runs.push(run);
      }
      branch[key] = [];
      branch.children = branch.children.concat(runs);
    }
    branch.children.forEach(chunked);
  };

  /**
   * nodes: [[name, opcode, target, inputs, value, place, module]], labels: inputs in the user's words → the root.
   * Parameters go with their module; many other inputs become one part.
   */
  const tree = (nodes, labels) => {
    const root = { key: "", label: "all", children: [], leaves: [] };
    const known = new Map([["", root]]);
    const inputs = nodes.filter(([, opcode]) => opcode === "placeholder" || opcode === "get_attr").length;
    nodes.forEach(([name, opcode, , , , , module], index) => {
      let path = module ? tokens(module) : [];
      if (opcode === "placeholder" || opcode === "get_attr") {
        const owner = labels[name]?.startsWith("self.") ? tokens(labels[name]).slice(0, -1) : [];
        path = owner.length > 1 ? owner : inputs > MANY_INPUTS && !labels[name] ? [INPUTS] : [];
      }
      let branch = root;
      let key = "";
      for (const token of path) {
        key = `${key}/${token}`;
        let next = known.get(key);
        if (!next) {
          next = { key, label: token, path: branch.path ? `${branch.path}${token.startsWith("[") ? "" : "."}${token}` : token,
            children: [], leaves: [] };
          known.set(key, next);
          branch.children.push(next);
        }
        branch = next;
      }
      branch.leaves.push(index);
    });
    chunked(root);
    const count = (branch) => {
      branch.size = branch.leaves.length + branch.children.reduce((sum, child) => sum + count(child), 0);
      return branch.size;
    };
    count(root);
    return root;
  };

  /** The branches that are open at first: all of a small graph, otherwise as many whole levels as fit. */
  const opened = (root) => {
    const open = new Set([root.key]);
    let visible = root.leaves.length + root.children.length;
    let level = root.children;
    while (level.length) {
      const wanted = root.size > FIRST ? level.filter((branch) => branch.label !== INPUTS) : level;
      visible += wanted.reduce((sum, branch) => sum + branch.leaves.length + branch.children.length - 1, 0);
      if (root.size > FIRST && visible > FIRST) break;
      for (const branch of wanted) open.add(branch.key);
      level = wanted.flatMap((branch) => branch.children);
    }
    return open;
  };

  /** What is shown, and for each node the branch or the node that stands for it. */
  const visible = (root, open) => {
    const shown = [];
    const standsFor = new Map();
    const every = (branch, item) => {
      for (const leaf of branch.leaves) standsFor.set(leaf, item);
      for (const child of branch.children) every(child, item);
    };
    const walk = (branch) => {
      for (const leaf of branch.leaves) {
        const item = { id: `n${leaf}`, leaf };
        shown.push(item);
        standsFor.set(leaf, item);
      }
      for (const child of branch.children) {
        if (open.has(child.key)) walk(child);
        else {
          const item = { id: `b${child.key}`, branch: child };
          shown.push(item);
          every(child, item);
        }
      }
    };
    walk(root);
    return { shown, standsFor };
  };

  /** Open everything above a node. */
  const reveal = (root, open, leaf) => {
    const find = (branch) => {
      if (branch.leaves.includes(leaf)) return [branch];
      for (const child of branch.children) {
        const found = find(child);
        if (found) return [branch, ...found];
      }
      return null;
    };
    for (const branch of find(root) ?? []) open.add(branch.key);
  };
  return { tree, opened, visible, reveal };
})();
