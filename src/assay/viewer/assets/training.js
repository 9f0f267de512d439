"use strict";
/* Curves over the steps of a training, kept up to date while it runs; several trainings over each other. */

(() => {
  const { h, svg, fill, format, line } = Assay;
  const C = Assay.charts;
  /* What each metric of the trainer is, by its name in the record: a title, and what it measures. */
  const KNOWN = {
    loss: ["Loss", ""],
    success: ["Success of the step's attempts", "Share of the judged attempts that passed, with its 95% interval where it is recorded."],
    surprise: ["Entropy", "Mean −log p of the trained tokens, in nats (surprise)."],
    lag: ["Policy lag", "Updates between the weights that sampled the tokens and those that are trained: the mean over tokens (lag)."],
    lag_most: ["Largest policy lag", "Updates between the weights that sampled a token and those that are trained (lag_most)."],
    lag_unknown: ["Tokens of unknown weights", "Share of the trained tokens whose weights are no version of this training (lag_unknown)."],
    stale: ["Attempts dropped as stale", "Their weights were older than most_lag updates, or unknown."],
    dropped: ["Attempts dropped", "For every reason."],
    gap_most: ["Largest gap of log-probabilities", "Between the trainer and the engine, in nats, over tokens of the present weights (gap_most)."],
    gradient_norm: ["Gradient norm", ""], learning_rate: ["Learning rate", ""], right: ["Pairs ranked right", ""],
  };
  const FIRST = ["loss", "success", "surprise", "lag", "lag_most", "stale", "gap_most", "gradient_norm", "right"];
  const SHARES = new Set(["success", "lag_unknown"]);
  const EVERY_MS = 2000;
  const MARKED = 20; /* points of a curve that each get a dot */
  const isKnown = (name) => Object.hasOwn(KNOWN, name);

  Assay.route("/run/{run}/training", async (page) => {
    const run = page.parts.run;
    const tabs = Assay.runTabs(page, run, "training");
    const state = h("span", null);
    const place = h("div", { class: "figures" });
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Training ", line(run)), h("p", { class: "facts" }, state)), tabs, place);
    const load = () => Assay.load(Assay.path("run", run, "training"), { fresh: !Assay.exported });
    const show = (data) => {
      fill(state, Assay.runState(data.state));
      fill(place, figures([data]));
    };
    const data = await load();
    if (page.signal.aborted) return;
    show(data);
    live(page, run, load, show);
  });

  /* Draws anew at most every two seconds while the run grows. */
  function live(page, run, load, show) {
    let timer = null;
    const renew = async () => {
      timer = null;
      const data = await load().catch(() => null);
      if (data && !page.signal.aborted) show(data);
    };
    Assay.live(run, 0, (what, told) => {
      if (what === "state") Assay.liveness(told.state === "running" ? "on" : "idle", told.state);
      if (what === "lost") Assay.liveness("lost", "connection lost");
      if (what !== "lost" && what !== "failed") timer = timer || setTimeout(renew, EVERY_MS);
    });
    page.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      Assay.liveness(null);
    });
  }

  /* Assay.trainings(runs): the curves of several trainings over each other. */
  Assay.trainings = (runs) => {
    const place = h("div", { class: "figures" });
    Promise.all(runs.map((run) => Assay.load(Assay.path("run", run, "training"), { fresh: true }).catch(() => null))).then((found) => {
      fill(place, h("h2", null, "Training"), figures(found.filter(Boolean)));
    });
    return place;
  };

  function figures(trainings) {
    const several = trainings.length > 1;
    const stages = [...new Set(trainings.flatMap((one) => one.stages.map((stage) => stage.name)))];
    const heldOut = evaluations(trainings); /* beside the curves of the last stage, which it evaluates */
    const made = stages.length ? [] : [heldOut];
    for (const stage of stages) {
      const mine = trainings.map((one) => [one.run, one.stages.find((each) => each.name === stage)]).filter((pair) => pair[1]);
      const names = [...new Set(mine.flatMap(([, one]) => Object.keys(one.curves)))];
      names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
      made.push(h("h2", null, line(stage.replaceAll("_", " "))), stage === stages[stages.length - 1] ? heldOut : null, names.filter((name) => rank(name) < FIRST.length).map((name) => curve(stage, name, mine, several)));
      const rest = names.filter((name) => rank(name) >= FIRST.length);
      if (rest.length) made.push(more(stage, rest, mine, several));
    }
    const shown = made.filter(Boolean);
    return shown.length ? shown : h("div", { class: "panel empty" }, "This run holds no training metrics.");
  }

  const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : FIRST.length);

  function more(stage, names, mine, several) {
    const box = h("details", { class: "whole" }, h("summary", null, `${format.count(names.length)} more`));
    box.addEventListener("toggle", () => {
      if (box.childElementCount === 1) box.append(h("div", { class: "figures" }, names.map((name) => curve(stage, name, mine, several))));
    });
    return box;
  }

  function curve(stage, name, mine, several) {
    const series = mine.filter(([, one]) => Object.hasOwn(one.curves, name)).map(([run, one]) => ({ name: several ? run : name, points: one.curves[name] }));
    const [title, note] = isKnown(name) ? KNOWN[name] : [name, ""];
    return drawn(title, series, SHARES.has(name) ? C.percent : C.short, several, note, name === "success" ? [0, 0.25, 0.5, 0.75, 1] : null);
  }

  function evaluations(trainings) {
    const series = trainings.filter((one) => one.evaluations.some((point) => point.success !== null)).map((one) => ({ name: trainings.length > 1 ? one.run : "success",
      points: one.evaluations.filter((point) => point.success !== null).map((point) => [point.step, point.success, point.low, point.high]) }));
    return series.length ? drawn("Success on held-out tasks", series, C.percent, trainings.length > 1, "With its 95% interval, over the steps of the training.", [0, 0.25, 0.5, 0.75, 1]) : null;
  }

  function drawn(title, series, text, several, note = "", range = null) {
    const draw = (width) => picture(series, width, text, range || valueTicks(series));
    const ends = series.map((one) => `${one.name} ends at ${text(one.points[one.points.length - 1][1])}`).join("; ");
    return C.figure({ title, note, name: title, draw, label: `${title}. ${ends}`, controls: several ? C.legend(series, true) : null,
      heads: ["series", "steps", "first", "least", "most", "last"], rows: series.map((one) => {
        const values = one.points.map((point) => point[1]);
        return [one.name, format.count(values.length), ...[values[0], values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b)), values[values.length - 1]].map(text)];
      }) });
  }

  /* Round values that cover all points; from 0 where that wastes less than half of the height. */
  function valueTicks(series) {
    const values = series.flatMap((one) => one.points.map((point) => point[1]));
    const [least, most] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), -Infinity)];
    if (least >= 0 && (least < most / 2 || least === most)) return C.ticks(most);
    const rough = (most - least) / 4 || Math.abs(most) || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    const from = Math.floor(least / step);
    return Array.from({ length: Math.min(Math.ceil(most / step) - from + 1, 20) }, (_, at) => (from + at) * step);
  }

  function picture(series, width, text, values) {
    const [left, right, top, bottom] = [58, width - 14, 20, 200];
    const marked = series.every((one) => one.points.length <= MARKED);
    const steps = series.flatMap((one) => one.points.map((point) => point[0]));
    const marks = C.ticks(steps.reduce((a, b) => Math.max(a, b), 1)).filter((mark) => Number.isInteger(mark));
    const x = C.linear(0, marks[marks.length - 1] || 1, left, right);
    const y = C.linear(values[0], values[values.length - 1], bottom, top);
    return C.canvas(width, 244, C.axes({ left, right, top, bottom, x, y, xTicks: marks, yTicks: values, yText: text, xLabel: "step", yLabel: "" }),
      series.map((one, at) => svg("g", null,
        one.points.map(([step, , from, until]) => (from === undefined || from === null || until === null ? null : svg("path", { class: `series-${at % 8} spread`, d: `M${x(step)} ${y(from)}V${y(until)}` }))),
        marked ? one.points.map(([step, value]) => svg("circle", { class: `series-${at % 8} point`, cx: x(step), cy: y(value), r: 3.5 })) : null,
        svg("path", { class: `series-${at % 8} curve`, "stroke-dasharray": C.dashes[at % 8], d: one.points.map(([step, value], place) => `${place ? "L" : "M"}${x(step)} ${y(value)}`).join("") }))));
  }
})();
