"use strict";
/* What was tried to make agents better: the skills of the store with their edits and trials, the searches over
   configurations with their gates, lines of releases, and tables that verbs saved. Everything shown is a line of a
   ledger. */

(() => {
  const { h, fill, format, line } = Assay;
  const C = Assay.charts;
  const STATES = { accepted: "pass", released: "pass", refused: "fail", retired: "none", candidate: "open", searching: "open" };
  const state = (word) => Assay.status(Object.hasOwn(STATES, word) ? STATES[word] : "none", word);
  const share = (value) => (typeof value === "number" ? `${(100 * value).toFixed(1)}%` : "–");
  const number = (value, digits = 1) => (typeof value === "number" ? value.toFixed(digits) : "–");
  const word = (value) => (typeof value === "string" ? value : value === null || value === undefined ? "" : JSON.stringify(value)); /* any value of a ledger: `String` fails for an object with a `toString` of its own */
  const version = (digest) => h("code", { title: word(digest || "") }, word(digest || "–").replace(/^blake3:/, "").slice(0, 8));

  Assay.route("/ledgers", async (page) => {
    page.crumbs([["Runs", "#/"], ["skills and searches", null]]);
    page.title("Skills and searches");
    const data = await Assay.load("ledgers", { fresh: true });
    if (page.signal.aborted) return;
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Skills and searches")),
      listed("Skills", "skill", data.skills, ["Edits are kept only after a paired trial on held-out tasks. ", h("code", null, "assay skills"), " makes and tries them."]),
      listed("Searches over configurations", "evolution", data.evolutions, ["A search is free; its winner is decided once on tasks that it never saw. ", h("code", null, "assay evolve"), " makes one."]),
      listed("Lines of releases", "releases", data.releases, ["Each candidate is compared with the present release, and decided once. ", h("code", null, "assay gate --line"), " makes one."]),
      listed("Saved tables", "tables", data.tables, ["What a verb counted at the time: its option ", h("code", null, "--save NAME"), " saves it (", h("code", null, "assay router"), ", ", h("code", null, "assay workflow follow"), ", ", h("code", null, "assay stats"), ")."], "Last table"));
  });

  function listed(title, kind, ledgers, note, decided = "Decision") {
    const row = (one) => h("tr", null, h("th", { scope: "row" }, h("a", { href: Assay.href(kind, one.name) }, line(one.name))),
      h("td", null, state(one.state)), h("td", { class: "number" }, format.count(one.entries)), h("td", null, one.problem ? h("span", { class: "bad" }, line(one.problem)) : null));
    return h("section", { class: "ledger", "aria-label": title }, h("h2", null, title), h("p", { class: "small quiet-text" }, note),
      ledgers.length ? h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": `${title}, table` }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, decided), h("th", { scope: "col", class: "number" }, "Entries"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Problem")))),
        h("tbody", null, ledgers.map(row)))) : h("div", { class: "panel empty" }, "None in this store."));
  }

  /* The head of a ledger's page, and what is wrong with its file. */
  function head(page, title, data) {
    page.crumbs([["Runs", "#/"], ["skills and searches", "#/ledgers"], [data.name, null]]);
    page.title(data.name);
    return [h("div", { class: "head" }, h("h1", null, title, " ", line(data.name)), h("p", { class: "facts" }, state(data.state))),
      data.problem ? h("p", { class: "note", role: "alert" }, "The ledger is not what was written: ", line(data.problem), ". What follows is what could be read before that.") : null,
      data.left_out ? h("p", { class: "note" }, `${format.count(data.left_out)} older entries are not shown.`) : null];
  }

  function runLinks(runs, known) {
    return runs.map((run, at) => [at ? ", " : null, known.includes(run) ? h("a", { href: Assay.href("run", run) }, line(run)) : line(run)]);
  }

  /* ---- a line of releases --------------------------------------------------------------------------------------- */

  Assay.route("/releases/{name}", async (page) => {
    const data = await Assay.load(Assay.path("releases", page.parts.name), { fresh: true });
    if (page.signal.aborted) return;
    const side = (given) => { const run = word(given).split(":")[0]; return data.runs.includes(run) ? h("a", { href: Assay.href("run", run) }, line(given)) : line(given); };
    const tasks = (names) => (names.length ? h("span", { title: names.slice(0, 20).join("\n") }, format.count(names.length)) : "0");
    const row = (one) => h("tr", null, h("th", { scope: "row" }, side(one.candidate)), h("td", null, side(one.base)), h("td", null, state(one.accepted ? "accepted" : "refused")),
      h("td", { class: "number" }, tasks(one.gained)), h("td", { class: "number" }, tasks(one.lost)), h("td", { class: "number" }, number(one.number, 0)), h("td", { class: "small" }, one.reasons.map((reason) => h("div", null, line(reason)))),
      h("td", { class: "small" }, h("time", null, typeof one.at === "number" ? format.moment(one.at).slice(0, 16) : "–")));
    fill(page.root, head(page, "Releases", data), h("p", null, "Present release: ", h("b", null, side(data.release))),
      h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Release candidates, table" }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, ["Candidate", "Against", "Decision", "Gained", "Lost", "On these tasks", "Reasons", "When"].map((words, at) => h("th", { scope: "col", class: at > 2 && at < 6 ? "number" : null }, words)))),
        h("tbody", null, [...data.entries].reverse().map(row)))));
  });

  /* ---- saved tables --------------------------------------------------------------------------------------------- */

  Assay.route("/tables/{name}", async (page) => {
    const data = await Assay.load(Assay.path("tables", page.parts.name), { fresh: true });
    if (page.signal.aborted) return;
    fill(page.root, head(page, "Saved tables", data), data.entries.map((one) => saved(one, data)));
  });

  const NUMBER = /^[+-]?[\d.,]+(?: \[[+\-\d., ]+\])?$|^-$/;

  function saved(one, data) {
    const numeric = one.columns.map((_, at) => one.rows.length > 0 && one.rows.every((row) => !row[at] || NUMBER.test(row[at])));
    const run = one.runs.length === 1 && data.runs.includes(one.runs[0]) ? one.runs[0] : null;
    const first = (text, at) => (run && one.chains[at] ? h("a", { href: Assay.href("run", run, "attempt", one.chains[at]) }, line(text)) : line(text));
    const row = (cells, at) => h("tr", null, cells.map((text, column) => (column ? h("td", { class: numeric[column] ? "number" : null }, line(text)) : h("th", { scope: "row" }, first(text, at)))));
    return h("section", { "aria-label": Assay.plain(one.verb) }, h("h2", null, line(one.verb)),
      h("p", { class: "small quiet-text" }, "Counted ", h("time", null, typeof one.at === "number" ? format.moment(one.at).slice(0, 16) : "–"), ", of ", runLinks(one.runs, data.runs)),
      one.rows.length ? h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": `${Assay.plain(one.verb)}, table` }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, one.columns.map((words, at) => h("th", { scope: "col", class: numeric[at] ? "number" : null }, line(words))))), h("tbody", null, one.rows.map(row)))) : h("div", { class: "panel empty" }, "No rows."),
      one.notes.map((note) => h("p", { class: "small" }, line(note))));
  }

  /* ---- a search ------------------------------------------------------------------------------------------------- */

  Assay.route("/evolution/{name}", async (page) => {
    const data = await Assay.load(Assay.path("evolution", page.parts.name), { fresh: true });
    if (page.signal.aborted) return;
    const whole = data.candidates.reduce((most, one) => Math.max(most, one.tasks || 0), 0);
    const drawn = data.candidates.filter((one) => one.tasks === whole);
    const base = data.candidates[0] || null;
    fill(page.root, head(page, "Search", data), gate(data, base), drawn.length ? front(drawn, base, whole) : null, candidates(data, base),
      data.proposals.length ? h("details", { class: "whole" }, h("summary", null, `${format.count(data.proposals.length)} texts that a model proposed`),
        data.proposals.map((text) => h("pre", { class: "panel" }, text))) : null, code(list(data.code)));
  });

  const digest = (value) => word(value).slice(7, 19);

  function code(tried) {
    if (!tried.length) return null;
    const one = (made) => (made.accepted
      ? h("details", { class: "whole" }, h("summary", null, "Code ", h("code", null, digest(made.digest))), h("pre", { class: "panel wide", tabindex: "0" }, made.diff))
      : h("p", { class: "small" }, "Refused, from ", h("code", null, digest(made.digest)), ": ", made.reasons.map((reason) => line(reason))));
    return h("section", { class: "code-versions", "aria-label": "Code" }, h("h2", null, "Code"), h("p", { class: "small quiet-text" }, "Versions of the agent's program, each as its differences from the present one."), tried.map(one));
  }

  const changed = (one, base) => Object.entries(one.options).filter(([name, value]) => !base || JSON.stringify(value) !== JSON.stringify(base.options[name]));
  const worded = (value) => (typeof value === "string" ? value.replaceAll("\n", "⏎") : JSON.stringify(value));
  const named = (one, base) => (one === base ? "present configuration" : changed(one, base).map(([name, value]) => `${name}=${name === "code" && word(value).startsWith("blake3:") ? digest(value) : worded(value)}`).join(", ") || "present configuration");

  function gate(data, base) {
    const { gate: found } = data;
    if (!found) return h("section", { class: "panel gate", "aria-label": "Gate" }, h("h2", null, "Gate"), h("p", null, "Not reached: the search is not over, or it found nothing better than the present configuration."));
    const claim = data.candidates.find((one) => JSON.stringify(one.options) === JSON.stringify(found.options) && one.tasks === (base ? base.tasks : null));
    const row = (words, first, second, note) => h("tr", null, h("th", { scope: "row" }, words, h("div", { class: "small quiet-text" }, note)), h("td", { class: "number" }, share(first)), h("td", { class: "number" }, share(second)),
      h("td", { class: "number" }, typeof first === "number" && typeof second === "number" ? `${second >= first ? "+" : "−"}${Math.abs(100 * (second - first)).toFixed(1)}` : "–"));
    return h("section", { class: "panel gate", "aria-label": "Gate" }, h("h2", null, found.accepted ? "Gate: accepted" : "Gate: refused"),
      h("p", null, h("b", null, line(named(found, base)))),
      h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Claimed and true" }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, ["", "present", "winner", "points"].map((words, at) => h("th", { scope: "col", class: at ? "number" : null }, words || h("span", { class: "unseen" }, "Measured"))))),
        h("tbody", null, row("claimed by the search", base && base.rate, claim ? claim.rate : null, `${format.count(base ? base.tasks : 0)} tasks; the winner's rate is too high, by the choice`),
          row("on held-out tasks", found.base_rate, found.rate, `${format.count(found.tasks)} tasks that the search never saw`)))),
      found.reasons.map((reason) => h("p", { class: "small" }, line(reason))), h("p", { class: "small quiet-text" }, "Runs: ", runLinks(found.runs, data.runs)));
  }

  function front(drawn, base, whole) {
    const points = drawn.map((one) => ({ name: one === base ? "present" : short(named(one, base)), x: one.turns, xLow: null, xHigh: null, y: one.rate, yLow: null, yHigh: null, front: one.on_front }));
    return C.scatter({ title: "Success against cost", note: `Each candidate on all ${format.count(whole)} tasks of the search. The line joins those that no other beats in both.`,
      points, xLabel: "mean turns an attempt", yLabel: "passed", heads: ["candidate", "passed", "turns", "front"],
      rows: drawn.map((one) => [named(one, base), share(one.rate), number(one.turns), one.on_front ? "yes" : "–"]) });
  }

  const short = (words) => (words.length > 34 ? `${words.slice(0, 33)}…` : words);

  function candidates(data, base) {
    const ordered = [...data.candidates].sort((a, b) => (b.tasks || 0) - (a.tasks || 0) || (b.rate || 0) - (a.rate || 0));
    const learns = data.candidates.some((one) => typeof one.credit === "number");
    const judged = data.candidates.some((one) => typeof one.unsafe === "number");
    const more = [...(learns ? ["Credit"] : []), ...(judged ? ["Unsafe"] : [])];
    const credit = (one) => [learns ? h("td", { class: "number" }, number(one.credit, 2)) : null, judged ? h("td", { class: "number" }, share(one.unsafe)) : null];
    const row = (one) => h("tr", null, h("th", { scope: "row", class: "options" }, line(named(one, base))), h("td", { class: "number" }, format.count(one.tasks || 0)), h("td", { class: "number" }, share(one.rate)),
      h("td", { class: "number" }, number(one.turns)), credit(one), h("td", null, one.on_front ? "front" : ""), h("td", { class: "small" }, runLinks(one.runs, data.runs)));
    return h("section", { "aria-label": "Candidates" }, h("h2", null, "Candidates"), h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Candidates, table" },
      h("table", { class: "plain" }, h("thead", null, h("tr", null, ["Options", "Tasks", "Passed", "Turns", ...more, "", "Run"].map((words, at) => h("th", { scope: "col", class: at > 0 && at < 4 + more.length ? "number" : null }, words)))), h("tbody", null, ordered.map(row)))));
  }

  /* ---- a skill -------------------------------------------------------------------------------------------------- */

  Assay.route("/skill/{name}", async (page) => {
    const data = await Assay.load(Assay.path("skill", page.parts.name), { fresh: true });
    if (page.signal.aborted) return;
    fill(page.root, head(page, "Skill", data),
      h("ol", { class: "ledger-entries", "aria-label": "Entries, the newest first" }, [...data.entries].reverse().map((one) => entry(one, data))), holdouts(data));
  });

  function entry(one, data) {
    const words = { import: "Imported", distil: "Distilled", edit: "Edited", trial: "Tried", retire: "Retired", tier: "Moved" };
    const verdict = one.trial ? state(one.trial.accepted === true ? "accepted" : "refused") : null;
    return h("li", { class: "panel" }, h("h2", null, Object.hasOwn(words, word(one.kind)) ? words[word(one.kind)] : line(word(one.kind)), " ", version(one.version), " ", verdict, typeof one.tier === "string" ? line(one.tier) : null),
      h("p", { class: "small quiet-text" }, h("time", null, typeof one.at === "number" ? format.moment(one.at).slice(0, 16) : "–"), one.base ? [" from ", version(one.base)] : null, one.source ? [" · ", line(word(one.source))] : null),
      one.reason ? h("p", null, line(word(one.reason))) : null, list(one.problems).map((problem) => h("p", { class: "bad small" }, line(word(problem)))),
      one.proposal ? edits(one.proposal) : null, one.trial ? trial(one.trial, data) : null, list(one.claims).length ? claims(list(one.claims), data) : null);
  }

  const list = (value) => (Array.isArray(value) ? value.filter((one) => one !== null && one !== undefined) : []);

  function edits(proposal) {
    const side = (sign, text, words) => (text ? h("div", { class: sign === "+" ? "edit-added" : "edit-removed" }, h("span", { class: "unseen" }, words), h("span", { "aria-hidden": "true" }, `${sign} `), line(text)) : null);
    return [proposal.reason ? h("p", null, line(word(proposal.reason))) : null, h("div", { class: "edits" }, list(proposal.edits).map((edit) => h("div", { class: "edit" },
      edit.op === "add" && edit.line ? h("div", { class: "small quiet-text" }, "after: ", line(word(edit.line))) : null,
      edit.op === "add" ? null : side("−", word(edit.line || ""), "removed: "), side("+", word(edit.text || ""), "added: "))))];
  }

  function trial(found, data) {
    const row = (arm) => h("tr", null, h("th", { scope: "row" }, line(word(arm.name))), h("td", { class: "number" }, share(arm.rate)), h("td", { class: "number" }, `${word(arm.passed ?? "–")} of ${word(arm.judged ?? "–")}`),
      h("td", { class: "number" }, format.count(Number.isFinite(arm.tasks) ? arm.tasks : 0)), h("td", { class: "number" }, number(arm.steps)), h("td", { class: "number" }, number(arm.tokens, 0)), h("td", { class: "small" }, runLinks(list(arm.runs).map(word), data.runs)));
    return [list(found.reasons).map((reason) => h("p", null, line(word(reason)))),
      list(found.arms).length ? h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Arms of the trial" }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, ["Arm", "Passed", "Attempts", "Tasks", "Steps", "Tokens", "Runs"].map((words, at) => h("th", { scope: "col", class: at && at < 6 ? "number" : null }, words)))),
        h("tbody", null, list(found.arms).map(row)))) : null,
      h("p", { class: "small quiet-text" }, `level ${word(found.alpha ?? "–")}`, typeof found.p_none === "number" ? ` · p ${found.p_none.toPrecision(2)} against none` : null,
        typeof found.p_placebo === "number" ? ` · p ${found.p_placebo.toPrecision(2)} against placebo` : null, found.looks ? ` · decided at look ${word(found.looks)}` : null, found.earlier_uses ? ` · ${word(found.earlier_uses)} earlier uses of these tasks` : null)];
  }

  function claims(made, data) {
    return h("details", { class: "whole" }, h("summary", null, `${format.count(made.length)} ${made.length === 1 ? "line" : "lines"} with evidence`),
      h("ul", { class: "claims" }, made.map((one) => h("li", null, line(word(one.text)), h("span", { class: "small quiet-text" }, ` taken ${word(one.taken ?? 0)}, expected ${number(one.expected)} · `, cited(list(one.evidence), data))))));
  }

  /* The first attempts that a line rests on. */
  function cited(evidence, data) {
    if (!evidence.length) return "no evidence";
    const first = evidence.slice(0, 3).map((one, at) => [at ? ", " : null, data.runs.includes(one.run) ? h("a", { href: Assay.href("run", word(one.run), "attempt", word(one.chain)) }, line(word(one.attempt))) : line(word(one.attempt))]);
    return [first, evidence.length > 3 ? ` and ${format.count(evidence.length - 3)} more` : null];
  }

  function holdouts(data) {
    const rows = list(data.uses).map((use) => [h("span", null, typeof use.at === "number" ? format.moment(use.at).slice(0, 16) : "–"), version(use.version), format.count(use.tasks || 0), number(use.alpha, 4), number(use.left, 4), word(use.earlier ?? "–")]);
    return C.figureTable("Use of held-out tasks", ["when", "version", "tasks", "level spent", "level left", "earlier uses"], rows,
      "Each decision spends a part of its tasks' error budget; at zero they decide nothing any more.");
  }
})();
