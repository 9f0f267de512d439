"use strict";
/* A run task by task: where attempts agree, and where they do not. */

(() => {
  const { h, fill, format, line } = Assay;
  const COMPARED = 4;
  const COLUMNS = [
    ["task", "Task"], ["outcomes", "Outcomes"], ["all", "Attempts"], ["share", "Pass"], ["doubt", "Doubtful"], ["fail", "Fail"],
    ["unknown", "Unknown"], ["error", "Error"], ["integrity", "No integrity"], ["safety", "Not safe"], ["compare", "Compare"],
  ];
  const TOTALS = new Set(["all", "doubt", "fail", "unknown", "error", "integrity", "safety"]);

  Assay.route("/run/{run}/tasks", async (page) => {
    const run = page.parts.run;
    const tabs = Assay.runTabs(page, run, "tasks");
    const head = h("div", { class: "head" }, h("h1", null, "Tasks of ", line(run)));
    fill(page.root, head, tabs, h("p", { class: "quiet-text", role: "status" }, "Loading…"));
    const table = Assay.columns(await Assay.load(Assay.path("run", run, "rows"), { fresh: !Assay.exported }));
    if (page.signal.aborted) return;
    const state = { run, tasks: grouped(table), shown: [], sort: "task", down: false, words: "" };
    build(state, page, head, tabs);
    adopt(state, page.query);
    page.update = (parts, query) => {
      if (parts.run !== run) return false;
      adopt(state, query);
      return true;
    };
    Assay.key("/", "search", () => state.search.focus());
  });

  function grouped(table) {
    const tasks = new Map();
    for (let row = 0; row < table.count; row += 1) {
      if (!table.value("final", row)) continue;
      const name = table.text("task", row);
      if (!tasks.has(name)) tasks.set(name, { task: name, all: 0, integrity: 0, safety: 0, counts: {}, chains: [] });
      const task = tasks.get(name);
      const outcome = table.text("outcome", row);
      task.all += 1;
      task.counts[outcome] = (task.counts[outcome] || 0) + 1;
      task.integrity += table.text("integrity", row) === "fail" ? 1 : 0;
      task.safety += table.text("safety", row) === "fail" ? 1 : 0;
      if (task.chains.length < COMPARED) task.chains.push(table.value("chain", row));
    }
    const found = [...tasks.values()];
    for (const task of found) {
      const { pass = 0, doubt = 0, fail = 0, unknown = 0, error = 0 } = task.counts;
      Object.assign(task, { doubt, fail, unknown, error, judged: pass + doubt + fail });
      task.share = task.judged ? pass / task.judged : null;
    }
    return found;
  }

  function build(state, page, head, tabs) {
    state.search = h("input", { type: "search", class: "search", placeholder: "Search tasks", "aria-label": "Search tasks",
      "aria-keyshortcuts": "/", spellcheck: "false" });
    state.search.addEventListener("input", () => {
      state.words = state.search.value;
      changed(state);
    });
    state.told = h("p", { class: "small told", role: "status" });
    state.heads = new Map();
    const cells = COLUMNS.map(([name, title]) => {
      const can = name !== "outcomes" && name !== "compare";
      const cell = h("div", { role: "columnheader", class: `c-${name}${TOTALS.has(name) || name === "share" ? " number" : ""}` },
        can ? h("button", { type: "button", onclick: () => sortBy(state, name) }, title) : h("span", { class: "head-text" }, title));
      if (can) state.heads.set(name, cell);
      return cell;
    });
    state.list = Assay.virtual({ count: 0, estimate: 36, role: "rowgroup", row: (place) => taskRow(state, place) });
    const top = h("div", { role: "rowgroup", class: "heads-group" }, h("div", { role: "row", class: "row heads", "aria-rowindex": "1" }, cells));
    state.frame = h("div", { role: "table", class: "grid tasks", "aria-label": "Tasks" }, top, state.list.element);
    fill(page.root, head, tabs, h("div", { class: "tools" }, state.search, state.told), h("div", { class: "panel grid-frame" }, state.frame));
  }

  function taskRow(state, place) {
    const task = state.shown[place];
    const counts = Object.fromEntries(Assay.outcomes.map((name) => [name, task.counts[name] || 0]));
    const cell = (name, content, number) => h("div", { role: "cell", class: `c-${name}${number ? " number" : ""}` }, content);
    const total = (name) => cell(name, task[name] ? format.count(task[name]) : h("span", { class: "quiet-text" }, "0"), true);
    return h("div", { role: "row", class: "row", "aria-rowindex": String(place + 2) },
      cell("task", [h("a", { href: Assay.href("run", state.run, { task: task.task }) }, line(task.task)),
        Assay.exported ? null : [" ", h("a", { class: "small", href: Assay.href("task", task.task), "aria-label": `all runs of ${Assay.plain(task.task)}` }, "all runs")]]),
      cell("outcomes", Assay.bar(counts, { label: "Outcomes" })), total("all"),
      cell("share", task.share === null ? "–" : format.share(task.counts.pass || 0, task.judged), true),
      total("doubt"), total("fail"), total("unknown"), total("error"), total("integrity"), total("safety"),
      cell("compare", task.chains.length > 1 ? h("a", { href: Assay.href("run", state.run, "compare", task.chains) }, `first ${task.chains.length}`) : "–"));
  }

  function sortBy(state, name) {
    state.down = state.sort === name ? !state.down : name !== "task";
    state.sort = name;
    changed(state);
  }

  /* What is chosen stands in the address. */
  function changed(state) {
    const sort = state.sort === "task" && !state.down ? "" : (state.down ? "-" : "") + state.sort;
    Assay.go(Assay.href("run", state.run, "tasks", { q: state.words, sort }), { replace: true });
    draw(state);
  }

  function adopt(state, query) {
    const sort = query.get("sort") || "task";
    const name = sort.replace(/^-/, "");
    state.sort = state.heads.has(name) ? name : "task";
    state.down = sort.startsWith("-");
    state.words = query.get("q") || "";
    state.search.value = state.words;
    draw(state);
  }

  function draw(state) {
    const { sort, down } = state;
    const sign = down ? -1 : 1;
    state.shown = state.tasks.filter((task) => task.task.toLowerCase().includes(state.words.toLowerCase())).sort((a, b) => {
      const [first, second] = [a[sort], b[sort]];
      if (first === null || second === null) return (first === null) - (second === null);
      return sign * (first < second ? -1 : first > second ? 1 : 0) || (a.task < b.task ? -1 : 1);
    });
    for (const [name, cell] of state.heads) cell.setAttribute("aria-sort", name !== sort ? "none" : down ? "descending" : "ascending");
    state.frame.setAttribute("aria-rowcount", String(state.shown.length + 1));
    state.told.textContent = `${format.count(state.shown.length)} ${state.shown.length === 1 ? "task" : "tasks"}`;
    state.list.reset(state.shown.length);
  }
})();
