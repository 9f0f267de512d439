"use strict";
/* Several runs over each other, and one task over all runs. */

(() => {
  const { h, fill, format, line } = Assay;
  const C = Assay.charts;
  const AMOUNTS = { cost_usd: format.money, tokens: format.tokens, seconds: format.seconds, turns: (n) => format.number(n, 1) };

  Assay.route("/overlay/{runs+}", async (page) => {
    page.crumbs([["Runs", "#/"], [`${page.parts.runs.length} runs`, null]]);
    page.title("Overlay of runs");
    const data = await Assay.load(Assay.path("overlay", page.parts.runs), { fresh: true });
    if (page.signal.aborted) return;
    const names = labels(data.series);
    const training = data.runs.filter((one) => one.run.endsWith("-training")).map((one) => one.run);
    fill(page.root, h("div", { class: "head" }, h("h1", null, `Overlay of ${format.count(data.runs.length)} runs`)),
      h("ul", { class: "overlaid" }, data.runs.map((one) => h("li", null, h("a", { href: Assay.href("run", one.run) }, line(one.run)), " ", Assay.runState(one.state),
        one.created ? h("span", { class: "small quiet-text" }, ` ${format.moment(one.created).slice(0, 16)}`) : null))),
      data.left_out.series ? h("p", { class: "note" }, `${format.count(data.left_out.series)} further configurations are not shown.`) : null,
      data.series.length ? h("div", { class: "figures" }, rates(data, names), amounts(data, names), tasks(data, names)) : h("div", { class: "panel empty" }, "No attempt of these runs has ended."),
      training.length > 1 && Assay.trainings ? Assay.trainings(training) : null);
  });

  /* What tells series apart: the run, and the agent and model where a run has several. */
  function labels(series) {
    const many = (run) => series.filter((one) => one.run === run).length > 1;
    const cut = shared(series.map((one) => one.run));
    return series.map((one) => (many(one.run) ? `${one.run.slice(cut)} · ${one.agent}${one.model ? ` · ${one.model}` : ""}` : one.run.slice(cut)));
  }

  /* The length of the beginning that all names share, up to a hyphen. */
  function shared(names) {
    if (new Set(names).size < 2) return 0;
    let at = 0;
    while (at < names[0].length && names.every((name) => name[at] === names[0][at])) at += 1;
    return names[0].lastIndexOf("-", at - 1) + 1;
  }

  const perAttempt = (measure) => `${measure[0].toUpperCase()}${measure.slice(1)} per attempt`;
  const share = (value) => (value === null || value === undefined ? "–" : C.percent(value));

  function rates(data, names) {
    const bars = (field, title, note) => C.bars({ title, note, items: data.series.map((one, at) => ({ name: names[at], ...(one[field] || { value: null, low: null, high: null }),
      more: field === "rate" ? `${one.tasks} tasks` : "" })),
    heads: ["series", "pass@1", "from", "to", "attempts", "doubtful", "error"],
    rows: data.series.map((one, at) => [names[at], ...["value", "low", "high"].map((name) => share(one[field] && one[field][name])), one.attempts, one.doubtful, one.error]) });
    const uneven = data.series.some((one) => one.tasks !== data.common);
    return [h("div", { class: "whole" }, bars("rate", "pass@1", "Each over its own tasks, with cluster-robust 95% intervals.")),
      uneven && data.common ? h("div", { class: "whole" }, bars("common", `pass@1 over the ${format.count(data.common)} tasks that all attempted`, "Compare these: the rates above are over different tasks.")) : null];
  }

  function amounts(data, names) {
    return Object.keys(data.measures).map((name) => {
      const items = data.series.map((one, at) => ({ name: names[at], value: one.means[name] ?? null, low: null, high: null }));
      const most = Math.max(...items.map((one) => one.value || 0), 1e-9);
      return C.bars({ title: perAttempt(data.measures[name]), most, text: AMOUNTS[name] || ((n) => format.number(n)), items,
        note: "Mean over attempts; attempts that do not record it are left out.", heads: ["series", "mean"], rows: items.map((one) => [one.name, one.value === null ? "–" : (AMOUNTS[name] || String)(one.value)]) });
    });
  }

  function tasks(data, names) {
    if (!data.tasks.length) return null;
    const cell = (pair) => (pair && pair[1] ? { value: pair[0] / pair[1], text: `${pair[0]}/${pair[1]}` } : null);
    return h("div", { class: "whole" }, C.grid({ title: "Tasks by runs", corner: "task", columns: names, rows: data.tasks.map((row) => ({ name: row.task, cells: row.cells.map(cell) })),
      note: `The tasks on which the runs differ most come first.${data.left_out.tasks ? ` ${format.count(data.left_out.tasks)} more are not shown.` : ""}` }));
  }

  /* ---- one task --------------------------------------------------------------------------------------------------- */

  Assay.route("/task/{task}", async (page) => {
    const { task } = page.parts;
    page.crumbs([["Runs", "#/"], [task, null]]);
    page.title(task);
    const data = await Assay.load(Assay.path("task", task), { fresh: true });
    if (page.signal.aborted) return;
    const versions = Object.keys(data.versions);
    const attempts = data.runs.reduce((sum, one) => sum + one.attempts.length + one.left_out, 0);
    fill(page.root, h("div", { class: "head" }, h("h1", null, line(task)), h("p", { class: "facts" }, `${format.count(attempts)} ${attempts === 1 ? "attempt" : "attempts"} in ${format.count(data.runs.length)} of ${format.count(data.searched)} runs`)),
      data.left_out ? h("p", { class: "note" }, `${format.count(data.left_out)} older runs were not searched.`) : null,
      data.unreadable.length ? h("p", { class: "note" }, "These runs cannot be read: ", line(data.unreadable.join(", "))) : null,
      text(data), checks(data), sound(data, versions), data.runs.map((one) => ofRun(one, versions)));
  });

  const part = (title, body) => h("section", { class: "sound-part" }, h("h2", null, title), body);

  function text({ text: found }) {
    if (!found) return part("Instruction", h("p", { class: "quiet-text" }, "The record holds no text of this task."));
    return part("Instruction", h("div", { class: "panel task-page" }, h("div", { class: "prose" }, Assay.markdown(found.text)),
      found.left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.left_out)} characters more are in the record.`) : null,
      found.from === "message" ? h("p", { class: "small quiet-text" }, "This is the first message of a record: the task itself is not in the store.") : null));
  }

  function checks({ text: found }) {
    const terms = found && found.from === "task" ? Assay.taskTerms(found) : [];
    return terms.length ? part("Limits, checks and tags", h("p", { class: "terms" }, Assay.chips(terms))) : null;
  }

  const version = (digest, versions) => (versions.length > 1 ? `version ${format.digest(digest).slice(0, 8)}` : null);

  function sound(data, versions) {
    if (!data.certificates.length) return part("Soundness", h("p", { class: "quiet-text" }, "No admission in this store has examined its verifier. Run ", h("code", null, "assay admit"), " to examine it."));
    return part("Soundness", h("ul", { class: "panel sound-list" }, data.certificates.map((one) => {
      const good = one.admitted.default === true;
      const found = Object.entries(one.findings).filter(([, number]) => number).map(([name, number]) => `${number} ${name}`).join(", ");
      return h("li", null, Assay.status(good ? "pass" : "fail", good ? "admitted" : "not admitted"), " ",
        h("a", { href: Assay.href("run", one.run, "soundness", one.chain) }, line(one.run)), h("span", { class: "small quiet-text" },
          ` ${[found || "no findings", `separation ${one.separation}`, version(one.digest, versions)].filter(Boolean).join(" · ")}`));
    })));
  }

  function ofRun(one, versions) {
    const chains = one.attempts.slice(0, 8).map((each) => each.chain);
    return h("section", { class: "sound-part task-run" }, h("header", null, h("h2", null, h("a", { href: Assay.href("run", one.run) }, line(one.run))), one.created ? h("span", { class: "small quiet-text" }, format.moment(one.created).slice(0, 16)) : null),
      Assay.bar(one.counts, { label: "Outcomes" }),
      h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": `Attempts of ${Assay.plain(one.run)}` }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, ["Attempt", "Outcome", "Agent", "Model", "Steps", "Time"].map((name) => h("th", { scope: "col", class: name === "Steps" || name === "Time" ? "number" : name === "Agent" || name === "Model" ? "narrow-off" : null }, name)))),
        h("tbody", null, one.attempts.map((each) => h("tr", null,
          h("th", { scope: "row" }, h("a", { href: Assay.href("run", one.run, "attempt", each.chain) }, `attempt ${each.number}${each.retry ? `, try ${each.retry + 1}` : ""}`),
            version(each.digest, versions) ? h("span", { class: "tag" }, version(each.digest, versions)) : null),
          h("td", null, Assay.status(each.outcome, each.headline)), h("td", { class: "narrow-off" }, line(each.agent)), h("td", { class: "narrow-off" }, line(each.model || "–")),
          h("td", { class: "number" }, format.count(each.steps)), h("td", { class: "number" }, format.seconds(each.seconds ?? null))))))),
      one.left_out ? h("p", { class: "small quiet-text" }, `${format.count(one.left_out)} more are in the run.`) : null,
      chains.length > 1 ? h("p", null, h("a", { class: "button", href: Assay.href("run", one.run, "compare", chains) }, `Compare the first ${chains.length}`)) : null);
  }
})();
