"use strict";
/* The course of an attempt: where alarms rang, and which node of a workflow each step belongs to. */

(() => {
  const { h, fill, format, line } = Assay;

  /* Assay.course(attempt): a panel with alarms and workflows, filled once they are known, when the lines get their tags. */
  Assay.course = (attempt) => {
    const place = h("div", { class: "course" });
    Assay.load(attempt.name("course"), { fresh: !Assay.exported }).then((data) => {
      if (attempt.page.signal.aborted) return;
      attempt.course = marks(data);
      fill(place, panel(data, attempt));
      attempt.retagged();
    }, () => {});
    return place;
  };

  /* Steps with their alarms and nodes. The first of several workflows names the nodes of a step. */
  function marks(data) {
    const alarms = new Map(data.alarms.map((one, at) => [one.step, { ...one, first: at === 0 }]));
    const nodes = new Map();
    for (const flow of data.workflows) for (const [step, node] of flow.nodes) if (!nodes.has(step)) nodes.set(step, node);
    return { alarms, nodes };
  }

  /* Assay.courseTags(course, step): the tags of a step's line. */
  Assay.courseTags = (course, step) => {
    if (!course || step === undefined) return null;
    const [alarm, node] = [course.alarms.get(step), course.nodes.get(step)];
    return [alarm ? h("span", { class: "exit", "data-failed": "yes", title: `${alarm.error}: ${alarm.reason}` }, alarm.first ? "alarm" : "later alarm") : null,
      node === undefined ? null : h("span", { class: "node-tag", title: `node ${node} of the workflow` }, h("span", { class: "unseen" }, "node "), line(node))];
  };

  function panel(data, attempt) {
    if (!data.alarms.length && !data.workflows.length) return null;
    const step = (number) => (attempt.lineOf.has(number) ? h("a", { href: attempt.href("step", String(number)) }, `step ${number}`) : `step ${number}`);
    const left = data.left_out ? h("p", { class: "small quiet-text" }, `The ${format.count(data.left_out)} steps after them were not read.`) : null;
    return h("section", { class: "panel course-panel", "aria-label": "Alarms and workflow" }, alarms(data.alarms, step), data.workflows.map((flow) => workflow(flow, step)), left);
  }

  function alarms(found, step) {
    if (!found.length) return null;
    const row = (one) => h("li", null, step(one.step), ` by `, h("b", null, line(one.who)), ` (${one.error}): `, line(one.reason),
      one.raised_at === one.step ? null : h("span", { class: "small quiet-text" }, " rang at ", step(one.raised_at)));
    const [first, ...rest] = found;
    return [h("h2", null, "Alarm"), h("p", { class: "small quiet-text" }, "The first step that looked wrong from the steps before it alone: a reason to look, never a verdict."),
      h("ul", null, row(first)), rest.length ? h("details", { class: "more" }, h("summary", null, `${format.count(rest.length)} later ${rest.length === 1 ? "alarm" : "alarms"}`), h("ul", null, rest.map(row))) : null];
  }

  function workflow(flow, step) {
    const share = flow.calls ? `${format.count(flow.followed || 0)} of ${format.count(flow.calls)} calls follow it` : "no call";
    const end = flow.finished === true ? "it came to its end" : flow.finished === false ? "it did not come to its end" : null;
    return [h("h2", null, "Workflow ", line(flow.name)), h("p", null, [share, end].filter(Boolean).join("; "), flow.by === "agent" ? ". The agent recorded this itself." : "."),
      typeof flow.deviated_at === "number" ? h("p", null, "Deviated at ", step(flow.deviated_at), flow.expected ? [", where it expected ", h("code", null, line(flow.expected))] : null, ".")
        : flow.expected ? h("p", null, "Ended before ", h("code", null, line(flow.expected)), ".") : null,
      flow.failed ? h("p", { class: "bad" }, "Failed node: ", line(flow.failed)) : null,
      flow.nodes.length ? h("ol", { class: "course-nodes", "aria-label": "Nodes by step" }, flow.nodes.slice(0, 60).map(([number, node]) => h("li", null, h("span", { class: "node-tag" }, line(node)), " ", step(number)))) : null];
  }
})();
