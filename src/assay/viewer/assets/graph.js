"use strict";
/* The prefix tree of several attempts, drawn: where their ways part, and which of them passed. */

(() => {
  const { svg, h, format } = Assay;
  const WIDE = 228;
  const HIGH = 30;
  const BOX = 200;
  const MOST = 300;

  /* Consecutive actions without a fork or an end are one box. */
  function gathered(tree) {
    const below = tree.parents.map(() => []);
    tree.parents.forEach((parent, node) => {
      if (parent >= 0) below[parent].push(node);
    });
    const boxes = [];
    const make = (node, depth, parent) => {
      const box = { node, nodes: [node], depth, parent, below: [] };
      boxes.push(box);
      let last = node;
      while (node !== 0 && below[last].length === 1 && !tree.ended[last] && tree.attempts[below[last][0]] === tree.attempts[last]) {
        last = below[last][0];
        box.nodes.push(last);
      }
      box.last = last;
      return box;
    };
    const waiting = [make(0, 0, null)];
    while (waiting.length && boxes.length < MOST) {
      const box = waiting.shift();
      const order = [...below[box.last]].sort((a, b) => tree.attempts[b] - tree.attempts[a] || a - b);
      for (const node of order) {
        if (boxes.length >= MOST) break;
        const child = make(node, box.depth + 1, box);
        box.below.push(child);
        waiting.push(child);
      }
    }
    return boxes;
  }

  function placed(boxes) {
    let next = 0;
    const place = (first) => {
      const stack = [[first, false]];
      while (stack.length) {
        const [box, done] = stack.pop();
        if (!box.below.length) {
          box.y = next;
          next += 1;
        } else if (done) box.y = (box.below[0].y + box.below[box.below.length - 1].y) / 2;
        else {
          stack.push([box, true]);
          for (const child of [...box.below].reverse()) stack.push([child, false]);
        }
      }
    };
    place(boxes[0]);
    return next;
  }

  function fate(tree, node) {
    const [passed, failed] = [tree.passed[node], tree.failed[node]];
    return passed && failed ? "mixed" : passed ? "pass" : failed ? "fail" : "unknown";
  }

  function words(tree, box) {
    const told = box.node === 0 ? "the beginning" : tree.told[box.node] || "an act";
    const more = box.nodes.length > 1 ? ` (+${box.nodes.length - 1} actions)` : "";
    return `${told}${more}`;
  }

  function counts(tree, node) {
    const ended = tree.ended[node] ? `, ${tree.ended[node]} ended here` : "";
    return `${format.count(tree.attempts[node])} attempts, ${tree.passed[node]} passed, ${tree.failed[node]} failed${ended}`;
  }

  /* Assay.graph(tree, choose): an SVG; `choose(attempt, act)` is told which box was chosen. */
  Assay.graph = (tree, choose) => {
    const boxes = gathered(tree);
    const rows = placed(boxes);
    const width = (Math.max(...boxes.map((box) => box.depth)) + 1) * WIDE;
    const height = rows * HIGH + 8;
    const drawing = svg("svg", { class: "ways", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Paths of the attempts, from left to right" });
    const x = (box) => box.depth * WIDE + 4;
    const y = (box) => box.y * HIGH + 4;
    for (const box of boxes) {
      if (!box.parent) continue;
      const [fromX, fromY, toX, toY] = [x(box.parent) + BOX, y(box.parent) + 11, x(box), y(box) + 11];
      const middle = (fromX + toX) / 2;
      drawing.append(svg("path", { class: "way", d: `M${fromX} ${fromY}C${middle} ${fromY} ${middle} ${toY} ${toX} ${toY}`, fill: "none",
        "stroke-width": Math.min(1 + tree.attempts[box.node], 7) }));
    }
    for (const box of boxes) {
      const [attempt, act] = tree.at[box.node];
      const pick = () => choose(attempt, act);
      const label = words(tree, box);
      const letters = Array.from(label);
      const cut = letters.length > 22 ? `${letters.slice(0, 21).join("")}…` : label;
      const mark = { pass: "✓", fail: "✗", mixed: "±", unknown: "·" }[fate(tree, box.last)];
      drawing.append(svg("g", { class: "way-box", "data-fate": fate(tree, box.last), tabindex: "0", role: "button", "aria-label": `${label}: ${counts(tree, box.last)}`,
        transform: `translate(${x(box)} ${y(box)})`, onclick: pick, onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") {
            event.preventDefault();
            pick();
          }
        } }, svg("title", null, `${label}\n${counts(tree, box.last)}`), svg("rect", { width: BOX, height: 22, rx: 4 }),
      svg("text", { x: 7, y: 15 }, cut), svg("text", { x: BOX - 7, y: 15, "text-anchor": "end", class: "way-count" }, `${mark} ${tree.attempts[box.last]}`)));
    }
    const left = tree.parents.length > 0 && boxes.length >= MOST;
    return h("div", { class: "ways-box", tabindex: "0", role: "group", "aria-label": "Prefix graph" }, drawing,
      left ? h("p", { class: "small quiet-text" }, `Only the first ${MOST} boxes are shown.`) : null);
  };
})();
