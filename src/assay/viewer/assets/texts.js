"use strict";
/* Texts, long texts, values and pictures of a record. `here` is {run, chain, event}: where they stand. */

(() => {
  const { h, format } = Assay;

  /* Lines with their numbers; `cited` is the number of the one that something rests on. */
  function lines(text, first, { terminal = false, cited = 0, state = {} } = {}) {
    const all = text.split("\n");
    const bare = first === null || (all.length === 1 && first === 1) ? " ln-bare" : "";
    return all.map((words, at) => h("span",
      { class: (first !== null && first + at === cited ? "ln cited" : "ln") + bare, "data-row": bare ? "" : String(first + at) },
      terminal ? Assay.ansi(words, state) : Assay.text(words)));
  }

  function gap(cut, here, label) {
    const shown = cut.text.length + cut.tail.length;
    const left = cut.line - 1 - cut.text.split("\n").length;
    const words = left > 1 ? `${format.count(left)} lines omitted` : `${format.count(cut.length - shown)} characters omitted`;
    return h("span", { class: "gap" }, h("span", null, `… ${words} … `),
      h("button", { type: "button", class: "button", onclick: () => whole(cut, here, label) }, `Show all of ${label}`));
  }

  function textPart(cut, here, part) {
    return Assay.load(Assay.path("run", here.run, "attempt", here.chain, "text", String(here.event), cut.at, String(part)));
  }

  function whole(cut, here, label, row = 0, offset = 0) {
    Assay.reader({
      title: label,
      told: `${format.count(cut.length)} characters, ${format.count(cut.lines)} ${cut.lines === 1 ? "line" : "lines"}`,
      load: (part) => textPart(cut, here, part),
      part: Math.floor(offset / 65536),
      row,
    });
  }

  /* The lines around a cited one that the beginning and the end do not show. */
  function middle(cut, here, cited) {
    const made = h("span", { class: "gap" }, `… line ${format.count(cited.row)} …`);
    const part = Math.floor((cited.offset || 0) / 65536);
    textPart(cut, here, part).then((found) => {
      const all = found.text.split("\n");
      const at = cited.row - found.line;
      const from = Math.max(0, at - 6);
      const near = all.slice(from, at + 7).map((words) => words.slice(0, 2000)).join("\n");
      made.replaceWith(h("span", { class: "gap" }, "…"), ...lines(near, found.line + from, { cited: cited.row }), h("span", { class: "gap" }, "…"));
    }, () => {});
    return made;
  }

  function terminal(text) {
    return text.includes("\u001b");
  }

  /* Assay.block(cut, here, {label, cited}): a text as numbered lines in a box that scrolls. */
  Assay.block = (cut, here, { label = "text", cited = null, plain = false } = {}) => {
    if (cut.image) return Assay.picture(Assay.path("run", here.run, "attempt", here.chain, "picture", String(here.event), cut.at), label);
    const at = cited && cited.at === cut.at ? cited : null;
    const isTerminal = terminal(cut.text) || terminal(cut.tail || "");
    if (!isTerminal && cut.tail === undefined && !at && !plain && Assay.isPatch(cut.text)) return Assay.copyable(Assay.patch(cut.text, label), cut.text, label);
    const options = { terminal: isTerminal, cited: at ? at.row : 0, state: {} };
    const first = cut.text.split("\n").length;
    const hidden = at && cut.tail !== undefined && at.row > first && at.row < cut.line;
    const long = cut.tail !== undefined;
    const box = h("pre", { class: "block", tabindex: "0", role: "group", "aria-label": label },
      lines(cut.text, 1, options), hidden ? middle(cut, here, at) : null, long ? gap(cut, here, label) : null,
      long ? lines(cut.tail, cut.line, options) : null);
    return Assay.copyable(box, long ? () => Assay.joined((part) => textPart(cut, here, part)) : cut.text, label);
  };

  /* Assay.prose(cut, here, label): a message as it was written, its Markdown made visible. */
  Assay.prose = (cut, here, label) => (cut.tail === undefined && !cut.image
    ? prose(cut.text, label)
    : Assay.block(cut, here, { label, plain: true }));

  /* A message with a block of code can be copied. */
  function prose(text, label) {
    const box = h("div", { class: "prose" }, Assay.markdown(text));
    return /^ {0,3}(```|~~~)/m.test(text) ? Assay.copyable(box, text, label) : box;
  }

  /* A value's nodes (see `texts.tree` of the server). */
  Assay.node = (node, here, { label = "value", cited = null, deep = 0 } = {}) => {
    const [kind, held, left] = node;
    if (kind === "v") return h("code", { class: "scalar" }, String(held));
    if (kind === "x") return h("button", { type: "button", class: "quiet", onclick: () => json(held, here, label) }, "… more");
    if (kind === "s") {
      const short = held.tail === undefined && !held.image && held.text.length <= 160 && !held.text.includes("\n") && !terminal(held.text);
      const isCited = cited && cited.at === held.at;
      return short ? h("code", { class: isCited ? "string cited" : "string" }, Assay.text(held.text)) : Assay.block(held, here, { label, cited });
    }
    if (kind === "a") {
      if (!held.length) return h("code", { class: "scalar" }, "[ ]");
      const flat = held.every(([each]) => each === "v" || each === "s") && held.length <= 12;
      return h(flat ? "span" : "ol", { class: flat ? "flat" : "values" },
        held.map((each) => h(flat ? "span" : "li", null, Assay.node(each, here, { label, cited, deep: deep + 1 }))), rest(left, flat));
    }
    if (!held.length) return h("code", { class: "scalar" }, "{ }");
    return h("dl", { class: "fields" }, held.map(([key, each]) => h("div", null, h("dt", null, Assay.line(key)),
      h("dd", null, Assay.node(each, here, { label: key, cited, deep: deep + 1 })))), rest(left, false, true));
  };

  function rest(left, flat, fields = false) {
    if (!left) return null;
    const words = `${format.count(left)} more`;
    return fields ? h("div", null, h("dt", null, "…"), h("dd", { class: "quiet-text" }, words)) : h(flat ? "span" : "li", { class: "quiet-text" }, words);
  }

  function json(at, here, label) {
    Assay.reader({
      title: label,
      told: "as JSON",
      load: (part) => Assay.load(Assay.path("run", here.run, "attempt", here.chain, "text", String(here.event), at || "-", String(part))),
    });
  }
  Assay.wholeEvent = (here, label) => json("", here, label);

  /* Assay.blob(run, digest, label): a button that shows a blob. */
  Assay.blob = (run, digest, words, label = "blob") => h("button", { type: "button", class: "quiet", title: digest, onclick: () => Assay.reader({
    title: label, told: format.digest(digest), load: (part) => Assay.load(Assay.path("run", run, "blob", digest, String(part))),
  }) }, words);

  /* Assay.picture(view name, label): a picture that is fetched when it is asked for, or at once. */
  Assay.picture = (name, label) => {
    const figure = h("figure", { class: "picture" }, h("figcaption", { class: "quiet-text small" }, `${label}: loading…`));
    Assay.load(name).then((found) => {
      if (found.problem) {
        Assay.fill(figure, h("figcaption", { class: "quiet-text small" }, `${label}: ${found.problem}`));
        return;
      }
      Assay.fill(figure, h("img", { src: `data:${found.type};base64,${found.data}`, alt: label, width: found.width, height: found.height }),
        h("figcaption", { class: "quiet-text small" }, `${label}, ${found.width} × ${found.height}`));
    }, (error) => Assay.fill(figure, h("figcaption", { class: "quiet-text small" }, `${label}: ${error.message}`)));
    return figure;
  };

  /* Assay.reader({title, told, load(part), part, row}): a dialog with a text of any length, of which what is seen is
     loaded. `load` gives {text, parts, line}. */
  Assay.reader = ({ title, told = "", load, part = 0, row = 0 }) => {
    const scroller = h("div", { class: "reader-text", tabindex: "0", role: "group", "aria-label": title });
    const ends = h("span", { class: "small quiet-text" }, told);
    const dialog = h("dialog", { class: "reader", "aria-label": title },
      h("header", null, h("h2", null, Assay.line(title)), ends, h("span", { class: "space" }),
        Assay.copy(() => Assay.joined(load), title),
        h("button", { type: "button", class: "button", onclick: () => list.show(0, { align: "start" }) }, "Start"),
        h("button", { type: "button", class: "button", onclick: () => list.show(count - 1, { align: "start" }) }, "End"),
        h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Close")), scroller);
    const held = new Map();
    let count = 1;
    const list = Assay.virtual({ count: 0, scroller, estimate: 1200, row: (at) => {
      const found = held.get(at);
      if (found) return h("pre", { class: "part" }, lines(found.text, found.line, { terminal: terminal(found.text), cited: row }));
      fetched(at);
      return h("pre", { class: "part quiet-text" }, "Loading…");
    } });
    const waiting = new Set();
    function fetched(at) {
      if (waiting.has(at)) return;
      waiting.add(at);
      load(at).then((found) => {
        waiting.delete(at);
        for (const old of held.keys()) if (held.size > 12 && Math.abs(old - at) > 4) held.delete(old);
        held.set(at, found);
        if (found.parts !== count) {
          count = found.parts;
          list.reset(count);
        } else list.changed(at);
      }, (error) => {
        waiting.delete(at);
        held.set(at, { text: error.message, line: null, parts: count });
        list.changed(at);
      });
    }
    dialog.addEventListener("close", () => {
      list.stop();
      dialog.remove();
    });
    document.body.append(dialog);
    scroller.append(list.element);
    dialog.showModal();
    load(part).then((found) => {
      held.set(part, found);
      count = found.parts;
      list.reset(count);
      list.show(part, { align: "start" });
      const cited = scroller.querySelector(".cited");
      if (cited) cited.scrollIntoView({ block: "center" });
    }, (error) => Assay.fill(scroller, h("p", { class: "note" }, error.message)));
  };
})();
