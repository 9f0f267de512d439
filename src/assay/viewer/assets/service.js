"use strict";
/* The rollout service of the store, as its files are now: versions of policies, batches that wait, and how old what the
   trainers took was. An export has none. */

(() => {
  const { h, fill, format, line } = Assay;
  const C = Assay.charts;
  const STATES = { done: "pass", failed: "fail", running: "open", waiting: "none", cancelled: "none" };
  const known = (value, text = String) => (value === null || value === undefined ? "–" : text(value));

  Assay.route("/service", async (page) => {
    page.crumbs([["Runs", "#/"], ["rollout service", null]]);
    page.title("Rollout service");
    const facts = h("p", { class: "facts" });
    const place = h("div", { class: "figures" });
    fill(page.root, h("div", { class: "head" }, h("h1", null, "Rollout service"), facts), place);
    const load = () => Assay.load("service", { fresh: true });
    const draw = (data) => {
      show(facts, place, data);
      return data.state && data.state.is_running ? "running" : "stopped";
    };
    const data = await load();
    if (page.signal.aborted) return;
    draw(data);
    if (data.state) Assay.poll(page, load, draw);
  });

  function show(facts, place, data) {
    const state = data.state;
    if (!state) {
      fill(place, h("div", { class: "panel empty" }, data.is_live
        ? ["This store has no rollout service. ", h("code", null, "assay serve"), " starts one."]
        : "This viewer does not read the service: open the store with assay view."));
      return;
    }
    const waiting = state.policies.reduce((sum, one) => sum + one.waiting, 0);
    const running = state.policies.reduce((sum, one) => sum + one.running, 0);
    fill(facts, h("span", null, state.is_running ? (state.is_paused ? "paused" : "running") : "stopped"),
      h("span", null, `${format.count(waiting)} waiting, ${format.count(running)} running`));
    fill(place,
      C.figureTable("Policies", ["Policy", "Step", "Version", "Waiting", "Running", "Acknowledged groups", "Mean lag", "Highest lag", "Dropped"], state.policies.map(policyRow),
        "Lag: updates between the oldest trained token of a group and the trainer's step, when the trainer took the group."),
      C.figureTable("Groups by lag", ["Policy", "Lag", "Groups"], state.policies.flatMap((one) => byLag(one.lags).map(([lag, count]) => [one.name, lag, format.count(count)])),
        "Acknowledged groups of remembered batches."),
      C.figureTable("Batches", ["Batch", "Policy", "State", "Step", "Bound", "Begins at step", "Unread groups", "Highest lag", "Dropped", "Problem"], state.batches.map(batchRow),
        state.left_out ? `${format.count(state.left_out)} older ones are not listed.` : "Bound: the age that the trainer allows. Unread: made, and not acknowledged yet."));
  }

  const byLag = (lags) => Object.entries(lags).sort(([a], [b]) => (a === "unknown") - (b === "unknown") || Number(a) - Number(b));
  const ages = (lags) => byLag(lags).filter(([lag]) => lag !== "unknown").map(([lag, count]) => [Number(lag), count]);
  const sum = (counts) => counts.reduce((total, count) => total + count, 0);
  const highest = (lags) => known(ages(lags).map(([lag]) => lag).pop());
  const drops = (dropped) => Object.entries(dropped).map(([why, count]) => `${format.count(count)} ${why}`).join(", ") || "–";

  function mean(lags) {
    const groups = sum(ages(lags).map(([, count]) => count));
    return groups ? (sum(ages(lags).map(([lag, count]) => lag * count)) / groups).toFixed(2) : "–";
  }

  function policyRow(one) {
    return [one.name, known(one.step), known(one.version), format.count(one.waiting), format.count(one.running),
      format.count(sum(Object.values(one.lags))), mean(one.lags), highest(one.lags), drops(one.dropped)];
  }

  function batchRow(one) {
    const name = one.state === "waiting" ? line(one.id) : h("a", { href: Assay.href("run", one.run) }, line(one.id));
    return [name, one.policy, Assay.status(Object.hasOwn(STATES, one.state) ? STATES[one.state] : "none", one.state), known(one.step), known(one.most_lag),
      known(one.begins_at), format.count(one.unread), highest(one.lags), drops(one.dropped), one.error];
  }
})();
