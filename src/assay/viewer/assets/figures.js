"use strict";
/* The figures of a run: rates, what a pass costs, agents by models, tasks, scores, survival. */

(() => {
  const { h, fill, format, line } = Assay;
  const C = Assay.charts;
  const AMOUNTS = { cost_usd: format.money, tokens: format.tokens, seconds: format.seconds, turns: (n) => format.number(n, 1) };
  const NAMES = { cost_usd: "US dollars", tokens: "tokens", seconds: "seconds", turns: "turns" };
  const BANDS = ["never", "hard", "middling", "easy", "always"];

  Assay.route("/run/{run}/figures", async (page) => {
    const run = page.parts.run;
    const tabs = Assay.runTabs(page, run, "figures");
    const data = await Assay.load(Assay.path("run", run, "figures"), { fresh: !Assay.exported });
    const body = data.attempts ? h("div", { class: "figures" }, rates(data), spending(data), byModel(data), tasks(data), scores(data),
      lasting(data), flips(data)) : h("div", { class: "panel empty" }, "No attempt has ended yet.");
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Figures"), h("p", { class: "facts" }, h("bdi", null, line(run)),
      ` ${format.count(data.attempts)} attempts`)), tabs,
    data.left_out ? h("p", { class: "note" }, `${data.left_out} configurations with fewer attempts are not shown.`) : null, body);
  });

  const ends = (e) => ({ value: e.value, low: e.low, high: e.high });

  function rates(data) {
    const items = data.rates.map((one) => ({ name: one.name, ...ends(one.pass_at_1), more: `${one.tasks} tasks` }));
    const heads = ["configuration", "pass@1", "from", "to", "passed", "doubtful", "failed", "unknown", "error"];
    const rows = data.rates.map((one) => [one.name, ...["value", "low", "high"].map((name) => share(one.pass_at_1[name])),
      one.passed, one.doubtful, one.failed, one.unknown, one.error]);
    const made = [h("h2", null, "Pass rates"), h("div", { class: "whole" }, C.bars({ title: "pass@1", items, heads, rows,
      note: "Mean over tasks, with cluster-robust 95% confidence intervals (attempts at one task are correlated). " +
        "Unjudged attempts are excluded." }))];
    const several = data.rates.filter((one) => one.at_k.length);
    if (several.length) {
      made.push(reach(several, "pass_at_k", "pass@k", "At least one of k attempts passes."));
      made.push(reach(several, "pass_hat_k", "pass^k", "All of k attempts pass. The difference to pass@k is due to chance."));
    }
    return made;
  }

  function reach(found, which, title, note) {
    const series = found.map((one) => ({ name: one.name, points: [[1, one.pass_at_1.value, one.pass_at_1.low, one.pass_at_1.high],
      ...one.at_k.map((at) => [at.k, at[which].value, at[which].low, at[which].high])].filter((point) => point[1] !== null) }));
    const marks = [...new Set(series.flatMap((each) => each.points.map((point) => point[0])))].sort((a, b) => a - b);
    return C.curves({ title, note, series, marks, xLabel: "k", yLabel: title, heads: ["configuration", ...marks.map((k) => `k = ${k}`)],
      rows: series.map((each) => [each.name, ...marks.map((k) => interval(each.points.find((point) => point[0] === k)))]) });
  }

  const share = (value) => (value === null || value === undefined ? "–" : C.percent(value));
  const interval = (point) => (!point ? "–" : point[2] === null ? share(point[1]) : `${share(point[1])} (${share(point[2])} to ${share(point[3])})`);

  /* A figure that a choice draws anew. */
  function chosen(label, names, draw) {
    const place = h("div");
    const show = (name) => fill(place, draw(name));
    const select = h("select", { onchange: () => show(select.value) }, names.map((name) => h("option", { value: name }, NAMES[name] || name)));
    show(names[0]);
    return h("div", null, names.length > 1 ? h("label", { class: "chart-choice" }, label, " ", select) : null, place);
  }

  function spending(data) {
    const names = Object.keys(data.spending.measures);
    if (!names.length) return [];
    return [h("h2", null, "Resource use"), chosen("Against", names, (name) => front(data, name)), chosen("Amount of", names, (name) => amounts(data, name))];
  }

  function front(data, name) {
    const mine = data.spending.points.filter((point) => point.measure === name);
    const points = mine.map((p) => ({ name: p.name, x: p.missing ? null : p.mean.value, xLow: p.mean.low, xHigh: p.mean.high, y: p.pass_at_1.value,
      yLow: p.pass_at_1.low, yHigh: p.pass_at_1.high, front: p.on_front }));
    const unknown = mine.filter((p) => p.missing).length;
    return C.scatter({ title: `pass@1 against ${NAMES[name]}`, points, xLabel: `${NAMES[name]} per attempt`, yLabel: "pass@1",
      note: "The dashed line is the Pareto front." + (unknown ? ` ${unknown} with missing amounts are not shown.` : ""),
      heads: ["configuration", "pass@1", `${NAMES[name]}, mean`, "front"],
      rows: mine.map((p) => [p.name, share(p.pass_at_1.value), AMOUNTS[name](p.mean.value), p.on_front ? "yes" : "no"]) });
  }

  function amounts(data, name) {
    const mine = data.spending.points.filter((point) => point.measure === name);
    const most = Math.max(...mine.map((p) => p.mean.high || p.mean.value || 0), 1e-9);
    return C.bars({ title: `${NAMES[name]} per attempt`, most, text: AMOUNTS[name], items: mine.map((p) => ({ name: p.name, ...ends(p.mean) })),
      note: "Mean over tasks, with its 95% interval.", heads: ["configuration", "mean", "median", "in all", "for a pass", "not known"],
      rows: mine.map((p) => [p.name, AMOUNTS[name](p.mean.value), AMOUNTS[name](p.median), `${p.missing ? "≥ " : ""}${AMOUNTS[name](p.total)}`,
        AMOUNTS[name](p.per_pass), p.missing]) });
  }

  function byModel(data) {
    const { agents, models, cells, components } = data.grid;
    const found = (agent, model) => cells.find((cell) => cell.agent === agent && cell.model === model);
    const cell = (one) => (one ? { value: one.value, text: one.value === null ? "none judged" : C.percent(one.value) } : null);
    const parts = components.filter((part) => part.share !== null).map((part) => ({ name: part.name === "residual" ? "residual" : part.name, value: part.share,
      more: part.levels ? `${part.levels} levels` : "" }));
    return [h("h2", null, "Agents by models"),
      cells.length < 2 ? null : C.grid({ title: "pass@1 of each agent with each model", corner: "agent", columns: models, rows: agents.map((agent) => ({ name: agent, cells: models.map((model) => cell(found(agent, model))) })) }),
      parts.length ? C.bars({ title: "Variance between attempts, by factor", items: parts, heads: ["factor", "share"], rows: parts.map((part) => [part.name, share(part.value)]),
        note: "Share of the sum of squares, each factor given all others; shares of incomplete designs need not add up to 100%." }) : null];
  }

  function tasks(data) {
    const { bands, rows, configurations, left_out: more } = data.tasks;
    if (!rows.length) return [];
    const counted = BANDS.map((name) => ({ name, value: bands[name] || 0 }));
    const most = Math.max(...counted.map((one) => one.value), 1);
    const cell = (pair) => (pair && pair[1] ? { value: pair[0] / pair[1], text: `${pair[0]}/${pair[1]}` } : null);
    return [h("h2", null, "Tasks"),
      C.bars({ title: "Task difficulty", items: counted, most, text: (n) => format.count(Math.round(n)), heads: ["band", "tasks"], rows: counted.map((one) => [one.name, one.value]),
        note: "never and always are exact; hard is below 25%, easy above 75%." }),
      C.figureTable("Task discrimination", ["task", "rate", "attempts", "band", "discrimination"], rows.filter((row) => row.discrimination !== null)
        .sort((a, b) => a.discrimination - b.discrimination).slice(0, 40).map((row) => [row.task, share(row.rate), row.attempts, row.band, format.number(row.discrimination)]),
      "Correlation of the configurations' results here with those on all other tasks, the lowest first. Below 0 better configurations fail it more often. Needs three configurations."),
      h("div", { class: "whole" }, C.grid({ title: "Tasks by configurations", corner: "task", columns: configurations, rows: rows.map((row) => ({ name: row.task, cells: row.cells.map(cell) })),
        note: more ? `${format.count(more)} less informative tasks are omitted.` : null }))];
  }

  function scores(data) {
    const made = data.scores.map((card) => C.reliability({ title: `What ${card.check} is worth`, bins: card.bins,
      note: `AUC ${format.number(card.auc)}${card.auc_interval ? ` (${format.number(card.auc_interval[0])} to ${format.number(card.auc_interval[1])})` : ""}, calibration error ${format.number(card.ece)}. ` +
        `Pass rate of the selected attempt ${share(card.selected)}, of a random one ${share(card.at_random)}, of the best ${share(card.at_best)}.` }));
    return made.length ? [h("h2", null, "Scores that predict the outcome"), made] : [];
  }

  function lasting(data) {
    if (!data.survival.length) return [];
    const names = data.survival.map((one) => one.measure);
    return [h("h2", null, "Time to a pass"), h("div", { class: "whole" }, chosen("Over", names, (name) => {
      const one = data.survival.find((each) => each.measure === name);
      const series = one.curves.map((curve) => ({ name: curve.name, more: curve.missing ? `${curve.missing} not known` : "",
        points: [...curve.points, [curve.end, last(curve.points)[1], 0]] }));
      return C.curves({ title: `Still unsolved after so many ${NAMES[name]}`, step: true, series, most: Math.max(...one.curves.map((curve) => curve.end)),
        xLabel: NAMES[name], yLabel: "unsolved", note: "Kaplan-Meier curve; attempts without a pass are censored at their end.",
        heads: ["configuration", "attempts", "half solved after", "unsolved at the end"],
        rows: one.curves.map((curve) => [curve.name, curve.attempts, half(curve.points, AMOUNTS[name]), share(last(curve.points)[1])]) });
    }))];
  }

  const last = (points) => points[points.length - 1];
  const half = (points, text) => {
    const found = points.find((point) => point[1] <= 0.5);
    return found ? text(found[0]) : "never";
  };

  function flips(data) {
    const { rows, left_out: more } = data.flakes;
    if (!rows.length) return [];
    return [h("h2", null, "What flips"), h("div", { class: "whole" }, C.figureTable("Tasks with inconsistent outcomes",
      ["task", "configuration", "passed", "verifier differed"], rows.map((row) => [row.task, row.name, `${row.passed} of ${row.judged}`, row.verifier]),
      more ? `${format.count(more)} more are not listed.` : "Verifier differences: re-verification of a stored state gave another result."))];
  }
})();
