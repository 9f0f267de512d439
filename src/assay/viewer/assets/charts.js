"use strict";
/* Figures as SVG, built by DOM calls alone. Each has a caption, a table that says the same, and can be saved as SVG and PNG.
   Colour never stands alone: series differ in marker or dash too, and values are written where there is room. */

Assay.charts = (() => {
  const { h, svg } = Assay;
  const LEAST = 280;
  const DASHES = [null, "6 3", "2 3", "8 3 2 3", "12 4", "4 2 1 2", "1 2", "10 2 2 2 2 2"];
  const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;

  /* ---- the frame ----------------------------------------------------------------------------------------------- */

  /* figure({title, note, name, draw(width) -> svg, label, heads, rows}): `rows` are arrays of texts or nodes; the figure is
     drawn anew where its place gets wider or narrower. */
  function figure({ title, note, name, draw, label, heads, rows, controls }) {
    const place = h("div", { class: "chart-place", tabindex: "0", role: "region", "aria-label": `${title}, drawn` });
    const made = h("figure", { class: "chart panel" },
      h("figcaption", null, h("h3", null, title), note ? h("p", { class: "small quiet-text" }, note) : null),
      controls || null, place,
      h("div", { class: "chart-tools" },
        h("button", { type: "button", class: "quiet", "aria-label": `Save ${title} as SVG`, onclick: () => saveSvg(place.firstChild, name) }, "SVG"),
        h("button", { type: "button", class: "quiet", "aria-label": `Save ${title} as PNG`, onclick: () => savePng(place.firstChild, name) }, "PNG")),
      h("details", { class: "chart-table" }, h("summary", null, `${title} as a table`), table(title, heads, rows)));
    let drawn = 0;
    const redraw = (width) => {
      const wide = Math.max(LEAST, Math.floor(width / 10) * 10);
      if (wide === drawn) return;
      drawn = wide;
      const picture = draw(wide);
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", Assay.unmasked(label));
      place.replaceChildren(picture);
    };
    redraw(640);
    new ResizeObserver((seen) => redraw(seen[0].contentRect.width)).observe(place);
    return made;
  }

  function table(title, heads, rows) {
    return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": `${title}, table` }, h("table", { class: "plain" },
      h("thead", null, h("tr", null, heads.map((words) => h("th", { scope: "col" }, words)))),
      h("tbody", null, rows.map((row) => h("tr", null, row.map((cell, at) =>
        (at === 0 ? h("th", { scope: "row" }, one(cell)) : h("td", null, one(cell)))))))));
  }

  /* A table with a caption, in a panel, for data without a drawing. */
  function figureTable(title, heads, rows, note) {
    return h("section", { class: "chart panel", "aria-label": title }, h("h3", null, title), note ? h("p", { class: "small quiet-text" }, note) : null,
      rows.length ? table(title, heads, rows) : h("p", null, "None."));
  }

  const one = (cell) => (cell instanceof Node ? cell : Assay.line(cell === null || cell === undefined ? "–" : cell));

  function canvas(width, height, ...children) {
    return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "drawing" }, children);
  }

  /* A text of a drawing, cut to what fits; the whole is its tooltip. */
  function words(value, attributes, room = Infinity) {
    const whole = String(value);
    const most = Math.max(3, Math.floor(room / 6.6));
    const characters = Array.from(whole);
    const shown = characters.length > most ? characters.slice(0, most - 1).join("") + "…" : whole;
    const made = svg("text", attributes, flat(shown));
    if (shown !== whole) made.append(svg("title", null, flat(whole)));
    return made;
  }

  /* Marks of invisible characters are elements of HTML, which SVG does not show: here they become one visible sign. */
  const flat = (value) => Assay.line(value).textContent.replace(/\s+/g, " ");

  /* ---- scales -------------------------------------------------------------------------------------------------- */

  function linear(low, high, from, to) {
    const wide = high - low || 1;
    return (value) => from + ((value - low) / wide) * (to - from);
  }

  /* Round numbers that cover 0 to `most`. */
  function ticks(most, count = 4) {
    if (!(most > 0)) return [0, 1];
    const rough = most / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
    return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, place) => place * step);
  }

  function short(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
    if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
    return String(Number(value.toPrecision(3)));
  }

  function axes({ left, right, top, bottom, x, y, xTicks, yTicks, xText = short, yText = percent, xLabel, yLabel }) {
    return svg("g", { class: "axes" },
      yTicks.map((value) => [
        svg("line", { class: "rule", x1: left, x2: right, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick", x: left - 6, y: y(value), "text-anchor": "end", "dominant-baseline": "middle" }, yText(value)),
      ]),
      xTicks.map((value) => svg("text", { class: "tick", x: x(value), y: bottom + 16, "text-anchor": "middle" }, xText(value))),
      svg("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }),
      svg("text", { class: "axis-name", x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, flat(xLabel)),
      svg("text", { class: "axis-name", x: left - 40 < 0 ? 0 : left - 40, y: top - 10 }, flat(yLabel)));
  }

  /* ---- markers ------------------------------------------------------------------------------------------------- */

  function marker(place, x, y, size = 5) {
    const given = { class: `series-${place % 8} point` };
    const kind = place % 4;
    if (kind === 1) return svg("rect", { ...given, x: x - size + 0.5, y: y - size + 0.5, width: 2 * size - 1, height: 2 * size - 1 });
    if (kind === 2) return svg("polygon", { ...given, points: `${x},${y - size - 1} ${x + size + 1},${y + size} ${x - size - 1},${y + size}` });
    if (kind === 3) return svg("polygon", { ...given, points: `${x},${y - size - 1} ${x + size + 1},${y} ${x},${y + size + 1} ${x - size - 1},${y}` });
    return svg("circle", { ...given, cx: x, cy: y, r: size });
  }

  function legend(series, line) {
    return h("ul", { class: "chart-legend" }, series.map((each, place) => {
      const sample = svg("svg", { viewBox: "0 0 28 14", width: 28, height: 14, "aria-hidden": "true" },
        line ? svg("line", { class: `series-${place % 8} curve`, x1: 1, x2: 27, y1: 7, y2: 7, "stroke-dasharray": DASHES[place % 8] }) : null,
        marker(place, 14, 7, 4));
      return h("li", null, sample, " ", Assay.line(each.name), each.more ? h("span", { class: "quiet-text" }, ` ${each.more}`) : null);
    }));
  }

  /* ---- bars with intervals ------------------------------------------------------------------------------------- */

  /* bars({title, note, items: [{name, value, low, high, more}], most, text}): one line an item. */
  function bars({ title, note, items, most = 1, text = percent, heads, rows }) {
    const line = 36;
    const told = items.filter((item) => item.value !== null);
    const draw = (width) => {
      const x = linear(0, most, 8, width - 70);
      const height = 30 + line * items.length;
      const end = height - 24;
      return canvas(width, height,
        ticks(most).filter((value) => value <= most * 1.0001).map((value) => [
          svg("line", { class: "rule", x1: x(value), x2: x(value), y1: 0, y2: end }),
          svg("text", { class: "tick", x: x(value), y: end + 16, "text-anchor": "middle" }, text(value)),
        ]),
        items.map((item, place) => bar(item, 4 + place * line, x, text, width)));
    };
    const spoken = told.map((item) => `${item.name} ${text(item.value)}`).join("; ");
    return figure({ title, note, name: title, draw, label: `${title}. ${spoken || "nothing known"}`,
      heads: heads || ["", "value", "from", "to"],
      rows: rows || items.map((item) => [item.name, ...[item.value, item.low, item.high].map((v) => (v === null || v === undefined ? "–" : text(v)))]) });
  }

  function bar(item, top, x, text, width) {
    const middle = top + 23;
    const known = item.value !== null && item.value !== undefined;
    const hasEnds = known && item.low !== null && item.low !== undefined;
    return svg("g", null,
      words(item.more ? `${item.name} · ${item.more}` : item.name, { class: "name", x: 8, y: top + 10 }, width - 80),
      known ? svg("rect", { class: "bar-fill", x: x(0), y: middle - 6, width: Math.max(0, x(item.value) - x(0)), height: 12, rx: 2 }) : null,
      hasEnds ? svg("path", { class: "whisker",
        d: `M${x(item.low)} ${middle}H${x(item.high)}M${x(item.low)} ${middle - 4}v8M${x(item.high)} ${middle - 4}v8` }) : null,
      svg("text", { class: "value", x: (known ? x(Math.max(item.value, hasEnds ? item.high : 0)) : x(0)) + 6, y: middle, "dominant-baseline": "middle" },
        known ? text(item.value) : "not known"));
  }

  /* ---- what it costs against what it gives ---------------------------------------------------------------------- */

  /* scatter({title, note, points: [{name, x, xLow, xHigh, y, yLow, yHigh, front}], xLabel, yLabel}). */
  function scatter({ title, note, points, xLabel, yLabel, controls, heads, rows }) {
    const placed = points.map((point, place) => ({ ...point, place })).filter((point) => point.x !== null && point.y !== null);
    const draw = (width) => {
      const [left, right, top, bottom] = [48, width - 14, 26, 300];
      const marks = ticks(Math.max(...placed.map((p) => (p.xHigh === null ? p.x : Math.min(p.xHigh, 2 * p.x))), 0));
      const x = linear(0, marks[marks.length - 1], left, right);
      const y = linear(0, 1, bottom, top);
      const front = placed.filter((point) => point.front).sort((a, b) => a.x - b.x);
      const stairs = front.map((p, place) => (place ? `H${x(p.x)}V${y(p.y)}` : `M${x(p.x)} ${y(p.y)}`)).join("");
      const labelled = new Set([...placed].sort((a, b) => Boolean(b.front) - Boolean(a.front)).slice(0, MOST_LABELS)); /* each seeks room among all before it */
      const taken = placed.map((point) => ({ y: y(point.y), from: x(point.x) - 9, to: x(point.x) + 9 }));
      return canvas(width, 344,
        axes({ left, right, top, bottom, x, y, xTicks: marks, yTicks: [0, 0.25, 0.5, 0.75, 1], xLabel, yLabel }),
        front.length ? svg("path", { class: "front", d: `${stairs}H${right}` }) : null,
        placed.map((point) => svg("g", null, cross(point, x, y), marker(point.place, x(point.x), y(point.y), point.front ? 6 : 5),
          labelled.has(point) ? named(point, x(point.x), y(point.y), taken, { left, right }) : null)));
    };
    const spoken = placed.slice(0, MOST_LABELS).map((p) => `${p.name}: ${percent(p.y)} at ${short(p.x)}${p.front ? ", on the front" : ""}`).join("; ");
    return figure({ title, note, name: title, draw, controls, label: `${title}. ${spoken || "nothing known"}`, heads, rows });
  }

  function cross(point, x, y) {
    const parts = [];
    if (point.yLow !== null) parts.push(`M${x(point.x)} ${y(point.yLow)}V${y(point.yHigh)}`);
    if (point.xLow !== null) parts.push(`M${x(point.xLow)} ${y(point.y)}H${x(point.xHigh)}`);
    return parts.length ? svg("path", { class: `series-${point.place % 8} spread`, d: parts.join("") }) : null;
  }

  /* The name beside a point, moved down as long as another name is there. */
  const MOST_LABELS = 60;

  function named(point, x, y, taken, { left, right }) {
    const whole = Math.min(190, right - left, (point.front ? 7.4 : 6.6) * Array.from(String(point.name)).length);
    const before = x + 10 + whole > right;
    const room = before ? Math.max(60, x - 12) : 190; /* a name before its point ends at the edge of the drawing */
    const length = Math.min(room, whole);
    const from = before ? x - 10 - length : x + 10;
    let at = y - 8;
    while (taken.some((t) => Math.abs(t.y - at) < 13 && t.from < from + length && from < t.to)) at += 13;
    taken.push({ y: at, from, to: from + length });
    return words(point.name, { class: point.front ? "name label on-front" : "name label", x: before ? x - 10 : x + 10, y: at,
      "text-anchor": before ? "end" : "start", "dominant-baseline": "middle" }, room);
  }

  /* ---- a map of cells ------------------------------------------------------------------------------------------- */

  /* grid({title, note, columns: [name], rows: [{name, cells: [{value, text} | null]}]}): values in [0, 1]. */
  function grid({ title, note, columns, rows, corner = "" }) {
    const draw = (width) => {
      const names = Math.min(220, Math.max(90, width * 0.34));
      const cell = Math.max(34, Math.min(96, (width - names - 10) / columns.length));
      const high = 22;
      const slanted = columns.some((name) => name.length * 6.6 > cell);
      const top = slanted ? 84 : 24;
      const wide = Math.max(width, names + cell * columns.length + (slanted ? 70 : 8));
      return canvas(wide, top + high * rows.length + 6,
        columns.map((name, at) => {
          const x = names + cell * at + cell / 2;
          return slanted ? words(name, { class: "tick", x, y: top - 8, transform: `rotate(-35 ${x} ${top - 8})` }, 110)
            : words(name, { class: "tick", x, y: top - 8, "text-anchor": "middle" }, cell);
        }),
        rows.map((row, line) => svg("g", null,
          words(row.name, { class: "name", x: names - 8, y: top + high * line + high / 2, "text-anchor": "end", "dominant-baseline": "middle" }, names - 10),
          row.cells.map((found, at) => box(found, names + cell * at, top + high * line, cell, high)))));
    };
    const count = rows.length * columns.length;
    return figure({ title, note, name: title, draw, label: `${title}: ${rows.length} by ${columns.length}, ${count} cells; values in the table below`,
      heads: [corner, ...columns], rows: rows.map((row) => [row.name, ...row.cells.map((found) => (found ? found.text : "–"))]) });
  }

  function box(found, x, y, wide, high) {
    const middle = { x: x + wide / 2, y: y + high / 2, "text-anchor": "middle", "dominant-baseline": "middle" };
    if (!found || found.value === null) {
      return svg("g", null, svg("rect", { class: "cell none", x: x + 1, y: y + 1, width: wide - 2, height: high - 2, rx: 2 }),
        svg("text", { class: "cell-text", ...middle }, found ? found.text : "–"));
    }
    return svg("g", null,
      svg("rect", { class: "cell", x: x + 1, y: y + 1, width: wide - 2, height: high - 2, rx: 2, "fill-opacity": (0.06 + 0.84 * found.value).toFixed(3) }),
      words(found.text, { class: found.value > 0.85 ? "cell-text on" : "cell-text", ...middle }, wide));
  }

  /* ---- predicted against observed --------------------------------------------------------------------------------- */

  /* reliability({title, note, bins: [{mean_score, rate, count}]}): on the diagonal a score means what it says. */
  function reliability({ title, note, bins }) {
    const all = bins.reduce((sum, bin) => sum + bin.count, 0);
    const draw = (width) => {
      const side = Math.min(width - 70, 320);
      const [left, right, top, bottom] = [48, 48 + side, 26, 26 + side];
      const x = linear(0, 1, left, right);
      const y = linear(0, 1, bottom, top);
      const tenths = [0, 0.25, 0.5, 0.75, 1];
      return canvas(width, bottom + 44,
        axes({ left, right, top, bottom, x, y, xTicks: tenths, yTicks: tenths, xText: percent, xLabel: "score", yLabel: "passed" }),
        svg("line", { class: "diagonal", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }),
        svg("polyline", { class: "series-0 curve", points: bins.map((bin) => `${x(bin.mean_score)},${y(bin.rate)}`).join(" ") }),
        bins.map((bin) => svg("circle", { class: "series-0 bubble", cx: x(bin.mean_score), cy: y(bin.rate), r: 3 + 11 * Math.sqrt(bin.count / all) },
          svg("title", null, `${bin.count} attempts: score ${percent(bin.mean_score)}, passed ${percent(bin.rate)}`))));
    };
    const spoken = bins.map((bin) => `score ${percent(bin.mean_score)} passed ${percent(bin.rate)}`).join("; ");
    return figure({ title, note, name: title, draw, label: `${title}. ${spoken}`, heads: ["score", "attempts", "passed"],
      rows: bins.map((bin) => [percent(bin.mean_score), String(bin.count), percent(bin.rate)]) });
  }

  /* ---- curves ---------------------------------------------------------------------------------------------------- */

  /* curves({title, note, series: [{name, more, points: [[x, y, low, high]]}], step, most, xLabel, yLabel, marks}): shares on
     the vertical axis; `step` draws stairs, else straight lines with a marker and an interval at every point. */
  function curves({ title, note, series, step = false, most, xLabel, yLabel, marks, controls, heads, rows }) {
    const draw = (width) => {
      const [left, right, top, bottom] = [48, width - 14, 26, 280];
      const at = marks || ticks(most);
      const x = linear(marks ? marks[0] : 0, at[at.length - 1], left + (marks ? 12 : 0), right - (marks ? 12 : 0));
      const y = linear(0, 1, bottom, top);
      return canvas(width, 324,
        axes({ left, right, top, bottom, x, y, xTicks: at, yTicks: [0, 0.25, 0.5, 0.75, 1], xLabel, yLabel }),
        series.map((each, place) => svg("g", null,
          svg("path", { class: `series-${place % 8} curve`, "stroke-dasharray": DASHES[place % 8], d: way(each.points, x, y, step) }),
          step ? marker(place, x(last(each.points)[0]), y(last(each.points)[1]), 4) : each.points.map((point) => dot(point, place, x, y, series.length)))));
    };
    const spoken = series.map((each) => `${each.name} ends at ${percent(last(each.points)[1])}`).join("; ");
    const tools = [controls || null, legend(series, true)];
    return figure({ title, note, name: title, draw, controls: tools, label: `${title}. ${spoken}`, heads, rows });
  }

  const last = (points) => points[points.length - 1];

  function way(points, x, y, step) {
    return points.map(([at, share], place) => (place === 0 ? `M${x(at)} ${y(share)}` : step ? `H${x(at)}V${y(share)}` : `L${x(at)} ${y(share)}`)).join("");
  }

  function dot([at, share, low, high], place, x, y, of) {
    const shift = of > 1 ? (place - (of - 1) / 2) * 3 : 0;
    return svg("g", null,
      low === null || low === undefined ? null : svg("path", { class: `series-${place % 8} spread`, d: `M${x(at) + shift} ${y(low)}V${y(high)}` }),
      marker(place, x(at), y(share), 4));
  }

  /* ---- saving ---------------------------------------------------------------------------------------------------- */

  const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "stroke-linejoin", "opacity", "paint-order",
    "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

  /* A drawing that needs no style sheet: what it looks like here, written into it. */
  function standalone(drawing) {
    const copy = drawing.cloneNode(true);
    const originals = [drawing, ...drawing.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((element, place) => {
      const seen = getComputedStyle(originals[place]);
      if (element !== copy) for (const name of KEPT) element.setAttribute(name, seen.getPropertyValue(name));
      element.removeAttribute("class");
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const ground = getComputedStyle(drawing.closest(".chart")).backgroundColor;
    copy.prepend(svg("rect", { x: 0, y: 0, width: copy.getAttribute("width"), height: copy.getAttribute("height"), fill: ground }));
    return new XMLSerializer().serializeToString(copy);
  }

  function saveSvg(drawing, name) {
    Assay.save(`${name}.svg`, "image/svg+xml", standalone(drawing));
    Assay.say(`${name} saved as SVG`);
  }

  function savePng(drawing, name) {
    const [wide, high] = ["width", "height"].map((side) => Number(drawing.getAttribute(side)));
    const address = URL.createObjectURL(new Blob([standalone(drawing)], { type: "image/svg+xml" }));
    const picture = new Image();
    picture.onload = () => {
      const sheet = document.createElement("canvas");
      [sheet.width, sheet.height] = [2 * wide, 2 * high];
      sheet.getContext("2d").drawImage(picture, 0, 0, sheet.width, sheet.height);
      URL.revokeObjectURL(address);
      sheet.toBlob((blob) => {
        Assay.save(`${name}.png`, "image/png", blob);
        Assay.say(`${name} saved as PNG`);
      }, "image/png");
    };
    picture.onerror = () => {
      URL.revokeObjectURL(address);
      Assay.say(`${name} could not be drawn as PNG: save it as SVG`);
    };
    picture.src = address;
  }

  return { figure, figureTable, bars, scatter, grid, reliability, curves, table, percent, canvas, axes, linear, ticks, short, legend, dashes: DASHES };
})();
