"use strict";
/* The nodes of a run, as they are now: what each does, what waits for upload, how many attempts are decided over time.
   Nothing of it is in the store, so a page of an export has none. */

(() => {
  const { h, svg, fill, format, line } = Assay;
  const C = Assay.charts;
  const EVERY_MS = 2000;
  const STATES = { answers: "pass", silent: "fail", "not asked": "none" };
  const HEADS = ["Node", "State", "Slots", "Running", "Waiting", "Uploading", "Spool", "Upload lag", "Last sign", "Last poll", "Problem"];

  Assay.route("/run/{run}/nodes", async (page) => {
    const run = page.parts.run;
    const tabs = Assay.runTabs(page, run, "nodes");
    const facts = h("p", { class: "facts" });
    const place = h("div", { class: "figures" });
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Nodes of ", line(run)), facts), tabs, place);
    const load = () => Assay.load(Assay.path("run", run, "nodes"), { fresh: true });
    const data = await load();
    if (page.signal.aborted) return;
    show(facts, place, data);
    if (data.status && !data.status.ended) Assay.poll(page, load, (later) => {
      if (!later.status) return "running";
      show(facts, place, later);
      return later.status.ended ? "ended" : "running";
    });
  });

  /* Asks again every two seconds until `draw`, which returns a word, returns "ended", or the page is left; a hidden page
     does not ask. */
  Assay.poll = (page, load, draw) => {
    let timer = null;
    const again = () => {
      timer = setTimeout(async () => {
        if (document.hidden) return again();
        const data = await load().catch((error) => error);
        if (page.signal.aborted) return undefined;
        if (data instanceof Error) Assay.liveness("lost", data.message);
        else {
          const word = draw(data);
          Assay.liveness(word === "running" ? "on" : "idle", word);
          if (word === "ended") return undefined;
        }
        return again();
      }, EVERY_MS);
    };
    Assay.liveness("on", "running");
    again();
    page.signal.addEventListener("abort", () => {
      clearTimeout(timer);
      Assay.liveness(null);
    });
  };

  function show(facts, place, data) {
    const status = data.status;
    if (!status) {
      fill(facts);
      fill(place, h("div", { class: "panel empty" }, data.is_live
        ? ["This run was not done by nodes. ", h("code", null, "assay run --nodes 2"), " starts one that is."]
        : "This viewer does not ask nodes: open the run with assay view."));
      return;
    }
    const answering = status.nodes.filter((node) => node.state === "answers");
    fill(facts, Assay.runState(status.ended ? "finished" : answering.length ? "running" : "interrupted"),
      h("span", null, `${format.count(status.finals)} of ${format.count(status.attempts)} attempts decided`),
      h("span", null, `${format.count(status.running)} running, ${format.count(status.leases)} ${status.leases === 1 ? "lease" : "leases"}`),
      h("span", null, status.last_final ? `last decision ${format.moment(status.last_final)}` : "none decided yet"));
    fill(place,
      status.ended ? h("p", { class: "note" }, "The run is complete, and its nodes have left.") : null,
      !status.ended && status.nodes.length && status.nodes.every((node) => node.state === "not asked")
        ? h("p", { class: "note" }, "The nodes are not asked, because no token is known: give ", h("code", null, "assay view"), " their ", h("code", null, "--token-file"), ".") : null,
      C.figureTable("Nodes", HEADS, status.nodes.map(row),
        "Upload lag: for how long the oldest finished trial waits for the place. Last sign: since the node answered this viewer. Last poll: since a command asked the node for work."),
      throughput(status.throughput),
      C.figureTable("Errors by boundary", ["Boundary", "Trials"], Object.entries(status.errors).map(([name, count]) => [name, format.count(count)]),
        "Trials that an error ended, those that were tried again included."),
      C.figureTable("Trials that do not count", ["Kind", "Trials"], ["superseded", "retried", "interrupted"].map((name) => [name, format.count(status[name])])),
      status.problems.length ? C.figureTable("Damaged objects", ["Problem"], status.problems.map((words) => [words])) : null);
  }

  function row(node) {
    const known = (value, text) => (value === null || value === undefined ? "–" : text(value));
    return [node.agent, Assay.status(Object.hasOwn(STATES, node.state) ? STATES[node.state] : "none", node.state), format.count(node.slots),
      known(node.running, format.count), known(node.waiting, format.count), known(node.uploading, format.count),
      known(node.spool_bytes, format.bytes), known(node.upload_wait_s, format.seconds), known(node.last_sign_s, format.seconds),
      known(node.polled_s, format.seconds), node.problem];
  }

  function throughput(found) {
    if (!found) return null;
    const title = "Decided attempts over time";
    const perMinute = found.counts.map((count) => (60 * count) / found.interval_s);
    const total = found.counts.reduce((sum, count) => sum + count, 0);
    const most = perMinute.reduce((a, b) => Math.max(a, b), 0);
    const label = `${title}. ${format.count(total)} in ${format.count(found.counts.length)} intervals of ${format.seconds(found.interval_s)}, at most ${C.short(most)} a minute`;
    return C.figure({ title, note: `Attempts a minute, in intervals of ${format.seconds(found.interval_s)}, by the clock of the place.`, name: "throughput", label,
      draw: (width) => picture(found, perMinute, width), heads: ["from", "attempts", "a minute"],
      rows: found.starts.map((start, at) => [format.moment(start), format.count(found.counts[at]), C.short(perMinute[at])]) });
  }

  function picture(found, values, width) {
    const [left, right, top, bottom] = [58, width - 14, 20, 200];
    const span = found.counts.length * found.interval_s;
    const unit = span > 7200 ? [3600, "hours"] : span > 120 ? [60, "minutes"] : [1, "seconds"];
    const yTicks = C.ticks(values.reduce((a, b) => Math.max(a, b), 1));
    const xTicks = C.ticks(span / unit[0]);
    const x = C.linear(0, xTicks[xTicks.length - 1], left, right);
    const y = C.linear(0, yTicks[yTicks.length - 1], bottom, top);
    const wide = found.interval_s / unit[0];
    return C.canvas(width, 244, C.axes({ left, right, top, bottom, x, y, xTicks, yTicks, yText: C.short, xLabel: unit[1], yLabel: "" }),
      values.map((value, at) => svg("rect", { class: "series-0 point", x: x(at * wide), y: y(value), width: Math.max(1, x((at + 1) * wide) - x(at * wide) - 1), height: bottom - y(value) })));
  }
})();
