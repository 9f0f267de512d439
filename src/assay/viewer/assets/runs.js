"use strict";
/* All runs of the store. */

(() => {
  const { h, fill, format, line } = Assay;
  const FIRST = 100;

  Assay.route("/", async (page) => {
    page.title("Runs");
    let data = await Assay.load("runs", { fresh: !Assay.exported });
    let limit = FIRST;
    const body = h("tbody");
    const told = h("p", { class: "small quiet-text", role: "status" });
    const more = h("button", { type: "button", class: "button", onclick: () => { limit += 500; draw(); } }, "Show more");
    const search = h("input", { type: "search", class: "search", placeholder: "Run, agent or model", "aria-label": "Search runs",
      "aria-keyshortcuts": "/", spellcheck: "false", oninput: () => draw() });

    function draw() {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = data.runs.filter((one) => {
        const all = [one.run, ...(one.agents || []), ...(one.models || [])].join(" ").toLowerCase();
        return words.every((word) => all.includes(word));
      });
      fill(body, found.slice(0, limit).map(runRow));
      told.textContent = `${format.count(found.length)} ${found.length === 1 ? "run" : "runs"}` +
        (data.more ? `; ${format.count(data.more)} older ones are not listed` : "");
      more.hidden = found.length <= limit;
    }

    const heads = ["Run", "State", "Made", "Attempts", "Outcomes", "Tasks", "Agents and models"];
    fill(page.root,
      h("div", { class: "head" }, h("h1", null, "Runs"), h("p", { class: "facts" }, "store ", h("bdi", null, line(data.store)))),
      data.note ? h("p", { class: "note" }, data.note) : null,
      data.runs.length ? [
        h("div", { class: "tools" }, search, told),
        h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Runs" },
          h("table", { class: "plain all-runs" }, h("thead", null, h("tr", null,
            heads.map((name) => h("th", { scope: "col", class: name === "Attempts" || name === "Tasks" ? "number" : null }, name)))), body)),
        h("p", null, more),
      ] : h("div", { class: "panel empty" }, "There are no runs in this store. ", h("code", null, "assay run"), " makes one, ",
        h("code", null, "assay demo"), " shows the whole."));
    draw();
    Assay.key("/", "search", () => search.focus());
    Assay.live(null, 0, async (name) => {
      if (name === "lost") return Assay.liveness("lost", "connection lost");
      if (name !== "state") return undefined;
      Assay.liveness(null);
      data = await Assay.load("runs", { fresh: true });
      return page.signal.aborted ? undefined : draw();
    });
    page.signal.addEventListener("abort", () => Assay.liveness(null));
  });

  function runRow(one) {
    const count = one.attempts === undefined || one.attempts === null ? null : one.attempts;
    const state = one.open ? Assay.status("open", `${format.count(one.open)} running`)
      : h("span", { class: "small quiet-text" }, one.sealed ? "sealed" : "live");
    return h("tr", null,
      h("th", { scope: "row" }, h("a", { href: Assay.href("run", one.run) }, line(one.run))),
      h("td", null, state),
      h("td", { class: "nowrap" }, one.created ? h("time", null, format.moment(one.created).slice(0, 16)) : "–"),
      h("td", { class: "number" }, count === null ? "–" : format.count(count)),
      h("td", { class: "bar-cell" }, one.error ? h("span", { class: "bad" }, one.error)
        : count ? Assay.bar(ordered(one.counts || {}), { label: "Outcomes" }) : null,
      grades(one.separations)),
      h("td", { class: "number" }, one.tasks ? format.count(one.tasks) : "–"),
      h("td", { class: "small quiet-text names" }, line([...(one.agents || []), ...(one.models || [])].join(", "))));
  }

  /* Trusted passes by grade of separation. */
  function grades(counts) {
    const words = Object.entries(counts || {}).map(([grade, number]) => `${format.count(number)} ${grade}`).join(", ");
    return words ? h("div", { class: "small quiet-text" }, `passes by separation: ${words}`) : null;
  }

  function ordered(counts) {
    return Object.fromEntries(Assay.outcomes.filter((name) => counts[name]).map((name) => [name, counts[name]]));
  }
})();
