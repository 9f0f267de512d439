"use strict";
/* A run's failures in clusters: attempts without a trusted pass that share a signal, with examples. */

(() => {
  const { h, fill, format, line } = Assay;
  const SOURCES = [["reason", "By the verifier's reason", "Reasons that differ only in numbers are one cluster; # stands for a number."], ["ending", "By how the attempt ended", ""],
    ["mark", "By the verdicts' marks", ""], ["signal", "By triage signals of the steps", "Counted without a model and without the outcome."]];

  Assay.route("/run/{run}/failures", async (page) => {
    const run = page.parts.run;
    const tabs = Assay.runTabs(page, run, "failures");
    const head = h("div", { class: "head" }, h("h1", null, "Failures of ", line(run)));
    fill(page.root, head, tabs, h("p", { class: "quiet-text", role: "status" }, "Loading…"));
    const data = await Assay.load(Assay.path("run", run, "failures"), { fresh: !Assay.exported });
    if (page.signal.aborted) return;
    const told = data.failed ? `${format.count(data.failed)} of ${format.count(data.attempts)} attempts have no trusted pass. ` +
      (data.examined < data.failed ? `Reasons and signals are those of ${format.count(data.examined)} of them, spread over the tasks; endings and marks are those of all.` : "") : "Every attempt that ended is a trusted pass.";
    fill(page.root, head, tabs, h("p", null, data.attempts ? told : "No attempt has ended yet."),
      SOURCES.map(([source, title, note]) => part(run, data, title, note, data.clusters.filter((one) => one.source === source))));
  });

  function part(run, data, title, note, clusters) {
    if (!clusters.length) return null;
    return h("section", { class: "sound-part" }, h("h2", null, title), note ? h("p", { class: "small quiet-text" }, note) : null,
      h("ul", { class: "panel clusters" }, clusters.map((one) => cluster(run, data, one))));
  }

  function cluster(run, data, one) {
    const of = one.source === "reason" || one.source === "signal" ? data.examined : data.failed;
    return h("li", { class: "cluster" },
      h("div", { class: "cluster-head" }, Assay.size(h("span", { class: "cluster-bar", "aria-hidden": "true" }), { "--share": one.attempts / Math.max(of, 1) }),
        h("strong", null, line(one.name)), h("span", { class: "small" }, `${format.count(one.attempts)} (${format.share(one.attempts, of)}), ${format.count(one.tasks)} ${one.tasks === 1 ? "task" : "tasks"}`)),
      one.means ? h("p", { class: "small quiet-text" }, line(one.means)) : null,
      h("p", { class: "small" }, "For example ", one.examples.map((each, at) => [at ? ", " : "", h("a", { href: Assay.href("run", run, "attempt", each.chain) }, line(each.attempt))])));
  }
})();
