"use strict";
/* A run: what came of it, and the table of its attempts with search, facets and sorting. */

(() => {
  const { h, fill, format, line } = Assay;
  const left = new Map(); /* run to the attempt that was opened last, to come back to */
  const CARDS = [["outcome", "Outcome"], ["integrity", "Integrity"], ["process", "Process"], ["safety", "Safety"],
    ["again", "Judged again"]];
  const AGAIN = { agree: "pass", disagree: "fail", flaky: "doubt", cannot: "unknown" };
  const SIDE = [["agent", "Agent"], ["model", "Model"], ["how", "How it ended"]];
  const SHOWN_VALUES = 12;
  const MOST_COMPARED = 8;

  Assay.route("/run/{run}", async (page) => {
    const run = page.parts.run;
    const state = { run, page, chosen: {}, words: "", every: false, sort: null, down: false, active: 0, picked: new Set() };
    const tabs = Assay.runTabs(page, run, "attempts");
    fill(page.root, heading(run), tabs, h("p", { class: "quiet-text", role: "status" }, "Loading…"));
    const view = await Assay.load(Assay.path("run", run, "rows"), { fresh: !Assay.exported });
    if (page.signal.aborted) return;
    state.table = Assay.columns(view);
    state.prefix = prefixOf(view.names.task);
    build(state, tabs, view);
    adopt(state, page.query);
    page.update = (parts, query) => {
      if (parts.run !== run) return false;
      adopt(state, query);
      return true;
    };
    comeBack(state);
    keys(state);
    follow(state, view.seq);
    summary(state);
    tagged(state);
  });

  /* Tags that people gave: loaded after the table, since only some runs have them. */
  async function tagged(state) {
    const found = await Assay.load(Assay.path("run", state.run, "annotations"), { fresh: !Assay.exported }).catch(() => null);
    const tags = new Map(Object.entries(found ? found.attempts : {}).map(([chain, one]) => [chain, one.tags]));
    if (state.page.signal.aborted || !tags.size) return;
    state.tagged = tags;
    state.table.tag(tags);
    draw(state, { keep: true });
  }

  /* The common prefix of all tasks' names, up to a slash, is not informative. */
  function prefixOf(tasks) {
    const first = tasks.length ? tasks[0].slice(0, tasks[0].indexOf("/") + 1) : "";
    return first && tasks.every((name) => name.startsWith(first)) ? first : "";
  }

  function heading(run, facts = []) {
    return h("div", { class: "head" }, h("h1", null, line(run)), h("div", { class: "facts" }, facts));
  }

  /* ---- the parts of the page ----------------------------------------------------------------------------------- */

  function build(state, tabs, view) {
    const { page } = state;
    state.head = heading(state.run);
    state.groups = h("div", { class: "groups" });
    state.cards = h("section", { class: "cards", "aria-label": "Verdicts" });
    state.side = h("details", { class: "facets panel", open: window.matchMedia("(min-width: 62rem)").matches },
      h("summary", null, "Filters"), h("div", { class: "facet-lists" }));
    state.search = h("input", { type: "search", class: "search", placeholder: "Search task, agent, model, error",
      "aria-label": "Search attempts", "aria-keyshortcuts": "/", spellcheck: "false", autocomplete: "off" });
    state.search.addEventListener("input", () => change(state, { words: state.search.value }));
    state.search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "ArrowDown") return;
      event.preventDefault();
      activate(state, 0);
    });
    state.told = h("p", { class: "small told", role: "status" });
    state.inside = h("button", { type: "button", class: "button", hidden: true, onclick: () => inside(state) }, "Search in steps");
    state.hits = h("div", { class: "hits" });
    state.clear = h("button", { type: "button", class: "button", onclick: () => change(state, { chosen: {}, words: "" }) },
      "Clear filters");
    state.tries = h("label", { class: "check small" },
      h("input", { type: "checkbox", onchange: (event) => change(state, { every: event.target.checked }) }),
      " All trials");
    state.compare = h("a", { class: "button", hidden: true, href: "#/" }, "Compare");
    state.pills = h("div", { class: "pills" });
    const note = view.certificates ? h("p", { class: "note" },
      `${format.count(view.certificates)} certificate${view.certificates === 1 ? "" : "s"} of admission: see `,
      h("a", { href: Assay.href("run", state.run, "soundness") }, "Soundness"), ".") : null;
    grid(state);
    if (view.on_nodes && !Assay.exported) tabs.append(h("a", { href: Assay.href("run", state.run, "nodes") }, "Nodes"));
    if (view.of_service && !Assay.exported) tabs.append(h("a", { href: "#/service" }, "Service"));
    const copied = h("div");
    if (Assay.exported) Assay.load("export").then((found) => fill(copied, h("p", { class: "note" }, found.note)), () => {});
    fill(page.root, state.head, tabs, copied, state.cards, note, state.groups,
      h("div", { class: "work" }, state.side,
        h("section", { class: "found", "aria-label": "Attempts" },
          h("div", { class: "tools" }, state.search, state.inside, state.told, state.tries, state.compare, state.clear), state.pills,
          state.hits, state.grid)));
  }

  const COLUMNS = [
    { name: "outcome", title: "Outcome", cell: outcomeCell },
    { name: "separation", title: "Separation", cell: separationCell },
    { name: "attempt", title: "Attempt", cell: nameCell },
    { name: "agent", title: "Agent", cell: textCell },
    { name: "model", title: "Model", cell: textCell },
    { name: "integrity", title: "Integrity", cell: statusCell },
    { name: "process", title: "Process", cell: statusCell },
    { name: "safety", title: "Safety", cell: statusCell },
    { name: "how", title: "Ended", cell: textCell },
    { name: "score", title: "Score", number: (n) => String(Math.round(n * 1000) / 1000) },
    { name: "steps", title: "Steps", number: format.count },
    { name: "seconds", title: "Time", number: format.seconds },
    { name: "tokens", title: "Tokens", number: format.tokens },
    { name: "cost", title: "Cost", number: format.money },
  ];

  /* Columns that are left out where no attempt has anything in them. */
  const OPTIONAL = ["model", "integrity", "process", "safety", "score", "tokens", "cost"];

  function grid(state) {
    state.heads = new Map();
    const cells = COLUMNS.map((column, at) => {
      const button = h("button", { type: "button", tabindex: "-1", onclick: () => sortBy(state, column.name) }, column.title);
      const head = h("div", { role: "columnheader", class: `c-${column.name}${column.number ? " number" : ""}`,
        "aria-colindex": String(at + 2) }, button);
      button.tabIndex = 0;
      state.heads.set(column.name, head);
      return head;
    });
    state.top = h("div", { role: "row", class: "row heads", "aria-rowindex": "1" },
      h("div", { role: "columnheader", class: "c-pick", "aria-colindex": "1" }, h("span", { class: "unseen" }, "Selected for comparison")), cells);
    state.list = Assay.virtual({
      count: 0,
      estimate: 33,
      role: "rowgroup",
      row: (place) => attemptRow(state, place),
      inset: () => state.top.offsetHeight,
    });
    state.none = h("p", { class: "empty" }, "No attempts match. ",
      h("button", { type: "button", class: "button", onclick: () => change(state, { chosen: {}, words: "" }) }, "Clear filters"));
    state.grid = h("div", { class: "panel grid-frame" },
      h("div", { class: "grid attempts", role: "grid", "aria-label": "Attempts", "aria-multiselectable": "true",
        "aria-colcount": String(COLUMNS.length + 1) }, h("div", { role: "rowgroup", class: "heads-group" }, state.top), state.list.element),
      state.none);
    state.list.element.addEventListener("keydown", (event) => inGrid(state, event));
    state.list.element.addEventListener("click", (event) => {
      const row = event.target.closest("[data-index]");
      if (row && !event.target.closest("a, input, button") && !event.target.closest(".c-pick") && !String(getSelection())) {
        setActive(state, Number(row.dataset.index));
        open(state);
      } else if (row && event.target.closest("a")) left.set(state.run, state.table.value("chain", state.rows[Number(row.dataset.index)]));
    });
  }

  function attemptRow(state, place) {
    const { table } = state;
    const row = state.rows[place];
    const chain = table.value("chain", row);
    const box = h("input", { type: "checkbox", tabindex: "-1", checked: state.picked.has(chain),
      "aria-label": `Compare ${plainName(table.attempt(row))}`, onchange: () => pick(state, chain) });
    const made = h("div", { role: "row", class: "row", "aria-rowindex": String(place + 2), tabindex: place === state.active ? "0" : "-1",
      "aria-selected": state.picked.has(chain) ? "true" : "false", "data-final": table.value("final", row) ? null : "no" },
    h("div", { role: "gridcell", class: "c-pick" }, box),
    COLUMNS.map((column) => cell(state, column, row)));
    made.addEventListener("focus", () => setActive(state, place));
    return made;
  }

  function cell(state, column, row) {
    const made = h("div", { role: "gridcell", class: `c-${column.name}${column.number ? " number" : ""}`, "data-title": column.title });
    if (column.cell) return Assay.fill(made, column.cell(state, column.name, row)), made;
    const value = state.table.value(column.name, row);
    made.append(value === null ? "–" : column.number(value));
    return made;
  }

  function outcomeCell(state, name, row) {
    const kind = state.table.text("outcome", row);
    const headline = state.table.text("headline", row);
    const words = kind === "open" ? "running" : kind === "error" ? "error" : kind === "unknown" ? "not judged" : kind === "doubt" ? "doubtful" : kind;
    const status = Assay.status(kind, words);
    if (headline && headline !== words) status.title = headline;
    return status;
  }

  function separationCell(state, name, row) {
    const kind = state.table.text("outcome", row);
    return h("span", { class: "small" }, kind === "pass" || kind === "doubt" ? line(state.table.text(name, row) || "unknown") : "–");
  }

  function nameCell(state, _, row) {
    const chain = state.table.value("chain", row);
    const retry = state.table.value("retry", row);
    const name = state.table.attempt(row);
    const error = state.table.value("error", row);
    const link = h("a", { href: Assay.href("run", state.run, "attempt", chain), tabindex: "-1", title: plainName(name) },
      line(name.startsWith(state.prefix) ? name.slice(state.prefix.length) : name));
    const tags = state.table.tags(row).map((tag) => h("button", { type: "button", class: "tag person-tag", tabindex: "-1", title: "attempts with this tag",
      onclick: () => change(state, { words: `tag:${tag.replace(/ /g, "-")}` }) }, line(tag)));
    return [link, retry ? h("span", { class: "tag" }, `try ${retry + 1}`) : null, tags,
      error ? h("span", { class: "small bad cut", title: plainName(error) }, line(error)) : null];
  }

  function textCell(state, name, row) {
    const value = state.table.text(name, row);
    if (value === null) return h("span", { class: "quiet-text" }, "–");
    const shown = h("span", { class: "cut" }, line(value));
    shown.title = plainName(value);
    return shown;
  }

  function statusCell(state, name, row) {
    const value = state.table.text(name, row);
    return value === null ? h("span", { class: "quiet-text" }, "–") : Assay.status(value, value);
  }

  const plainName = (words) => Assay.plain(words, 300);

  /* ---- what is chosen ------------------------------------------------------------------------------------------ */

  function change(state, given) {
    Object.assign(state, given);
    if (state.search.value !== state.words) state.search.value = state.words;
    Assay.go(address(state), { replace: true });
    draw(state);
  }

  function address(state) {
    const query = new URLSearchParams();
    for (const name of state.table.facets) {
      for (const value of state.chosen[name] || []) query.append(name, value);
    }
    if (state.words) query.set("q", state.words);
    if (state.every) query.set("tries", "all");
    if (state.sort) query.set("sort", (state.down ? "-" : "") + state.sort);
    const words = query.toString();
    return Assay.href("run", state.run) + (words ? `?${words}` : "");
  }

  function adopt(state, query) {
    state.chosen = {};
    for (const name of state.table.facets) {
      const values = query.getAll(name);
      if (values.length) state.chosen[name] = new Set(values);
    }
    state.words = query.get("q") || "";
    state.every = query.get("tries") === "all";
    const sort = query.get("sort") || "";
    const name = sort.replace(/^-/, "");
    state.sort = COLUMNS.some((column) => column.name === name) ? name : null;
    state.down = sort.startsWith("-");
    state.search.value = state.words;
    state.tries.querySelector("input").checked = state.every;
    draw(state);
  }

  function toggle(state, facet, value) {
    const now = new Set(state.chosen[facet] || []);
    if (!now.delete(value)) now.add(value);
    change(state, { chosen: { ...state.chosen, [facet]: now } });
  }

  function sortBy(state, name) {
    const column = COLUMNS.find((one) => one.name === name);
    const firstDown = Boolean(column.number);
    if (state.sort !== name) change(state, { sort: name, down: firstDown });
    else if (state.down === firstDown) change(state, { down: !firstDown });
    else change(state, { sort: null, down: false });
  }

  function pick(state, chain) {
    if (!state.picked.delete(chain)) state.picked.add(chain);
    while (state.picked.size > MOST_COMPARED) state.picked.delete(state.picked.values().next().value);
    const many = state.picked.size;
    state.compare.hidden = many < 2;
    state.compare.textContent = `Compare ${many} attempts`;
    state.compare.setAttribute("href", Assay.href("run", state.run, "compare", [...state.picked]));
    const [first, last] = state.list.range();
    for (let place = first; place <= last; place += 1) {
      const made = state.list.at(place);
      if (!made) continue;
      const chosen = state.picked.has(state.table.value("chain", state.rows[place]));
      made.setAttribute("aria-selected", String(chosen));
      made.querySelector("input").checked = chosen;
    }
    Assay.say(`${many} selected for comparison`);
  }

  /* ---- drawing ------------------------------------------------------------------------------------------------- */

  function draw(state, { keep = false } = {}) {
    const { table } = state;
    const activeChain = state.rows && state.rows.length ? table.value("chain", state.rows[state.active]) : null;
    table.order(state.sort, state.down);
    const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
    const found = table.select({ chosen: state.chosen, words, every: state.every });
    state.rows = found.rows;
    Assay.readingList = { run: state.run, count: found.rows.length, at: (chain) => found.rows.indexOf(table.row(chain)), chain: (row) => table.value("chain", found.rows[row]) };
    const place = keep && activeChain !== null ? found.rows.indexOf(table.row(activeChain)) : 0;
    state.active = Math.max(0, place);
    const held = keep && state.list.element.contains(document.activeElement);
    state.list.reset(found.rows.length, { keep: true }); /* first: it reads the layout, which what follows changes */
    if (held) activate(state, state.active);
    drawCards(state, found.facets);
    drawSide(state, found.facets);
    drawPills(state);
    for (const [name, head] of state.heads) {
      head.setAttribute("aria-sort", state.sort === name ? (state.down ? "descending" : "ascending") : "none");
    }
    state.grid.querySelector("[role=grid]").setAttribute("aria-rowcount", String(found.rows.length + 1));
    state.none.hidden = found.rows.length > 0;
    const all = found.all;
    state.told.textContent = found.rows.length === all ? `${format.count(all)} ${all === 1 ? "attempt" : "attempts"}`
      : `${format.count(found.rows.length)} of ${format.count(all)} attempts`;
    if (state.count !== table.count) {
      state.count = table.count;
      for (const name of OPTIONAL) state.grid.classList.toggle(`no-${name}`, !table.known(name));
    }
    const filtered = words.length > 0 || Object.values(state.chosen).some((values) => values.size);
    state.clear.hidden = !filtered;
    state.inside.hidden = Assay.exported || !words.length;
    if (state.hitsOf !== state.words) fill(state.hits);
  }

  function drawCards(state, facets) {
    const focused = focusKey(state.cards);
    fill(state.cards, CARDS.map(([name, title]) => {
      const counts = facets[name];
      const known = [...counts].filter(([value]) => value !== state.table.none);
      if (!known.length && name !== "outcome") return null;
      const kind = (value) => (name === "again" ? AGAIN[value] || "unknown" : value);
      const order = name === "outcome" ? Assay.outcomes : ["pass", "fail", "unknown", "error", "agree", "disagree", "flaky", "cannot"];
      known.sort((a, b) => order.indexOf(a[0]) - order.indexOf(b[0]));
      const missing = counts.get(state.table.none) || 0;
      const total = known.reduce((sum, [, number]) => sum + number, 0) + missing;
      const share = {};
      known.forEach(([value, number]) => { share[kind(value)] = number; });
      if (missing) share.none = missing;
      return h("div", { class: "card panel" }, h("h2", null, title), Assay.bar(share, { label: title }),
        h("ul", null, known.map(([value, number]) => valueButton(state, name, value, number, total, kind(value))),
          counts.has(state.table.none) && name !== "outcome" ? valueButton(state, name, state.table.none, missing, total, "none") : null));
    }));
    refocus(state.cards, focused);
  }

  function valueButton(state, name, value, number, total, kind) {
    const words = value === state.table.none ? "none given" : name === "outcome" ? Assay.outcomeWord(value) : value;
    return h("li", null, h("button", { type: "button", class: "value", "aria-pressed": has(state, name, value) ? "true" : "false",
      "data-key": `${name} ${value}`, "data-count": number ? null : "0", onclick: () => toggle(state, name, value) },
    h("span", { class: "dot", "data-status": kind }), h("span", { class: "value-name" }, line(words)),
    h("span", { class: "value-count" }, format.count(number)),
    h("span", { class: "value-share" }, format.share(number, total))));
  }

  function drawSide(state, facets) {
    const focused = focusKey(state.side);
    const lists = state.side.querySelector(".facet-lists");
    fill(lists, SIDE.map(([name, title]) => {
      const every = [...facets[name]];
      if (every.length < 2) return null;
      every.sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
      const most = Math.max(1, ...every.map(([, number]) => number));
      const all = state[`all-${name}`];
      const shown = all ? every : every.filter(([value], at) => at < SHOWN_VALUES || has(state, name, value));
      const more = every.length - shown.length;
      return h("div", { class: "facet", role: "group", "aria-label": title }, h("h3", null, title),
        h("ul", null, shown.map(([value, number]) => h("li", null,
          Assay.size(h("button", { type: "button", class: "value", "aria-pressed": has(state, name, value) ? "true" : "false",
            "data-key": `${name} ${value}`, "data-count": number ? null : "0", title: plainName(value), onclick: () => toggle(state, name, value) },
          h("span", { class: "value-name" }, line(value)), h("span", { class: "value-count" }, format.count(number))),
          { "--share": number / most })))),
        more > 0 ? h("button", { type: "button", class: "quiet", onclick: () => { state[`all-${name}`] = true; draw(state, { keep: true }); } },
          `${format.count(more)} more`) : null);
    }));
    state.side.hidden = !lists.children.length;
    refocus(state.side, focused);
  }

  function drawPills(state) {
    const made = [];
    for (const name of state.table.facets) {
      for (const value of state.chosen[name] || []) {
        const words = name === "outcome" ? Assay.outcomeWord(value) : value;
        made.push(h("button", { type: "button", class: "pill", "aria-label": `Remove filter ${name} ${plainName(words)}`,
          onclick: () => toggle(state, name, value) }, `${name}: `, line(words), h("span", { "aria-hidden": "true" }, " ×")));
      }
    }
    fill(state.pills, made);
    state.pills.hidden = !made.length;
  }

  function has(state, name, value) {
    return Boolean(state.chosen[name] && state.chosen[name].has(value));
  }

  function focusKey(within) {
    return within.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  }

  function refocus(within, key) {
    if (!key) return;
    for (const one of within.querySelectorAll("[data-key]")) {
      if (one.dataset.key === key) one.focus({ preventScroll: true });
    }
  }

  /* ---- texts of steps ------------------------------------------------------------------------------------------ */

  async function inside(state) {
    const words = state.words.trim();
    if (!words) return;
    state.hitsOf = state.words;
    fill(state.hits, h("p", { class: "small quiet-text", role: "status" }, "Searching…"));
    let found;
    try {
      found = await Assay.load(Assay.path("run", state.run, "find", words), { fresh: true });
    } catch (error) {
      if (!(error instanceof Assay.Failure)) throw error;
      fill(state.hits, h("p", { class: "note", role: "alert" }, error.message));
      return;
    }
    if (state.page.signal.aborted || state.words.trim() !== words) return;
    const many = `${found.cut ? "The first " : ""}${format.count(found.hits.length)} ${found.hits.length === 1 ? "match" : "matches"} in steps`;
    fill(state.hits, h("section", { class: "panel", "aria-label": "Places in steps" },
      h("div", { class: "hits-head" }, h("h2", { role: "status" }, many),
        h("button", { type: "button", class: "quiet", onclick: () => { state.hitsOf = null; fill(state.hits); state.search.focus(); } }, "Close")),
      found.hits.length ? h("ol", null, found.hits.map((hit) => hitRow(state, hit, words))) : null));
  }

  function hitRow(state, hit, words) {
    const name = hit.attempt.startsWith(state.prefix) ? hit.attempt.slice(state.prefix.length) : hit.attempt;
    return h("li", null,
      h("a", { href: Assay.href("run", state.run, "attempt", hit.chain, "step", hit.step), title: plainName(hit.attempt) }, line(name),
        ` · step ${hit.step} · ${hit.place}`),
      h("samp", null, Assay.excerpt(hit.excerpt, words)));
  }

  /* ---- keys ---------------------------------------------------------------------------------------------------- */

  function setActive(state, place) {
    if (place === state.active) return;
    const before = state.list.at(state.active);
    if (before) before.tabIndex = -1;
    state.active = place;
    const now = state.list.at(place);
    if (now) now.tabIndex = 0;
  }

  function activate(state, place) {
    if (!state.rows.length) return;
    const to = Math.max(0, Math.min(state.rows.length - 1, place));
    const before = state.list.at(state.active);
    if (before) before.tabIndex = -1;
    state.active = to;
    const made = state.list.show(to);
    if (made) {
      made.tabIndex = 0;
      made.focus({ preventScroll: true });
    }
  }

  function open(state) {
    const chain = state.table.value("chain", state.rows[state.active]);
    left.set(state.run, chain);
    Assay.go(Assay.href("run", state.run, "attempt", chain));
  }

  function comeBack(state) {
    const chain = left.get(state.run);
    const place = chain === undefined ? -1 : state.rows.indexOf(state.table.row(chain));
    left.delete(state.run);
    if (place > 0) requestAnimationFrame(() => activate(state, place));
  }

  function inGrid(state, event) {
    const page = Math.max(1, Math.floor(document.getElementById("main").clientHeight / 40));
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target.tagName === "A" || event.target.tagName === "INPUT") return;
    if (event.key in moves) {
      event.preventDefault();
      activate(state, state.active + moves[event.key]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(state);
    } else if (event.key === " ") {
      event.preventDefault();
      pick(state, state.table.value("chain", state.rows[state.active]));
    }
  }

  function keys(state) {
    const inList = () => state.list.element.contains(document.activeElement);
    Assay.key("/", "search", () => {
      state.search.focus();
      state.search.select();
    });
    Assay.key("j", "next attempt", () => activate(state, inList() ? state.active + 1 : state.active));
    Assay.key("k", "attempt before", () => activate(state, inList() ? state.active - 1 : state.active));
    Assay.key("Enter", "open the attempt", () => (inList() ? open(state) : false));
    Assay.key("x", "select the attempt for comparison", () => {
      if (state.rows.length) pick(state, state.table.value("chain", state.rows[state.active]));
    });
    Assay.key("c", "compare the selected ones", () => {
      if (state.picked.size > 1) Assay.go(state.compare.getAttribute("href"));
    });
    Assay.key("f", "failures alone", () => toggle(state, "outcome", "fail"));
    Assay.key("Escape", "clear the filters", () => change(state, { chosen: {}, words: "" }));
  }

  /* ---- what changes meanwhile ---------------------------------------------------------------------------------- */

  function follow(state, seq) {
    if (seq === null) return;
    const { page } = state;
    let timer = null;
    let taken = Promise.resolve(); /* one after the other: what comes while the table is loaded anew is merged into the new one */
    Assay.live(state.run, seq, (name, data) => {
      if (page.signal.aborted) return;
      if (name === "state") {
        state.runState = data.state;
        Assay.liveness(data.state === "running" ? "on" : "idle", data.state);
        showState(state);
      }
      if (name === "lost") Assay.liveness("lost", "connection lost");
      if (name === "failed") Assay.liveness("lost", data.error);
      if (name === "ended") Assay.liveness(null);
      /* What came last before a run was sealed is told by the sealed run alone. */
      const news = name === "rows" ? data : name === "ended" ? { reload: true } : null;
      if (news) taken = taken.then(() => take(news)).catch((error) => Assay.liveness("lost", error.message));
    });
    const take = async (data) => {
      if (data.reload) replace(state, Assay.columns(await Assay.load(Assay.path("run", state.run, "rows"), { fresh: true })));
      else state.table.merge(data);
      state.count = null;
      timer = timer || setTimeout(() => {
        timer = null;
        if (page.signal.aborted) return;
        draw(state, { keep: true });
        summary(state);
      }, 400);
    };
    page.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      Assay.liveness(null);
    });
  }

  /* Another table has other rows: who was chosen stays so, and all is drawn at once. */
  function replace(state, table) {
    const chain = state.rows.length ? state.table.value("chain", state.rows[state.active]) : null;
    const row = chain === null ? undefined : table.row(chain);
    if (state.tagged) table.tag(state.tagged);
    Object.assign(state, { table, rows: row === undefined ? [] : [row], active: 0, count: null });
    if (!state.page.signal.aborted) draw(state, { keep: true });
  }

  /* ---- the summary: counts from the table, intervals when they come -------------------------------------------- */

  async function summary(state) {
    const known = groupsOf(state.table);
    const shown = state.groups.querySelector("details.results");
    const open = shown ? shown.open : known.length <= 3;
    const put = (card) => fill(state.groups, card && card.problem ? h("p", { class: "note" }, card.problem) : null,
      known.length ? groupTable(known, card, open) : null, card ? asked(card) : null);
    if (!shown) put(null);
    let card;
    try {
      card = await Assay.load(Assay.path("run", state.run, "card"), { fresh: !Assay.exported });
    } catch (error) {
      if (!(error instanceof Assay.Failure)) throw error;
      card = { problem: error.message, groups: [], facts: [], manifest: "" };
    }
    if (state.page.signal.aborted) return;
    fill(state.head.querySelector(".facts"), card.facts.map(([name, words]) => (name === "state" ? h("span", { class: "run-state" }, Assay.runState(words))
      : h("span", null, `${name} `, h("bdi", { class: "fact" }, line(words))))));
    showState(state);
    put(card);
  }

  /* The state that the server told last. */
  function showState(state) {
    const shown = state.head.querySelector(".run-state");
    if (shown && state.runState) fill(shown, Assay.runState(state.runState));
  }

  function groupsOf(table) {
    const groups = new Map();
    for (let row = 0; row < table.count; row += 1) {
      if (!table.value("final", row)) continue;
      const [agent, model, outcome] = ["agent", "model", "outcome"].map((name) => table.text(name, row));
      const key = JSON.stringify([agent, model]);
      if (!groups.has(key)) groups.set(key, { key, agent, model, counts: {}, all: 0 });
      const group = groups.get(key);
      group.counts[outcome] = (group.counts[outcome] || 0) + 1;
      group.all += 1;
    }
    return [...groups.values()].sort((a, b) => (a.key < b.key ? -1 : 1));
  }

  const GROUPS = 60;

  function groupTable(groups, card, open) {
    const heads = ["Agent", "Model", "Attempts", "Outcomes", "Pass", "Doubtful", "Fail", "Unknown", "Error", "pass@1 with its 95% interval"];
    const intervals = new Map((card ? card.groups : []).map((group) => [JSON.stringify([group.agent, group.model]), group]));
    const rows = groups.slice(0, GROUPS).map((group) => {
      const ordered = Object.fromEntries(Assay.outcomes.map((name) => [name, group.counts[name] || 0]));
      const numbers = [ordered.pass, ordered.doubt, ordered.fail, ordered.unknown, ordered.error];
      return h("tr", null, h("th", { scope: "row" }, line(group.agent)), h("td", null, line(group.model || "–")),
        h("td", { class: "number" }, format.count(group.all)), h("td", { class: "bar-cell slim" }, Assay.bar(ordered, { label: "Outcomes" })),
        numbers.map((number) => h("td", { class: "number" }, format.count(number))),
        h("td", { class: "interval-cell" }, card ? interval(intervals.get(group.key)) : h("span", { class: "quiet-text" }, "…")));
    });
    const table = h("table", { class: "plain" },
      h("thead", null, h("tr", null, heads.map((name, at) => h("th", { scope: "col", class: at === 2 || (at > 3 && at < 9) ? "number" : null }, name)))),
      h("tbody", null, rows));
    return h("details", { class: "results", open },
      h("summary", null, `Results by agent and model (${format.count(groups.length)})`),
      h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Results by agent and model" }, table),
      groups.length > GROUPS ? h("p", { class: "small quiet-text" }, `${format.count(groups.length - GROUPS)} more: assay stats lists them.`) : null);
  }

  function interval(group) {
    if (!group || group.value === null) return h("span", { class: "quiet-text" }, group && group.why ? group.why : "–");
    const words = group.low === null ? group.value.toFixed(3) : `${group.value.toFixed(3)} [${group.low.toFixed(3)}, ${group.high.toFixed(3)}]`;
    const track = h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "reach" }), h("span", { class: "point" }));
    return [Assay.size(track, { "--low": group.low ?? group.value, "--high": group.high ?? group.value, "--value": group.value }),
      h("span", { class: "interval-words" }, words)];
  }

  function asked(card) {
    return card.manifest ? h("details", { class: "asked" }, h("summary", null, "Configuration"), Assay.copyable(h("pre", { tabindex: "0" }, card.manifest), card.manifest, "configuration")) : null;
  }
})();
