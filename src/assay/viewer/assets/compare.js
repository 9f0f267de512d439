"use strict";
/* Several attempts at one task, side by side: the tree of their ways, their acts aligned, the files that they left. */

(() => {
  const { h, format } = Assay;

  class Comparison {
    constructor(page, data) {
      this.page = page;
      this.run = page.parts.run;
      this.chains = page.parts.chains;
      this.data = data;
      this.width = data.attempts.length;
      this.onlyDifferent = false;
      this.words = "";
      this.opened = new Set();
      this.common = data.rows.map((row) => row.every((cell) => cell !== null));
      this.choose();
    }

    /* What the page calls an attempt: its number, with a letter where several have the same. */
    called(at) {
      const { number } = this.data.attempts[at];
      const alone = this.data.attempts.filter((one) => one.number === number).length === 1;
      return alone ? `#${number}` : `${String.fromCharCode(65 + at)} #${number}`;
    }

    href(attempt, step) {
      return Assay.href("run", this.run, "attempt", this.data.attempts[attempt].chain, "step", String(step));
    }

    choose() {
      const words = this.words.toLowerCase();
      this.shown = [];
      this.data.rows.forEach((row, at) => {
        if (this.onlyDifferent && this.common[at]) return;
        const first = row.find((cell) => cell !== null);
        if (words && !this.data.classes[first[3]].told.toLowerCase().includes(words)) return;
        this.shown.push(at);
      });
      this.placeOf = new Map(this.shown.map((row, at) => [row, at]));
    }

    refilter() {
      this.choose();
      this.list.reset(this.shown.length);
      this.count.textContent = `${format.count(this.shown.length)} of ${format.count(this.data.rows.length)} actions, ${format.count(this.common.filter(Boolean).length)} in all attempts`;
    }

    /* ---- above -------------------------------------------------------------------------------------------------- */

    card(one, at) {
      const metrics = one.metrics;
      const facts = [one.agent, one.model, `${format.count(one.steps)} steps`, metrics.wall_s === null ? null : format.seconds(metrics.wall_s), Assay.tokensWords(metrics),
        metrics.cost_usd === null ? null : format.money(metrics.cost_usd), one.left_out ? `${format.count(one.left_out)} steps omitted` : null].filter(Boolean);
      return h("div", { class: "compare-card" }, h("h2", null, h("a", { href: Assay.href("run", this.run, "attempt", one.chain) }, Assay.line(this.data.same_task ? this.called(at) : `${this.called(at)} ${one.task}`)), " ", Assay.status(one.outcome, one.headline), Assay.separation(one.outcome, one.separation)),
        h("p", { class: "small quiet-text" }, Assay.line(facts.join(" · "))), this.divergence(one, at));
    }

    /* Where the attempt leaves the paths of the others that passed. */
    divergence(one, at) {
      if (!one.divergence) return null;
      const [act, step] = one.divergence;
      return h("p", { class: "small" }, h("button", { type: "button", class: "quiet", "aria-label": `${this.called(at)}: the action at which it leaves the other passing attempts`, onclick: () => this.jump(at, act) }, `From step ${step} on`),
        " on no path of another passing attempt");
    }

    partings() {
      const found = this.data.partings;
      if (!found.length) return null;
      return h("details", { class: "panel findings", open: found.length <= 4 }, h("summary", null, "Actions whose successor predicts the outcome"),
        h("ul", null, found.map((each) => h("li", { class: "finding" }, h("p", null, "After ", h("code", null, Assay.line(each.told)), ` (${format.number(each.gain)} bits over ${each.attempts} attempts)`),
          h("ul", { class: "branches" }, each.branches.map((branch) => h("li", null, h("span", { class: "exit", "data-failed": branch.failed && !branch.passed ? "yes" : "no" }, `${branch.passed} passed, ${branch.failed} failed`), " ",
            h("code", null, Assay.line(branch.told)))))))));
    }

    files() {
      const { known, paths, left_out: left, same } = this.data.files;
      if (known.filter(Boolean).length < 2) return null;
      const many = `${format.count(paths.length + left)} differ, ${format.count(same)} do not`;
      const end = (entry, at) => (known[at] ? h("td", null, entry === null ? h("span", { class: "quiet-text" }, "unchanged") : h("span", null, `${entry.kind} `,
        entry.digest ? Assay.blob(this.run, entry.digest, entry.size === null ? "show" : format.bytes(entry.size), "file") : null)) : h("td", { class: "quiet-text" }, "not known"));
      const row = (file) => {
        const box = h("tr", { class: "difference", hidden: true }, h("td", { colspan: this.width + 2 }));
        return [h("tr", null, h("th", { scope: "row" }, h("code", null, Assay.line(file.path))), file.ends.map(end),
          h("td", null, h("button", { type: "button", class: "quiet", "aria-label": `differences of ${file.path.slice(0, 200)}`, onclick: () => this.difference(box, file) }, "Diff"))), box];
      };
      return h("details", { class: "panel findings", open: paths.length > 0 && paths.length <= 12 }, h("summary", null, `Files at the end: ${many}`),
        paths.length ? h("div", { class: "ends-box", tabindex: "0", role: "group", "aria-label": "Files at the end" }, h("table", { class: "ends" }, h("thead", null, h("tr", null, h("th", { scope: "col" }, "path"), this.data.attempts.map((one, at) => h("th", { scope: "col" }, this.called(at))), h("th", { scope: "col" }, h("span", { class: "unseen" }, "difference")))),
          h("tbody", null, paths.map(row)))) : null,
        left ? h("p", { class: "small quiet-text" }, `${format.count(left)} more`) : null);
    }

    /* Each file that differs from the first one that is there. */
    async difference(box, file) {
      box.hidden = !box.hidden;
      const cell = box.firstChild;
      if (box.hidden || cell.childElementCount) return;
      Assay.fill(cell, h("p", { class: "small quiet-text" }, "Loading…"));
      const texts = await Promise.all(file.ends.map((entry) => this.whole(entry)));
      const first = texts.findIndex((text) => typeof text === "string");
      const made = [];
      texts.forEach((text, at) => {
        if (at === first || first < 0 || text === texts[first]) return;
        made.push(h("h3", null, `${this.called(first)} → ${this.called(at)}`));
        const drawn = typeof text === "string" ? Assay.diff(texts[first], text, `difference of ${file.path.slice(0, 200)}`, true) : null;
        made.push(drawn || h("p", { class: "small quiet-text" }, text && text.problem ? text.problem : "they differ too much to be shown line by line, or one of them is unchanged"));
      });
      Assay.fill(cell, made.length ? made : h("p", { class: "small quiet-text" }, "no stored content can be compared"));
    }

    async whole(entry) {
      if (!entry || !entry.digest) return entry && entry.kind === "removed" ? "" : null;
      try {
        const found = await Assay.load(Assay.path("run", this.run, "blob", entry.digest, "0"));
        if (found.binary) return { problem: "it is not text" };
        return found.parts > 1 ? { problem: "it is too long" } : found.text;
      } catch (error) {
        return { problem: error.message };
      }
    }

    /* ---- the table ---------------------------------------------------------------------------------------------- */

    cell(cell, at) {
      if (cell === null) return h("div", { class: "act act-none", role: "cell" }, h("span", { class: "unseen" }, `${this.called(at)}: nothing`));
      const [, step, , , state, failed] = cell;
      return h("div", { class: failed ? "act act-failed" : "act", role: "cell" },
        h("a", { href: this.href(at, step), "aria-label": `attempt ${this.called(at)}, step ${step}${failed ? ", failed" : ""}` }, `step ${step}`),
        failed ? h("span", { class: "exit", "data-failed": "yes" }, "failed") : null,
        state < 0 ? null : h("span", { class: `state hue-${state % 8}`, title: this.data.states[state] }, format.digest(this.data.states[state]).slice(0, 8)));
    }

    row(number) {
      const at = this.shown[number];
      const row = this.data.rows[at];
      const first = row.find((cell) => cell !== null);
      const known = this.data.classes[first[3]];
      const states = new Set(row.filter((cell) => cell && cell[4] >= 0).map((cell) => cell[4]));
      const count = row.filter((cell) => cell !== null).length;
      const agree = count > 1 && states.size === 1 && row.every((cell) => cell === null || cell[4] >= 0);
      const open = this.opened.has(at);
      const detail = open ? h("div", { class: "compare-detail", role: "cell" }) : null;
      const made = h("div", { class: `compare-row${this.common[at] ? " compare-all" : ""}`, role: "row", tabindex: "-1", "aria-rowindex": number + 2, "data-row": at },
        h("div", { class: "compare-told", role: "rowheader" },
          h("button", { type: "button", class: "fold", "aria-expanded": String(open), "aria-label": `${open ? "close" : "open"} the output`, onclick: () => this.toggle(at) }, open ? "▾" : "▸"),
          h("span", null, h("code", null, Assay.line(known.told || known.kind)), " ", h("span", { class: "small quiet-text" }, `${known.stage}${known.outcome ? ` · ${known.outcome}` : ""}`),
            agree ? h("span", { class: "agree", title: "all attempts with this action were in the same state afterwards" }, "same state") : null)),
        row.map((cell, each) => this.cell(cell, each)), detail);
      Assay.size(made, { "--attempts": this.width });
      if (open) this.fillDetail(detail, row);
      return made;
    }

    fillDetail(box, row) {
      row.forEach((cell, at) => {
        if (cell === null) return;
        const one = this.data.attempts[at];
        const body = h("div", null, h("p", { class: "small quiet-text" }, "Loading…"));
        box.append(h("section", null, h("h3", null, `${this.called(at)}, step ${cell[1]}`), body));
        if (cell[2] < 0) {
          Assay.fill(body, h("p", { class: "small quiet-text" }, "this step cannot be shown"));
          return;
        }
        const start = Math.floor(cell[2] / 40) * 40;
        Assay.load(Assay.path("run", this.run, "attempt", one.chain, "lines", String(start))).then((piece) => {
          const line = piece.lines.find((each) => each.line === cell[2]);
          Assay.fill(body, line ? Assay.lineBody(line, { run: this.run, chain: one.chain }) : "this step cannot be shown");
        }, (error) => Assay.fill(body, h("p", { class: "small quiet-text" }, error.message)));
      });
    }

    toggle(at) {
      if (this.opened.has(at)) this.opened.delete(at);
      else this.opened.add(at);
      this.list.changed(this.placeOf.get(at));
      const made = this.list.at(this.placeOf.get(at));
      if (made) made.querySelector(".fold").focus({ preventScroll: true });
    }

    /* To the row in which an attempt did its act. */
    jump(attempt, act) {
      if (attempt < 0) return;
      const at = this.data.rows.findIndex((row) => row[attempt] && row[attempt][0] === act);
      if (!this.placeOf.has(at)) {
        this.onlyDifferent = false;
        this.words = "";
        this.bar();
        this.refilter();
      }
      const made = this.list.show(this.placeOf.get(at), { align: "center" });
      if (made) made.focus({ preventScroll: true });
    }

    bar() {
      const input = h("input", { type: "search", placeholder: "Search actions", "aria-label": "Search actions", value: this.words, spellcheck: "false" });
      input.addEventListener("input", () => {
        this.words = input.value.trim();
        this.refilter();
      });
      this.input = input;
      Assay.fill(this.toolbar, input, h("label", { class: "choice" }, h("input", { type: "checkbox", checked: this.onlyDifferent, onchange: (event) => {
        this.onlyDifferent = event.target.checked;
        this.refilter();
      } }), "Only differences"), this.count);
    }

    build() {
      const tasks = [...new Set(this.data.attempts.map((one) => one.task))];
      this.page.crumbs([["Runs", "#/"], [this.run, Assay.href("run", this.run)], [`compare ${this.width}`, null]]);
      this.page.title(`${tasks[0]}: ${this.width} attempts`);
      this.count = h("span", { class: "small quiet-text count" });
      this.toolbar = h("div", { class: "attempt-bar" });
      this.list = Assay.virtual({ count: 0, estimate: 40, row: (at) => this.row(at), inset: () => this.toolbar.offsetHeight + this.heads.offsetHeight + 6 });
      const heads = h("div", { class: "compare-row compare-heads", role: "row" }, h("div", { class: "compare-told", role: "columnheader" }, "action"),
        this.data.attempts.map((one, at) => h("div", { class: "act", role: "columnheader" }, h("a", { href: Assay.href("run", this.run, "attempt", one.chain) }, this.called(at)), " ", Assay.status(one.outcome))));
      Assay.size(heads, { "--attempts": this.width });
      this.heads = heads;
      const table = h("div", { class: "compare-table", role: "table", "aria-label": "Actions of the attempts, aligned", "aria-rowcount": this.data.rows.length + 1 }, heads, this.list.element);
      Assay.size(table, { "--attempts": this.width });
      this.page.root.classList.add("compare");
      Assay.fill(this.page.root,
        h("div", { class: "head" }, h("h1", null, Assay.line(tasks.length === 1 ? tasks[0] : `${tasks.length} tasks`)), h("div", { class: "facts" }, h("span", null, `${this.width} attempts side by side`))),
        this.data.same_task ? null : h("p", { class: "note" }, "These attempts are not at the same task, or not at the same version of it."),
        h("div", { class: "compare-cards" }, this.data.attempts.map((one, at) => this.card(one, at))),
        h("section", { class: "panel ways-panel" }, h("h2", null, "Paths of the attempts"), Assay.graph(this.data.tree, (attempt, act) => this.jump(attempt, act))),
        this.partings(), this.files(), h("h2", { class: "unseen" }, "Acts"), this.toolbar, table);
      this.bar();
      this.refilter();
    }

    keys() {
      const at = () => {
        const row = document.activeElement && document.activeElement.closest(".compare-row[data-row]");
        return row ? this.placeOf.get(Number(row.dataset.row)) : this.list.range()[0] - 1;
      };
      const go = (place) => {
        const made = this.list.show(place, { align: "nearest" });
        if (made) made.focus({ preventScroll: true });
      };
      const parting = (from, by) => {
        for (let place = from + by; place >= 0 && place < this.shown.length; place += by) {
          if (!this.common[this.shown[place]]) return go(place);
        }
        return Assay.say("no other difference");
      };
      Assay.key("j", "the next action", () => go(Math.min(at() + 1, this.shown.length - 1)));
      Assay.key("k", "the previous action", () => go(Math.max(at() - 1, 0)));
      Assay.key("n", "the next difference", () => parting(at(), 1));
      Assay.key("p", "the previous difference", () => parting(at(), -1));
      Assay.key("o", "open or close the output", () => {
        const place = at();
        if (place >= 0) this.toggle(this.shown[place]);
      });
      Assay.key("/", "search actions", () => this.input.focus());
    }
  }

  async function show(page) {
    const { run, chains } = page.parts;
    const data = await Assay.load(Assay.path("run", run, "compare", chains));
    if (page.signal.aborted) return;
    const comparison = new Comparison(page, data);
    comparison.build();
    comparison.keys();
  }

  Assay.route("/run/{run}/compare/{chains+}", show);
})();
