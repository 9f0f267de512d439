"use strict";
/* All runs of the store: grouped by the grid or recipe that made them, filtered, chosen to be laid over each other. */

(() => {
  const { h, fill, format, line } = Assay;
  const FIRST = 100;
  const MOST_OVERLAID = 12;
  const STATES = ["running", "interrupted", "finished", "sealed"];

  Assay.route("/", async (page) => {
    page.title("Runs");
    const view = { page, data: await Assay.load("runs", { fresh: !Assay.exported }), limit: FIRST, picked: new Set(), folded: new Set() };
    if (page.signal.aborted) return;
    build(view);
    adopt(view, page.query);
    page.update = (parts, query) => {
      adopt(view, query);
      return true;
    };
    Assay.key("/", "search", () => view.search.focus());
    Assay.live(null, 0, async (name) => {
      if (name === "lost") return Assay.liveness("lost", "connection lost");
      if (name !== "state") return undefined;
      Assay.liveness(null);
      view.data = await Assay.load("runs", { fresh: true });
      return page.signal.aborted ? undefined : draw(view);
    });
    page.signal.addEventListener("abort", () => Assay.liveness(null));
  });

  function build(view) {
    const { page, data } = view;
    view.body = h("tbody");
    view.told = h("p", { class: "small told", role: "status" });
    view.more = h("button", { type: "button", class: "button", onclick: () => { view.limit += 500; draw(view); } }, "Show more");
    view.search = h("input", { type: "search", class: "search", placeholder: "Run, agent or model", "aria-label": "Search runs",
      "aria-keyshortcuts": "/", spellcheck: "false", oninput: () => change(view, { words: view.search.value }) });
    view.states = h("select", { "aria-label": "State of runs", onchange: () => change(view, { state: view.states.value }) },
      h("option", { value: "" }, "Any state"), STATES.map((state) => h("option", { value: state }, state)));
    view.grouped = h("input", { type: "checkbox", onchange: () => change(view, { flat: !view.grouped.checked }) });
    view.overlay = h("a", { class: "button", hidden: true, href: "#/" }, "Overlay");
    view.inside = h("button", { type: "button", class: "button", onclick: () => view.search.value.trim() && Assay.go(Assay.href("search", { q: view.search.value.trim() })) },
      "Search in all steps");
    view.search.addEventListener("keydown", (event) => { if (event.key === "Enter" && !Assay.exported) view.inside.click(); });
    const heads = ["Select", "Run", "State", "Created", "Attempts", "Outcomes", "Tasks", "Agents and models"];
    fill(page.root,
      h("div", { class: "head" }, h("h1", null, "Runs"), h("p", { class: "facts" }, data.store === null ? null : h("span", null, "in the store ", h("bdi", null, line(data.store)))),
        Assay.exported ? null : h("p", { class: "facts" }, h("a", { href: "#/ledgers" }, "Skills and searches"),
          data.has_service ? h("a", { href: "#/service" }, "Rollout service") : null)),
      data.note ? h("p", { class: "note" }, data.note) : null,
      data.runs.length ? [
        h("div", { class: "tools" }, view.search, Assay.exported ? null : view.inside, view.states,
          h("label", { class: "check small" }, view.grouped, " Grouped"), view.told, view.overlay),
        h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Runs" },
          h("table", { class: "plain all-runs" }, h("thead", null, h("tr", null, heads.map((name) => h("th", { scope: "col", class: name === "Attempts" || name === "Tasks" ? "number" : null },
            name === "Select" ? h("span", { class: "unseen" }, "Selected for an overlay") : name)))), view.body)),
        h("p", null, view.more),
      ] : h("div", { class: "panel empty" }, "There are no runs in this store. ", h("code", null, "assay run"), " makes one, ",
        h("code", null, "assay demo"), " shows the whole."));
    view.body.addEventListener("click", (event) => {
      const link = event.target.closest("tr") && event.target.closest("tr").querySelector("th a");
      if (link && !event.target.closest("a, input, button, label") && !String(getSelection())) Assay.go(link.getAttribute("href"));
    });
  }

  /* ---- what is chosen stands in the address --------------------------------------------------------------------- */

  function change(view, given) {
    Object.assign(view, given);
    const query = { q: view.words, state: view.state, grouped: view.flat ? "no" : "" };
    Assay.go(Assay.href(query), { replace: true });
    draw(view);
  }

  function adopt(view, query) {
    view.words = query.get("q") || "";
    view.state = STATES.includes(query.get("state")) ? query.get("state") : "";
    view.flat = query.get("grouped") === "no";
    view.search.value = view.words;
    view.states.value = view.state;
    view.grouped.checked = !view.flat;
    draw(view);
  }

  function draw(view) {
    const words = view.words.toLowerCase().split(/\s+/).filter(Boolean);
    const found = view.data.runs.filter((one) => {
      const all = [one.run, one.group ? one.group.name : "", ...(one.agents || []), ...(one.models || [])].join(" ").toLowerCase();
      return words.every((word) => all.includes(word)) && (!view.state || one.state === view.state);
    });
    fill(view.body, view.flat ? found.slice(0, view.limit).map((one) => runRow(view, one)) : groupedRows(view, found));
    view.told.textContent = `${format.count(found.length)} ${found.length === 1 ? "run" : "runs"}` +
      (view.data.more ? `; ${format.count(view.data.more)} older ones are not listed` : "");
    view.more.hidden = found.length <= view.limit;
    chosen(view);
  }

  /* A group stands where its newest run does; its runs follow unless it is folded. */
  function groupedRows(view, found) {
    const groups = new Map();
    for (const one of found) {
      const key = one.group ? `${one.group.kind} ${one.group.name}` : `run ${one.run}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(one);
    }
    const rows = [];
    for (const [key, runs] of groups) {
      if (rows.length >= view.limit) break;
      if (!runs[0].group || runs.length === 1) rows.push(runRow(view, runs[0]));
      else rows.push(groupRow(view, key, runs), ...(view.folded.has(key) ? [] : runs.map((one) => runRow(view, one, true))));
    }
    return rows.slice(0, view.limit);
  }

  function groupRow(view, key, runs) {
    const { kind, name } = runs[0].group;
    const open = !view.folded.has(key);
    const counts = {};
    for (const one of runs) for (const [outcome, number] of Object.entries(one.counts || {})) counts[outcome] = (counts[outcome] || 0) + number;
    const total = runs.reduce((sum, one) => sum + (one.attempts || 0), 0);
    const boxes = runs.map((one) => one.run);
    const all = boxes.every((run) => view.picked.has(run));
    const states = [...new Set(runs.map((one) => one.state))];
    return h("tr", { class: "group-row" },
      h("td", null, h("input", { type: "checkbox", checked: all, "aria-label": `Select all runs of ${Assay.plain(name)}`, onchange: () => {
        for (const run of boxes) if (all) view.picked.delete(run); else view.picked.add(run);
        draw(view);
      } })),
      h("th", { scope: "row" }, h("button", { type: "button", class: "fold", "aria-expanded": String(open), "aria-label": `${open ? "fold" : "show"} the runs of ${Assay.plain(name)}`,
        onclick: () => { if (!view.folded.delete(key)) view.folded.add(key); draw(view); } }, open ? "▾" : "▸"),
      line(name), h("span", { class: "tag" }, `${kind} of ${format.count(runs.length)}`)),
      h("td", null, states.length === 1 ? Assay.runState(states[0]) : states.includes("running") ? Assay.runState("running") : h("span", { class: "small quiet-text" }, line(states.filter(Boolean).join(", ")))),
      h("td", null), h("td", { class: "number" }, format.count(total)), h("td", { class: "bar-cell" }, Assay.bar(ordered(counts), { label: "Outcomes" }), passes(counts)), h("td", null), h("td", null));
  }

  function runRow(view, one, inside = false) {
    const count = one.attempts === undefined || one.attempts === null ? null : one.attempts;
    return h("tr", { class: inside ? "in-group" : null },
      h("td", null, h("input", { type: "checkbox", checked: view.picked.has(one.run), "aria-label": `Select ${Assay.plain(one.run)}`, onchange: (event) => {
        if (event.target.checked) view.picked.add(one.run);
        else view.picked.delete(one.run);
        chosen(view);
      } })),
      h("th", { scope: "row" }, h("a", { href: one.is_training ? Assay.href("run", one.run, "training") : Assay.href("run", one.run) }, line(one.run))),
      h("td", null, Assay.runState(one.state, one.open ? `, ${format.count(one.open)} open` : "")),
      h("td", { class: "nowrap" }, one.created ? h("time", null, format.moment(one.created).slice(0, 16)) : "–"),
      h("td", { class: "number" }, count === null ? "–" : format.count(count)),
      h("td", { class: "bar-cell" }, one.error ? h("span", { class: "bad" }, one.error)
        : count ? [Assay.bar(ordered(one.counts || {}), { label: "Outcomes" }), passes(one.counts || {}, one.separations)] : null),
      h("td", { class: "number" }, one.tasks ? format.count(one.tasks) : "–"),
      h("td", { class: "small quiet-text names" }, line([...(one.agents || []), ...(one.models || [])].join(", "))));
  }

  function chosen(view) {
    const runs = view.data.runs.map((one) => one.run).filter((run) => view.picked.has(run)).reverse();
    view.overlay.hidden = Assay.exported || runs.length < 2;
    view.overlay.textContent = runs.length > MOST_OVERLAID ? `Overlay the newest ${MOST_OVERLAID}` : `Overlay ${runs.length} runs`;
    view.overlay.setAttribute("href", Assay.href("overlay", runs.slice(-MOST_OVERLAID)));
  }

  /* The numbers of the bar: passes of all attempts, doubtful ones, and the passes' grades of separation. */
  function passes(counts, separations) {
    const all = Object.values(counts).reduce((sum, number) => sum + number, 0);
    if (!all) return null;
    const grades = Object.entries(separations || {}).map(([grade, number]) => `${format.count(number)} ${grade}`).join(", ");
    const shown = grades && `separation: ${grades}`;
    return h("div", { class: "small bar-words" }, h("span", null, `${format.count(counts.pass || 0)} of ${format.count(all)} passed`),
      counts.doubt ? h("span", { class: "doubted" }, `${format.count(counts.doubt)} doubtful`) : null,
      shown ? h("span", { class: "quiet-text grades", title: "Passes by the separation of the verifier from the agent" }, shown) : null);
  }

  function ordered(counts) {
    return Object.fromEntries(Assay.outcomes.filter((name) => counts[name]).map((name) => [name, counts[name]]));
  }

  /* ---- the steps of all runs -------------------------------------------------------------------------------------- */

  Assay.route("/search", async (page) => {
    page.crumbs([["Runs", "#/"], ["search", null]]);
    page.title("Search");
    const words = (page.query.get("q") || "").trim();
    const input = h("input", { type: "search", class: "search", "aria-label": "Search in the steps of all runs", value: words, spellcheck: "false" });
    const found = h("div", { class: "hits" });
    const go = () => input.value.trim() && Assay.go(Assay.href("search", { q: input.value.trim() }));
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") go(); });
    const form = h("div", { class: "tools", role: "search" }, input, h("button", { type: "button", class: "button", onclick: go }, "Search"));
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Search in all runs")), form, found);
    Assay.key("/", "search", () => input.focus());
    if (!words) return;
    fill(found, h("p", { class: "small quiet-text", role: "status" }, "Searching…"));
    const data = await Assay.load(Assay.path("find", words), { fresh: true });
    if (!page.signal.aborted) fill(found, hits(data));
  });

  function hits(data) {
    const many = `${data.cut ? "The first " : ""}${format.count(data.hits.length)} ${data.hits.length === 1 ? "match" : "matches"} in ${format.count(data.searched)} ${data.searched === 1 ? "run" : "runs"}, the newest first`;
    const runs = new Map();
    for (const hit of data.hits) runs.set(hit.run, [...(runs.get(hit.run) || []), hit]);
    return [h("p", { class: "small told", role: "status" }, many, data.left_out ? `; ${format.count(data.left_out)} older runs were not searched, because the time was over or there were enough matches` : ""),
      data.unreadable.length ? h("p", { class: "note" }, "These runs cannot be read: ", line(data.unreadable.join(", "))) : null,
      [...runs].map(([run, listed]) => h("section", { class: "panel", "aria-label": run.slice(0, 100) },
        h("div", { class: "hits-head" }, h("h2", null, h("a", { href: Assay.href("run", run, { q: data.text }) }, line(run)))),
        h("ol", null, listed.map((hit) => h("li", null, h("a", { href: Assay.href("run", run, "attempt", hit.chain, "step", String(hit.step)) }, line(hit.attempt), ` · step ${hit.step} · `, line(hit.place)),
          h("samp", null, Assay.excerpt(hit.excerpt, data.text)))))))];
  }
})();
