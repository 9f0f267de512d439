"use strict";
/* What admission proved of each task's verifier, and what it found against it. */

(() => {
  const { h, fill, format, line } = Assay;
  const C = Assay.charts;
  const KINDS = { hole: "fail", broken: "fail", weak: "doubt", note: "unknown" };
  const FILTERS = ["all", "not admitted", "admitted"];
  const FIRST = 300;

  Assay.route("/run/{run}/soundness", async (page) => {
    const run = page.parts.run;
    const tabs = Assay.runTabs(page, run, "soundness");
    const data = await Assay.load(Assay.path("run", run, "soundness"), { fresh: !Assay.exported });
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Soundness"), h("p", { class: "facts" }, h("bdi", null, line(run)))), tabs,
      data.admission ? admission(run, data) : rested(data));
  });

  const isAdmitted = (task) => Object.values(task.admitted).length > 0 && Object.values(task.admitted).every(Boolean) && !task.accepted_wrongly;

  function admission(run, data) {
    const admitted = data.tasks.filter(isAdmitted).length;
    const body = h("tbody");
    const told = h("p", { class: "small quiet-text", role: "status" });
    const search = h("input", { type: "search", class: "search", placeholder: "Task", "aria-label": "Search tasks", "aria-keyshortcuts": "/", spellcheck: "false", oninput: () => draw() });
    const which = h("select", { "aria-label": "Which tasks", onchange: () => draw() }, FILTERS.map((name) => h("option", { value: name }, name)));
    let limit = FIRST;
    const more = h("button", { type: "button", class: "button", onclick: () => { limit += 1000; draw(); } }, "Show more");
    function draw() {
      const words = search.value.toLowerCase();
      const found = data.tasks.filter((task) => task.task.toLowerCase().includes(words) &&
        (which.value === "all" || isAdmitted(task) === (which.value === "admitted")));
      fill(body, found.slice(0, limit).map((task) => taskRow(run, task)));
      told.textContent = `${format.count(found.length)} of ${format.count(data.tasks.length)} tasks`;
      more.hidden = found.length <= limit;
    }
    draw();
    Assay.key("/", "search", () => search.focus());
    const open = data.planned - data.tasks.length - data.left_out;
    return [
      h("p", null, `${format.count(admitted)} of ${format.count(data.tasks.length)} tasks are admitted.`,
        open > 0 ? ` ${format.count(open)} have no certificate yet.` : "", data.left_out ? ` ${format.count(data.left_out)} more are not listed.` : ""),
      h("div", { class: "tools" }, search, which, told),
      h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Tasks" }, h("table", { class: "plain" },
        h("thead", null, h("tr", null, ["Task", "Admitted", "Holes", "Broken", "Weak", "Notes", "Attempts"].map((name) => h("th", { scope: "col" }, name)))), body)),
      h("p", null, more)];
  }

  function taskRow(run, task) {
    const count = (name) => h("td", { class: "number" }, task.findings[name] ? Assay.status(KINDS[name], format.count(task.findings[name])) : "0");
    return h("tr", null, h("th", { scope: "row" }, h("a", { href: Assay.href("run", run, "soundness", task.chain) }, line(task.task))),
      h("td", null, admittedBadge(task), task.quick ? h("span", { class: "tag" }, "quick") : null),
      count("hole"), count("broken"), count("weak"), count("note"), h("td", { class: "number" }, format.count(task.attempts)));
  }

  function admittedBadge(task) {
    const names = Object.entries(task.admitted), wrong = task.accepted_wrongly;
    if (!names.length) return Assay.status("unknown", "not known");
    const result = (good) => (good ? (wrong ? ["doubt", `weak, accepts ${format.count(wrong)} wrong solution${wrong > 1 ? "s" : ""}`] : ["pass", "admitted"]) : ["fail", "not admitted"]);
    return names.map(([name, good]) => [Assay.status(result(good)[0], result(good)[1] + (name === "default" ? "" : ` ${name}`)), " "]);
  }

  function rested(data) {
    if (!data.rests_on.length) {
      return h("div", { class: "panel empty" }, "This run is not an admission and did not require certificates. ", h("code", null, "assay admit"),
        " tests verifiers; ", h("code", null, "assay run --admitted"), " accepts only certified tasks.");
    }
    return [h("p", null, "This run accepted only certified tasks:"), h("div", { class: "panel wide", tabindex: "0", role: "region", "aria-label": "Certificates" },
      C.table("Certificates", ["task", "admitted in"], data.rests_on.map((one) => [
        h("a", { href: Assay.href("run", one.run, "soundness", one.chain) }, line(one.task)), h("a", { href: Assay.href("run", one.run, "soundness") }, line(one.run))])))];
  }

  /* ---- one task -------------------------------------------------------------------------------------------------- */

  Assay.route("/run/{run}/soundness/{chain}", async (page) => {
    const { run, chain } = page.parts;
    const tabs = Assay.runTabs(page, run, "soundness");
    const { task, report } = await Assay.load(Assay.path("run", run, "soundness", chain));
    page.crumbs([["Runs", "#/"], [run, Assay.href("run", run)], ["soundness", Assay.href("run", run, "soundness")], [task, null]]);
    page.title(`soundness of ${task}`);
    fill(page.root, h("div", { class: "head" }, h("h1", null, line(task)), h("p", { class: "facts" }, admittedBadge(report))), tabs,
      part("Findings", findings(report.findings)), part("In numbers", numbers(report)), part("Wrong solutions that pass", survivors(run, report.sensitivity)),
      part("Attempts", probes(run, report.probes)), part("Not tested", untried(report.untried)));
  });

  const part = (title, body) => (body ? h("section", { class: "sound-part" }, h("h2", null, title), body) : null);

  function findings(found) {
    if (!found.length) return h("p", null, "No findings.");
    return h("div", { class: "panel" }, found.map((one) => h("article", { class: "sound-finding" },
      h("h3", null, Assay.status(KINDS[one.severity], one.severity), " ", line(one.kind), one.probe ? [" ", h("code", null, line(one.probe))] : null,
        one.heuristic ? h("span", { class: "tag" }, "a guess") : null, one.verification ? h("span", { class: "tag" }, line(one.verification)) : null),
      h("p", null, line(one.text)),
      one.closed_by.length ? h("p", { class: "small" }, "Closed by: ", line(one.closed_by.join("; "))) : null,
      one.evidence.length ? h("p", { class: "small quiet-text" }, "Seen in: ", line(one.evidence.join(", "))) : null)));
  }

  function numbers(report) {
    const { completeness: runs, sensitivity: seen, strictness: strict, cost } = report;
    const range = (pair) => (pair ? ` (${C.percent(pair[0])} to ${C.percent(pair[1])})` : "");
    const known = (value, pair) => (value === undefined || value === null ? "–" : C.percent(value) + range(pair));
    const said = Object.entries(runs.circumstances);
    const tried = said.filter((pair) => pair[1] !== "not tested");
    const flaws = tried.filter((pair) => pair[1] !== "pass").map(([name, how]) => `${name}: ${how}`);
    const around = !tried.length ? "not tested" : (flaws.length ? flaws.join("; ") : `all ${tried.length} pass`) +
      (tried.length < said.length ? `; ${said.length - tried.length} not tested` : "");
    const facts = [["Separation", report.separation], ["The reference solution passes", runs.tried === undefined ? "–" : `${runs.passed} of ${runs.tried} times`],
      ["Under other conditions", around],
      ["Wrong solutions rejected, at best", seen ? known(seen.best, seen.best_interval) : "not tested"],
      ["at worst", seen ? known(seen.worst, seen.worst_interval) : "not tested"],
      ["Equivalent solutions accepted", strict ? known(strict.rate, strict.interval) : "not tested"],
      ["One verification", `${format.seconds(cost.verification_s)}${cost.peak_mib ? `, ${Math.round(cost.peak_mib)} MiB` : ""}`],
      ["The whole battery", `${format.seconds(cost.battery_s)}, ${format.count(cost.attempts || 0)} attempts${cost.in_verifications ? `, ${cost.in_verifications.toFixed(1)} times a run of the reference solution` : ""}`],
      ...report.difficulty.map((one) => [`${one.agent}${one.model ? ` · ${one.model}` : ""} passes`, `${one.passed} of ${one.judged}`])];
    return h("dl", { class: "sound-facts" }, facts.map(([name, value]) => [h("dt", null, line(name)), h("dd", null, line(value))]));
  }

  function survivors(run, seen) {
    if (!seen || !seen.survivors.length) return null;
    return h("div", { class: "panel" }, seen.survivors.map((one) => h("details", { class: "sound-finding" },
      h("summary", null, Assay.status(one.judgement === "changed" ? "doubt" : "unknown", one.judgement), " ", h("code", null, line(one.name)), " ", line(one.operator)),
      one.witness ? h("p", null, line(one.by ? `${one.by}: ` : ""), line(one.witness)) : null, Assay.copyable(h("pre", { tabindex: "0" }, one.diff), one.diff, `change ${one.name}`))));
  }

  function probes(run, found) {
    if (!found.length) return null;
    const rows = found.map((one) => [one.chain ? h("a", { href: Assay.href("run", run, "attempt", one.chain) }, line(one.probe)) : one.probe, one.group,
      outcome(one), one.wanted || "–", one.about]);
    return h("div", { class: "panel" }, C.table("Attempts of the battery", ["probe", "group", "outcome", "wanted", "what it is"], rows));
  }

  function outcome(one) {
    const wrong = one.wanted === "pass" ? one.outcome !== "pass" : one.wanted === "fail" && one.outcome === "pass";
    const words = one.outcome || (one.broke ? `broke: ${one.broke}` : "–");
    return h("span", null, Assay.status(one.outcome || "error", words), wrong ? h("span", { class: "tag" }, "not as expected") : null);
  }

  function untried(found) {
    return found.length ? h("div", { class: "panel" }, C.table("Not tested", ["probe", "group", "why"], found.map((one) => [one.probe, one.group, one.reason]))) : null;
  }
})();
