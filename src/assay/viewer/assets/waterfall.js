"use strict";
/* Where an attempt's time went: model calls, tools and verification on one axis, and the longest of them as a table. */

(() => {
  const { h, svg, format } = Assay;
  const KINDS = [["model", "Model"], ["tool", "Tools"], ["verify", "Verification"]];
  const LONGEST = 20;
  const LANE = 34;

  /* Round seconds that cover 0 to `most`. */
  function marks(most, count) {
    const rough = most / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
  }

  /* Spans of one kind at least a pixel wide; those that touch there become one. */
  function joined(spans, x) {
    const found = [];
    for (const [, start, end] of [...spans].sort((a, b) => a[1] - b[1])) {
      const [from, until] = [x(start), Math.max(x(end), x(start) + 1)];
      const last = found[found.length - 1];
      if (last && from <= last[1] + 0.4) last[1] = Math.max(last[1], until);
      else found.push([from, until]);
    }
    return found;
  }

  function drawing(timeline, width) {
    const [left, right] = [width < 480 ? 76 : 96, width - 14];
    const most = timeline.end || 1;
    const x = (seconds) => left + (seconds / most) * (right - left);
    const bottom = KINDS.length * LANE + 6;
    const lane = ([kind, name], at) => {
      const top = at * LANE + 8;
      return [svg("text", { class: "name", x: left - 8, y: top + 10, "text-anchor": "end", "dominant-baseline": "middle" }, name),
        svg("line", { class: "rule", x1: left, x2: right, y1: top + 10, y2: top + 10 }),
        joined(timeline.spans.filter((span) => span[0] === kind), x).map(([from, until]) => svg("rect", { class: `span-${kind}`, x: from, y: top, width: until - from, height: 20, rx: 2 }))];
    };
    return svg("svg", { viewBox: `0 0 ${width} ${bottom + 40}`, width, height: bottom + 40, class: "drawing waterfall" },
      marks(most, width < 480 ? 3 : 6).map((at) => [svg("line", { class: "rule", x1: x(at), x2: x(at), y1: 0, y2: bottom }),
        svg("text", { class: "tick", x: x(at), y: bottom + 16, "text-anchor": "middle" }, format.seconds(at))]),
      KINDS.map(lane), svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { class: "axis-name", x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, "since the attempt began"));
  }

  /* Assay.waterfall(attempt): a figure with the sums, or a sentence where the record holds no times. */
  Assay.waterfall = (attempt) => {
    const { timeline } = attempt.data;
    if (!timeline.spans.length || !(timeline.end > 0)) return h("p", { class: "empty" }, "The record holds no times of calls or tools.");
    const lineAt = new Map(attempt.lines.events.map((event, line) => [event, line]));
    attempt.lines.calls_of.forEach((event, line) => { if (event >= 0) lineAt.set(event, line); });
    const longest = [...timeline.spans].sort((a, b) => b[2] - b[1] - (a[2] - a[1])).slice(0, LONGEST);
    const name = (kind) => (KINDS.find(([known]) => known === kind) || [kind, kind])[1];
    const sums = KINDS.filter(([kind]) => kind in timeline.totals).map(([kind, words]) => `${words} ${format.seconds(timeline.totals[kind])} (${format.share(timeline.totals[kind], timeline.end)})`);
    const rows = longest.map(([kind, start, end, event]) => {
      const line = lineAt.get(event);
      return [h("a", { href: attempt.href("line", String(line ?? 0)) }, Assay.line(line === undefined ? `event ${event}` : attempt.lines.heads[line] || name(kind))),
        name(kind), h("span", { class: "nowrap" }, `+${format.seconds(start)}`), h("span", { class: "nowrap" }, format.seconds(end - start))];
    });
    const figure = Assay.charts.figure({
      title: "Time", name: "time", label: `Time by model, tools and verification. ${sums.join("; ")}`,
      note: `${sums.join(" · ")} · ${format.seconds(timeline.end)} in all. Overlapping calls of one kind count once.${timeline.left_out ? ` ${format.count(timeline.left_out)} later stretches are not drawn.` : ""}`,
      draw: (width) => drawing(timeline, width), heads: ["Call or command, the longest first", "Kind", "Start", "Duration"], rows,
    });
    figure.querySelector("details").open = true;
    return figure;
  };
})();
