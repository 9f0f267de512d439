"use strict";
/* The branches and agents of an attempt as a tree. */

(() => {
  const { h, format } = Assay;
  const CAUSES = {
    root: "another conversation", resample: "same request again", rewritten: "earlier messages were rewritten",
    compaction: "messages were replaced by a summary", tools: "other tools were offered", sub_agent: "a sub-agent",
    unjoined: "not connected to earlier calls",
  };

  const causeWords = (cause) => (Object.hasOwn(CAUSES, cause) ? CAUSES[cause] : null);

  Assay.laneWords = (lane) => (lane.kind === "main" ? lane.agent || "main line" : lane.kind === "agent" ? lane.name
    : lane.agent || causeWords(lane.cause) || "a branch");

  /* Assay.lanes(lanes, chosen, choose): nested lists of buttons; `choose(number)` shows one lane alone, or, with null,
     all of them. */
  Assay.lanes = (lanes, chosen, choose) => {
    const below = new Map();
    lanes.forEach((lane, at) => {
      if (!below.has(lane.parent)) below.set(lane.parent, []);
      below.get(lane.parent).push(at);
    });
    const one = (at) => {
      const lane = lanes[at];
      const counts = [lane.steps ? `${format.count(lane.steps)} ${lane.steps === 1 ? "step" : "steps"}` : "",
        lane.calls ? `${format.count(lane.calls)} ${lane.calls === 1 ? "call" : "calls"}` : ""].filter(Boolean).join(", ");
      const why = lane.cause && lane.kind === "branch" && (lane.agent || !causeWords(lane.cause)) ? causeWords(lane.cause) || lane.cause : "";
      return h("li", null,
        h("button", { type: "button", class: `lane hue-${at % 8}`, "aria-pressed": String(chosen === at), onclick: () => choose(chosen === at ? null : at) },
          h("span", { class: "lane-name" }, Assay.line(Assay.laneWords(lane))), h("span", { class: "lane-told" }, [why, counts].filter(Boolean).join(" · "))),
        level(at));
    };
    const level = (parent) => {
      const listed = below.get(parent);
      if (!listed) return null;
      const shown = listed.slice(0, 200);
      return h("ul", null, shown.map(one), listed.length > shown.length ? h("li", { class: "quiet-text small" }, `${format.count(listed.length - shown.length)} more`) : null);
    };
    return h("nav", { class: "lanes", "aria-label": "Branches and agents" }, level(-1));
  };
})();
