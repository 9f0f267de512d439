"use strict";
/* The tree that a search visited in one attempt: a node is a step, and the path that was judged stands out. */

(() => {
  const { h, svg, format, line } = Assay;
  const C = Assay.charts;
  const HIGHEST = 760;

  /* Assay.branchTree(attempt): a figure with a table of the judged path, filled when the tree is there. */
  Assay.branchTree = (attempt) => {
    const place = h("div", { class: "figures" }, h("p", { class: "small quiet-text", role: "status" }, "Reading the tree…"));
    const name = Assay.path("run", attempt.run, "attempt", attempt.chain, "tree");
    Assay.load(name).then((tree) => Assay.fill(place, shown(attempt, tree)), (error) => Assay.fill(place, h("p", { class: "note", role: "alert" }, line(error.message))));
    return place;
  };

  function shown(attempt, tree) {
    if (!tree.nodes.length) return h("p", { class: "empty" }, line(tree.problem || "The record holds no step."));
    const laid = lay(tree);
    const told = facts(tree, laid);
    const linked = ([step, , act]) => !tree.steps ? line(act) : h("a", { href: attempt.href("step", String(step)) }, line(act || `step ${step}`));
    const path = new Set(tree.path);
    const figure = C.figure({ title: "Tree of the search", name: "tree", note: told.join(" · "), label: `Tree of the search. ${told.join("; ")}`,
      draw: (width) => drawing(tree, laid, path, width), heads: tree.steps ? ["Judged path: act", "step", "observation"] : ["Adopted path: act", "node", "page"],
      rows: tree.nodes.filter(([step]) => path.has(step)).map((node) => [linked(node), String(node[0]), node[3]]) });
    figure.querySelector("details").open = true;
    return [tree.problem ? h("p", { class: "note" }, line(tree.problem)) : null, privileged(tree), figure];
  }

  function privileged(tree) {
    return tree.search && tree.search.privileged === true ? h("p", { class: "note" }, "The search asked the task's own verifier which states are better: its result is an upper bound.") : null;
  }

  function facts(tree, laid) {
    const told = [`${format.count(tree.nodes.length)} acts`, `${format.count(laid.leaves)} ends`, `depth ${format.count(laid.deepest)}`, `the ${tree.steps ? "judged" : "adopted"} path has ${format.count(tree.path.length)} ${tree.path.length === 1 ? "act" : "acts"}`];
    if (tree.search && typeof tree.search.value === "string") told.push(`value: ${tree.search.value.slice(0, 40)}`);
    const counted = [["states", "states"], ["merged", "merged with earlier ones"], ["failed", "failed acts"], ["irreversible", "acts marked irreversible"], ["refused", "refused"], ["dropped", "open states dropped"]];
    for (const [name, words] of counted) if (tree.search && Number.isInteger(tree.search[name]) && tree.search[name] > 0) told.push(`${format.count(tree.search[name])} ${words}`);
    if (tree.left_out) told.push(`${format.count(tree.left_out)} later acts are not drawn`);
    return told;
  }

  /* Depth and height of each node: an end takes the next free line, any other node stands amid what follows it. Parents
     come before their children in the record, so that two passes do. */
  function lay(tree) {
    const depth = new Map([[-1, 0]]);
    const children = new Map([[-1, []]]);
    for (const [step, parent] of tree.nodes) {
      const from = children.has(parent) ? parent : -1;
      depth.set(step, depth.get(from) + 1);
      children.get(from).push(step);
      children.set(step, []);
    }
    const line_of = new Map();
    let leaves = 0;
    const stack = [-1];
    const order = [];
    while (stack.length) { /* in order of depth first, so that ends of one branch stand together */
      const at = stack.pop();
      order.push(at);
      const next = children.get(at);
      if (!next.length) line_of.set(at, leaves++);
      for (let place = next.length - 1; place >= 0; place -= 1) stack.push(next[place]);
    }
    for (const at of order.reverse()) {
      const next = children.get(at);
      if (next.length) line_of.set(at, (line_of.get(next[0]) + line_of.get(next[next.length - 1])) / 2);
    }
    return { depth, line_of, children, leaves, deepest: Math.max(...depth.values()) };
  }

  function drawing(tree, laid, path, width) {
    const high = Math.max(3, Math.min(18, HIGHEST / laid.leaves));
    const size = Math.max(1.5, Math.min(4.5, high / 2.4));
    const [left, right, top] = [12, width - 12, 14];
    const x = C.linear(0, laid.deepest, left, right);
    const y = (step) => top + laid.line_of.get(step) * high;
    const bottom = top + Math.max(laid.leaves - 1, 1) * high + 12;
    const parentOf = new Map(tree.nodes.map(([step, parent]) => [step, laid.children.has(parent) ? parent : -1]));
    const edge = (step) => {
      const from = parentOf.get(step);
      const [x0, x1] = [x(laid.depth.get(from)), x(laid.depth.get(step))];
      const middle = (x0 + x1) / 2;
      return `M${x0} ${y(from)}C${middle} ${y(from)} ${middle} ${y(step)} ${x1} ${y(step)}`;
    };
    const others = tree.nodes.filter(([step]) => !path.has(step));
    const chosen = tree.nodes.filter(([step]) => path.has(step));
    const dot = ([step, , act, seen], kind, radius) => svg("circle", { class: kind, cx: x(laid.depth.get(step)), cy: y(step), r: radius }, svg("title", null, `${tree.steps ? "step" : "node"} ${step}: ${act}\n${seen}`.slice(0, 300)));
    const marks = C.ticks(laid.deepest).filter((mark) => Number.isInteger(mark) && mark <= laid.deepest);
    return C.canvas(width, bottom + 40,
      marks.map((mark) => [svg("line", { class: "rule", x1: x(mark), x2: x(mark), y1: 0, y2: bottom }), svg("text", { class: "tick", x: x(mark), y: bottom + 14, "text-anchor": mark ? (mark === laid.deepest ? "end" : "middle") : "start" }, String(mark))]),
      svg("text", { class: "axis-name", x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, "acts from the start"),
      svg("path", { class: "tree-edge", d: others.map(([step]) => edge(step)).join("") }),
      others.map((node) => dot(node, "tree-node", size)),
      svg("path", { class: "tree-edge judged", d: chosen.map(([step]) => edge(step)).join("") }),
      svg("circle", { class: "tree-node start", cx: x(0), cy: y(-1), r: size + 1.5 }, svg("title", null, "start")),
      chosen.map((node, at) => dot(node, "tree-node judged", at === chosen.length - 1 ? size + 2 : size + 0.8)));
  }
})();
