"use strict";
/* Differences of texts by lines: computed between two texts (Myers 1986, bounded), or read from a unified diff. */

(() => {
  const { h } = Assay;
  const MOST_LINES = 4000;
  const MOST_EDITS = 1500;
  const AROUND = 3;

  /* The shortest edit script as [kind, text] with kind " ", "-" or "+"; null where the texts differ too much. */
  function script(before, after) {
    let start = 0;
    let [ends, endsAfter] = [before.length, after.length];
    while (start < ends && start < endsAfter && before[start] === after[start]) start += 1;
    while (ends > start && endsAfter > start && before[ends - 1] === after[endsAfter - 1]) [ends, endsAfter] = [ends - 1, endsAfter - 1];
    const middle = myers(before.slice(start, ends), after.slice(start, endsAfter));
    if (!middle) return null;
    const same = (line) => [" ", line];
    return [...before.slice(0, start).map(same), ...middle, ...before.slice(ends).map(same)];
  }

  /* How far each diagonal reaches with d edits, kept for every d so that the way back is known. */
  function myers(a, b) {
    const most = Math.min(a.length + b.length, MOST_EDITS);
    const middle = most + 1;
    const reach = new Int32Array(2 * most + 3);
    const trace = [];
    for (let d = 0; d <= most; d += 1) {
      trace.push(reach.slice(middle - d - 1, middle + d + 2));
      for (let k = -d; k <= d; k += 2) {
        const down = k === -d || (k !== d && reach[middle + k - 1] < reach[middle + k + 1]);
        let x = down ? reach[middle + k + 1] : reach[middle + k - 1] + 1;
        while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
        reach[middle + k] = x;
        if (x >= a.length && x - k >= b.length) return walked(trace, a, b, d);
      }
    }
    return null;
  }

  function walked(trace, a, b, last) {
    const found = [];
    let [x, y] = [a.length, b.length];
    for (let d = last; d > 0; d -= 1) {
      const reach = (k) => trace[d][k + d + 1];
      const k = x - y;
      const from = k === -d || (k !== d && reach(k - 1) < reach(k + 1)) ? k + 1 : k - 1;
      const [fromX, fromY] = [reach(from), reach(from) - from];
      while (x > fromX && y > fromY && a[x - 1] === b[y - 1]) {
        found.push([" ", a[x - 1]]);
        [x, y] = [x - 1, y - 1];
      }
      if (x === fromX) found.push(["+", b[y - 1]]);
      else found.push(["-", a[x - 1]]);
      [x, y] = [fromX, fromY];
    }
    while (x > 0) {
      found.push([" ", a[x - 1]]);
      x -= 1;
    }
    return found.reverse();
  }

  const NAMES = { "-": "removed", "+": "added", "@": "place", "!": "file", " ": "same" };
  const SPOKEN = { "-": "removed: ", "+": "added: " };

  function row(kind, text) {
    return h("span", { class: `ln diff-${NAMES[kind]}`, "data-row": kind === "-" ? "−" : kind === "+" ? "+" : "" },
      SPOKEN[kind] ? h("span", { class: "unseen" }, SPOKEN[kind]) : null, Assay.text(text || " "));
  }

  function changedParts(steps) {
    const near = new Uint8Array(steps.length);
    steps.forEach(([kind], at) => {
      if (kind !== " ") near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
    });
    return near;
  }

  /* Of unchanged lines only those near a change. */
  function folded(steps) {
    const near = changedParts(steps);
    const rows = [];
    for (let at = 0; at < steps.length; at += 1) {
      if (near[at]) {
        rows.push(row(...steps[at]));
        continue;
      }
      let end = at;
      while (end < steps.length && !near[end]) end += 1;
      rows.push(row("@", `${end - at} unchanged ${end - at === 1 ? "line" : "lines"}`));
      at = end - 1;
    }
    return rows;
  }

  /* The same as hunks of a unified diff, which `patch` takes. */
  function hunks(steps) {
    const near = changedParts(steps);
    const found = [];
    let [before, after] = [1, 1];
    for (let at = 0; at < steps.length; at += 1) {
      const lines = [];
      const [first, firstAfter] = [before, after];
      for (; at < steps.length && near[at]; at += 1) {
        const [kind, text] = steps[at];
        lines.push(kind + text);
        if (kind !== "+") before += 1;
        if (kind !== "-") after += 1;
      }
      if (lines.length) {
        const range = (from, to) => `${to === from ? from - 1 : from},${to - from}`;
        found.push(`@@ -${range(first, before)} +${range(firstAfter, after)} @@`, ...lines);
      }
      if (at < steps.length) [before, after] = [before + 1, after + 1];
    }
    return `${found.join("\n")}\n`;
  }

  function block(rows, label) {
    return h("pre", { class: "block diff", tabindex: "0", role: "group", "aria-label": label }, rows);
  }

  const UNENDED = "\n\\ No newline at end of file"; /* as in a unified diff */

  function linesOf(text, isFile) {
    if (text === "") return [];
    const lines = text.split("\n");
    if (!isFile) return lines;
    const last = lines.pop();
    return last === "" ? lines : [...lines, last + UNENDED];
  }

  function patchOf(steps) {
    const patch = hunks(steps);
    if (Assay.escaped(patch) !== patch) throw new Error("the texts hold invisible characters, which a copy would write as escapes");
    return patch;
  }

  /* Assay.diff(before, after, label, isFile): an element; null where the texts are too long or too different. Texts that
     are no whole files end without a line break. */
  Assay.diff = (before, after, label = "difference", isFile = false) => {
    const [one, other] = [linesOf(before, isFile), linesOf(after, isFile)];
    if (one.length + other.length > MOST_LINES) return null;
    const steps = !one.length ? other.map((line) => ["+", line]) : !other.length ? one.map((line) => ["-", line]) : script(one, other);
    if (!steps) return null;
    if (steps.every(([kind]) => kind === " ")) return h("p", { class: "quiet-text small" }, "no difference");
    return Assay.copyable(block(folded(steps), label), () => patchOf(steps), label);
  };

  /* Whether a text reads as a unified diff, or as the patches of some harnesses. */
  Assay.isPatch = (text) => /^(diff --git |\*\*\* Begin Patch|@@ -\d+(,\d+)? \+\d+)/m.test(text.slice(0, 20000));

  /* Assay.patch(text, label): the lines of a unified diff, coloured. */
  Assay.patch = (text, label = "patch") => block(text.split("\n").slice(0, MOST_LINES).map((line) => {
    if (/^(diff --git |index [0-9a-f]|--- |\+\+\+ |\*\*\* )/.test(line)) return row("!", line);
    if (line.startsWith("@@")) return row("@", line);
    if (line.startsWith("+") || line.startsWith("-")) return row(line[0], line.slice(1));
    return row(" ", line);
  }), label);
})();
