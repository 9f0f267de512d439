"use strict";
/* The page of one attempt: verdicts with the lines that they rest on, branches and agents as a tree, an outline of all
   lines, and the lines themselves, of which only what is in sight is loaded. */

(() => {
  const { h, format } = Assay;
  const KINDS = { a: "beginning", s: "step", c: "model call", e: "evidence", v: "verdict", n: "note", z: "end" };
  const SHOWN = [["s", "Steps"], ["c", "Calls"], ["e", "Evidence"], ["v", "Verdicts"], ["n", "Notes"]];
  const GROUPS = { a: "n" };
  const FOLDED = new Set(["e", "n"]); /* bookkeeping: folded into the line that it precedes */
  const MAIN = ["s", "c", "v", "z"];
  const VIEWS = [["log", "Log"], ["transcript", "Transcript"], ["changes", "Changes"], ["time", "Time"], ["tree", "Tree"]];
  const DIGESTS = new Set(["attempt", "task digest", "chain head"]); /* facts that are worth copying */
  const WIDE = "(min-width: 68rem)";
  const BESIDE = 3; /* verdicts that stand beside the task; more stand below it */

  /* The first sentence of a rule's or a mark's meaning. */
  const sentence = (words) => words.split(/(?<=[.;]) /)[0].replaceAll("`", "");

  class Attempt {
    constructor(page, data) {
      this.page = page;
      this.run = page.parts.run;
      this.chain = page.parts.chain;
      this.pieces = new Map();
      this.waiting = new Set();
      this.opened = new Map();
      this.kinds = new Set(MAIN);
      this.unfolded = new Set(); /* the first line of each open fold */
      this.view = null;
      this.lane = null;
      this.onlyErrors = false;
      this.callsOpen = false; /* of the transcript */
      this.words = "";
      this.found = null;
      this.cited = null;
      this.course = null; /* alarms and nodes by step, once they are known */
      this.take(data);
    }

    name(...parts) {
      return Assay.path("run", this.run, "attempt", this.chain, ...parts);
    }

    href(...parts) {
      return Assay.href("run", this.run, "attempt", this.chain, ...parts);
    }

    take(data) {
      this.data = data;
      const lines = data.lines;
      this.lines = lines;
      this.bits = lines.flag_bits;
      this.usageOf = new Map(lines.usage.map(([line, ...usage]) => [line, usage]));
      this.stepOf = new Map(lines.steps.map(([step, line]) => [line, step]));
      this.lineOf = new Map(lines.steps);
      this.firstOf = new Map();
      lines.states_of.forEach((state, line) => {
        if (state >= 0 && !this.firstOf.has(state)) this.firstOf.set(state, line);
      });
    }

    has(line, flag) {
      return Boolean(this.lines.flags[line] & this.bits[flag]);
    }

    group(line) {
      const kind = this.lines.kinds[line];
      return GROUPS[kind] || kind;
    }

    /* ---- which lines ------------------------------------------------------------------------------------------- */

    choose() {
      const words = this.words.toLowerCase();
      const sought = Boolean(words) || this.onlyErrors;
      const holds = (line) => !words || this.lines.heads[line].toLowerCase().includes(words) || Boolean(this.found && this.found.has(line));
      this.rows = [];
      this.folds = new Map(); /* line to the lines folded before it */
      this.after = null; /* what is folded after the last line */
      this.foldOf = new Map(); /* folded line to the first line of its fold */
      let held = [];
      for (let line = 0; line < this.lines.events.length; line += 1) {
        const kind = this.group(line);
        if (this.lane !== null && this.lines.lanes_of[line] !== this.lane) continue;
        if (this.onlyErrors && !this.has(line, "error") && !this.has(line, "late")) continue;
        if (!holds(line)) continue;
        if (!this.kinds.has(kind) && FOLDED.has(kind) && !sought) {
          held.push(line);
          continue;
        }
        if (!this.kinds.has(kind) && !FOLDED.has(kind)) continue;
        if (held.length) this.folds.set(line, this.fold(held));
        held = [];
        this.rows.push(line);
      }
      if (held.length) {
        const last = this.rows[this.rows.length - 1];
        const shown = this.fold(held, last === undefined);
        if (last !== undefined) this.after = { line: last, lines: shown };
      }
      this.rowOf = new Map(this.rows.map((line, row) => [line, row]));
    }

    /* Folds lines together; shows them where they are open. */
    fold(lines, always = false) {
      for (const line of lines) this.foldOf.set(line, lines[0]);
      if (always || this.unfolded.has(lines[0])) this.rows.push(...lines);
      return lines;
    }

    unfold(first) {
      if (!this.unfolded.delete(first)) this.unfolded.add(first);
      this.choose();
      this.list.reset(this.rows.length, { keep: true });
      this.outline.reset(this.rows.length, { keep: true });
      this.counted();
    }

    foldButton(lines, words) {
      const open = this.unfolded.has(lines[0]);
      return h("button", { type: "button", class: "records", "aria-expanded": String(open), title: open ? "fold these records" : "show these records",
        onclick: () => this.unfold(lines[0]) }, `${format.count(lines.length)} ${words}${lines.length === 1 ? "" : "s"}`);
    }

    refilter() {
      this.choose();
      this.list.reset(this.rows.length);
      this.outline.reset(this.rows.length);
      this.counted();
    }

    counted() {
      this.count.textContent = this.rows.length === this.lines.events.length
        ? `${format.count(this.rows.length)} lines` : `${format.count(this.rows.length)} of ${format.count(this.lines.events.length)} lines`;
      this.count.title = this.foldOf.size ? `${format.count(this.foldOf.size)} records of evidence and notes are folded into the lines that follow them` : "";
      this.empty.hidden = this.rows.length > 0;
    }

    /* Looks through the lines themselves, piece by piece, for what the outline does not say. */
    async search() {
      const words = this.words.toLowerCase();
      const mine = Symbol("search");
      this.searching = mine;
      this.found = null;
      this.refilter();
      this.progress.textContent = "";
      if (words.length < 2) return;
      const found = new Set();
      for (let start = 0; start < this.lines.events.length; start += this.lines.at_once) {
        let piece;
        try {
          piece = await Assay.load(this.name("lines", String(start)));
        } catch {
          continue;
        }
        if (this.searching !== mine || this.page.signal.aborted) return;
        let fresh = false;
        for (const line of piece.lines) {
          if (JSON.stringify(line, (key, value) => (key === "at" ? undefined : value)).toLowerCase().includes(words)) {
            found.add(line.line);
            fresh = true;
          }
        }
        this.found = found;
        const done = Math.min(start + this.lines.at_once, this.lines.events.length);
        if (fresh) this.refilter();
        this.progress.textContent = done < this.lines.events.length ? `looked through ${format.share(done, this.lines.events.length)}` : "";
      }
      Assay.say(`${this.rows.length} lines hold ${this.words}`);
    }

    /* ---- lines ------------------------------------------------------------------------------------------------- */

    fetch(line) {
      const start = Math.floor(line / this.lines.at_once) * this.lines.at_once;
      if (this.waiting.has(start)) return;
      this.waiting.add(start);
      Assay.load(this.name("lines", String(start))).then((piece) => {
        this.waiting.delete(start);
        for (const known of this.pieces.keys()) {
          if (this.pieces.size < 24) break;
          if (Math.abs(known - start) > 4 * this.lines.at_once) this.pieces.delete(known);
        }
        this.pieces.set(start, { lines: new Map(piece.lines.map((each) => [each.line, each])) });
        this.changed(start);
      }, (error) => {
        this.waiting.delete(start);
        this.pieces.set(start, { lines: new Map(), problem: error.message });
        this.changed(start);
      });
    }

    changed(start) {
      for (let line = start; line < start + this.lines.at_once; line += 1) {
        if (this.rowOf.has(line)) this.list.changed(this.rowOf.get(line));
      }
      if (this.conversation) this.conversation.changed(start);
    }

    piece(line) {
      const found = this.pieces.get(Math.floor(line / this.lines.at_once) * this.lines.at_once);
      if (!found) this.fetch(line);
      return found;
    }

    isOpen(line) {
      const known = this.opened.get(line);
      return known === undefined ? this.group(line) === "s" || this.group(line) === "v" || this.group(line) === "c" : known;
    }

    row(number) {
      const line = this.rows[number];
      const kind = this.lines.kinds[line];
      const open = this.isOpen(line);
      const classes = ["line", `line-${this.group(line)}`, `hue-${this.lines.lanes_of[line] % 8}`];
      if (this.has(line, "error")) classes.push("line-failed");
      if (this.cited && this.cited.line === line) classes.push("line-cited");
      if (this.foldOf.has(line)) classes.push("line-record");
      const body = h("div", { class: "line-body" });
      const made = h("article", { class: classes.join(" "), tabindex: "-1", "aria-labelledby": `line-${line}`, "aria-posinset": number + 1,
        "aria-setsize": this.rows.length, "data-line": line }, this.head(line, kind, open), open ? body : null);
      if (open) this.fillBody(line, body);
      made.firstChild.addEventListener("click", (event) => {
        if (!event.target.closest("a, button") && !String(getSelection())) this.toggle(line);
      });
      return made;
    }

    fillBody(line, body) {
      const piece = this.piece(line);
      if (!piece) {
        Assay.fill(body, h("p", { class: "quiet-text small" }, "Loading…"));
        return;
      }
      const found = piece.lines.get(line);
      const here = { run: this.run, chain: this.chain };
      if (!found) Assay.fill(body, h("p", { class: "quiet-text small" }, piece.problem || "this line cannot be shown"));
      else Assay.fill(body, Assay.lineBody(found, here, this.cited && this.cited.line === line ? this.cited : null));
    }

    head(line, kind, open) {
      const step = this.stepOf.get(line);
      const at = this.lines.at[line];
      const lane = this.lines.lanes_of[line];
      const toggle = h("button", { type: "button", class: "fold", "aria-expanded": String(open), "aria-label": `${open ? "close" : "open"} ${KINDS[kind] || "line"}`,
        onclick: () => this.toggle(line) }, open ? "▾" : "▸");
      const number = step === undefined ? h("span", { class: "number" }, KINDS[kind] || "line")
        : h("a", { class: "number", href: this.href("step", String(step)) }, `${step}`);
      return h("header", { class: "line-head" }, toggle, number,
        h("h3", { id: `line-${line}` }, Assay.line(this.lines.heads[line] || KINDS[kind])),
        Assay.courseTags(this.course, step),
        lane ? h("span", { class: "lane-tag" }, Assay.line(Assay.laneWords(this.lines.lanes[lane]))) : null,
        this.has(line, "error") ? h("span", { class: "exit", "data-failed": "yes" }, kind === "v" ? "against it" : "failed") : null,
        this.has(line, "beside") ? h("span", { class: "quiet-text small", title: "executed beside the agent's steps" }, "beside") : null,
        this.has(line, "uncertified") ? h("span", { class: "certificate", "data-certified": "no" }, "✗ not certified") : null,
        this.folds.has(line) ? this.foldButton(this.folds.get(line), "record") : null,
        this.after && this.after.line === line ? this.foldButton(this.after.lines, "later record") : null,
        this.has(line, "clock") ? h("span", { class: "exit", "data-failed": "yes", title: "its time is earlier than that of a line before it" }, "clock went back") : null,
        Assay.spent(this.usageOf.get(line)), this.state(line), at === null ? null : h("span", { class: "at", title: "seconds since the attempt began" }, `+${format.seconds(at)}`));
    }

    state(line) {
      const state = this.lines.states_of[line];
      if (state < 0) return null;
      const digest = this.lines.states[state];
      const first = this.firstOf.get(state);
      const back = first === line ? "" : ` as in ${this.stepOf.has(first) ? `step ${this.stepOf.get(first)}` : "an earlier line"}`;
      const words = `state ${digest.replace(/^blake3:/, "").slice(0, 8)}`;
      return [h("button", { type: "button", class: `state hue-${state % 8}`, title: `${digest}${back}`,
        onclick: () => this.nextState(line, state) }, words, back ? h("span", { class: "back" }, "↩", h("span", { class: "unseen" }, back)) : null),
        Assay.copy(digest, "digest of the state")];
    }

    /* To the next line in the same state, from the last one to the first. */
    nextState(line, state) {
      const same = this.rows.filter((each) => this.lines.states_of[each] === state);
      const next = same[(same.indexOf(line) + 1) % same.length];
      if (next !== line) this.jump(next);
      else Assay.say("no other line has this state");
    }

    toggle(line) {
      this.opened.set(line, !this.isOpen(line));
      const focused = document.activeElement && document.activeElement.closest(".line");
      this.list.changed(this.rowOf.get(line));
      if (focused) {
        const made = this.list.at(this.rowOf.get(line));
        if (made) made.querySelector(".fold").focus({ preventScroll: true });
      }
    }

    /* Shows a line, whatever is being filtered, and marks in it what is cited. */
    jump(line, cited = null) {
      if (!Number.isInteger(line) || line < 0 || line >= this.lines.events.length) return;
      const before = this.cited;
      this.cited = { ...(cited || {}), line };
      if (!this.rowOf.has(line) && this.foldOf.has(line)) this.unfold(this.foldOf.get(line));
      if (!this.rowOf.has(line)) this.showAll();
      this.opened.set(line, true);
      if (before && this.rowOf.has(before.line)) this.list.changed(this.rowOf.get(before.line));
      const row = this.rowOf.get(line);
      this.list.changed(row);
      this.settle(row, line, 12);
      this.outline.show(row, { align: "center" });
    }

    /* Once what is asked for is loaded, its very line is brought into sight. */
    settle(row, line, tries) {
      const made = this.list.show(row, { align: "start" });
      if (!made || this.cited.line !== line) return;
      if (tries === 12) made.focus({ preventScroll: true });
      const mark = made.querySelector(".cited");
      if (mark) {
        const box = mark.closest(".block");
        if (box) box.scrollTop += mark.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 3;
        const main = document.getElementById("main");
        const place = mark.getBoundingClientRect();
        if (place.bottom > main.getBoundingClientRect().bottom || place.top < main.getBoundingClientRect().top + this.bar.offsetHeight) {
          main.scrollTop += place.top - main.getBoundingClientRect().top - main.clientHeight / 3;
        }
      } else if (tries > 0 && !this.page.signal.aborted) setTimeout(() => this.settle(row, line, tries - 1), 60);
    }

    showAll() {
      this.kinds = new Set([...MAIN, ...FOLDED]);
      this.lane = null;
      this.onlyErrors = false;
      this.words = "";
      this.found = null;
      this.searching = null;
      this.toolbar();
      this.tree();
      this.refilter();
    }

    /* ---- the parts of the page --------------------------------------------------------------------------------- */

    top() {
      const { row } = this.data;
      const task = row.task.split("/").pop();
      this.page.crumbs([["Runs", "#/"], [this.run, Assay.href("run", this.run)], [`${task}@${row.number}`, null]]);
      this.page.title(`${task}@${row.number}`);
      const metrics = row.metrics || {};
      const facts = [row.agent, ...(row.model ? [row.model] : this.data.models.slice(0, 2)), `${format.count(row.steps)} ${row.steps === 1 ? "step" : "steps"}`,
        metrics.wall_s === undefined ? null : format.seconds(metrics.wall_s),
        metrics.model_calls === 0 ? "no model calls" : Assay.tokensWords(metrics),
        metrics.model_calls === 0 || metrics.cost_usd === undefined || metrics.cost_usd === null ? null : format.money(metrics.cost_usd), this.ending(row)].filter(Boolean);
      return [h("div", { class: "head" }, h("h1", null, Assay.line(`${row.task}@${row.number}`)), Assay.status(this.data.outcome, this.data.headline), Assay.separation(this.data.outcome, this.data.separation),
        h("div", { class: "facts" }, facts.map((words) => h("span", null, Assay.line(words))))),
      row.error ? h("div", { class: "note" }, Assay.text(row.error.slice(0, 2000))) : null,
      this.lines.left_out ? h("div", { class: "note" }, `The ${format.count(this.lines.left_out)} events after the first ${format.count(this.lines.events.length)} are not listed.`) : null];
    }

    ending(row) {
      if (row.finished === null && row.interrupted) return "interrupted";
      if (row.finished === null) return "is running";
      return row.broke ? `broke: ${row.broke}` : row.stopped ? `stopped: ${row.stopped}` : "ended";
    }

    where(place, words) {
      return h("a", { class: "cite", href: this.href("line", String(place.line), { at: place.at, row: place.row || "", offset: place.offset || "", text: place.row ? "" : place.text }) }, words);
    }

    verdict(given) {
      const cites = given.cited.map((each) => h("li", null, each.place
        ? this.where(each.place, [h("span", { class: "id" }, Assay.line(`${each.id} ${each.kind || ""}`)), h("code", null, Assay.line(each.place.text))])
        : h("span", { class: "quiet-text" }, Assay.line(each.id), " is not in the record")));
      return h("section", { class: "verdict panel", "data-status": given.status },
        h("header", null, h("h3", null, Assay.line(given.check)), Assay.status(given.status, given.status), h("span", { class: "quiet-text small" }, given.kind),
          given.kind === "outcome" ? Assay.separation(given.status, given.separation) : null,
          given.score === null ? null : h("span", { class: "small" }, `score ${format.number(given.score)}`)),
        h("p", { class: "reason" }, Assay.line(given.reason)),
        given.marks.length ? h("ul", { class: "marks" }, given.marks.map(([mark, means]) => h("li", null, h("span", { class: "chip" }, Assay.line(mark)), means ? h("span", { class: "small" }, sentence(means)) : null))) : null,
        h("ul", { class: "cites" }, cites),
        h("p", { class: "small" }, h("a", { href: this.href("line", String(given.line)) }, "In the log"),
          given.left_out ? ` · rests on ${format.count(given.left_out)} more` : null));
    }

    /* The newest verdict of each check; the older ones stand among the lines. */
    verdicts() {
      const newest = new Map();
      for (const given of this.data.verdicts) newest.set(`${given.kind} ${given.check}`, given);
      const order = ["outcome", "integrity", "safety", "process"];
      const shown = [...newest.values()].sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
      const rest = shown.slice(8);
      if (!shown.length) return h("p", { class: "quiet-text" }, "This attempt has no verdicts.");
      return [h("h2", { class: "unseen" }, "Verdicts"), h("div", { class: "verdicts" }, shown.slice(0, 8).map((given) => this.verdict(given))),
        rest.length ? h("details", { class: "more" }, h("summary", null, `${format.count(rest.length)} more verdicts`), h("div", { class: "verdicts" }, rest.map((given) => this.verdict(given)))) : null];
    }

    finding(one) {
      return h("li", { class: "finding", "data-severity": one.severity },
        h("p", null, h("span", { class: "chip", "data-severity": one.severity }, Assay.line(one.severity)), " ", h("strong", null, Assay.line(one.rule)), one.reach ? ` (${one.reach}) ` : " ", Assay.line(one.summary)),
        h("ul", { class: "cites" }, one.quotes.map((quote) => h("li", null, quote.place
          ? this.where(quote.place, [h("span", { class: "id" }, `step ${quote.step} ${quote.field}`), h("code", null, Assay.line(quote.text.slice(0, 200)))])
          : h("span", { class: "quiet-text" }, `step ${quote.step}: `, h("code", null, Assay.line(quote.text.slice(0, 200))))))),
        h("p", { class: "small" }, one.steps.slice(0, 30).map(([step, line]) => (line < 0 ? `step ${step} ` : [h("a", { href: this.href("step", String(step)) }, `step ${step}`), " "])),
          one.evidence.map(([id, line]) => (line < 0 ? null : [h("a", { href: this.href("evidence", id) }, Assay.line(id)), " "]))));
    }

    findings() {
      const found = this.data.findings;
      if (!found.length) return null;
      const grave = found.some((one) => one.severity === "major" || one.severity === "critical");
      return h("details", { class: "findings panel", open: grave && found.length <= 6 }, h("summary", null, `${format.count(found.length)} ${found.length === 1 ? "finding" : "findings"} of the audit`),
        h("ul", null, found.map((one) => this.finding(one))));
    }

    about() {
      const { row, isolation } = this.data;
      const facts = [["attempt", row.attempt], ["task", row.task], ["task digest", row.task_digest], ["seed", String(row.seed)], ["retry", row.retry ? String(row.retry) : null],
        ["isolation", isolation ? `${isolation.name}, network ${isolation.network || "none"}` : row.isolation], ["began", format.moment(row.started)],
        ["chain head", row.head], ["events", format.count(row.length)]];
      return h("details", { class: "more about" }, h("summary", null, "About this attempt"),
        h("dl", { class: "facts-list" }, facts.filter(([, value]) => value).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, Assay.line(value), DIGESTS.has(name) ? Assay.copy(value, name) : null)))),
        this.data.config && this.data.config[1].length ? h("details", { class: "more" }, h("summary", null, "Configuration"), Assay.node(this.data.config, { run: this.run, chain: this.chain, event: 0 }, { label: "configuration" })) : null,
        this.data.artifacts.length ? h("details", { class: "more" }, h("summary", null, "Artifacts"), h("ul", { class: "blobs" }, this.data.artifacts.map(([path, digest]) => h("li", null,
          h("code", null, Assay.line(path)), " ", Assay.blob(this.run, digest, format.digest(digest), path), Assay.copy(digest, `digest of ${path}`))))) : null);
    }

    /* The text that the agent was given, with its terms. */
    task() {
      const { task } = this.data;
      if (!task) return null;
      const terms = Assay.taskTerms(task);
      return h("details", { class: "task-text panel", open: true },
        h("summary", null, h("h2", null, "Task"), task.from === "message" ? h("span", { class: "small quiet-text" }, "the first message of the record") : null),
        h("div", { class: "prose", tabindex: "0", role: "group", "aria-label": "Text of the task" }, Assay.markdown(task.text)),
        task.left_out ? h("p", { class: "small quiet-text" }, `${format.count(task.left_out)} characters more. `, task.record ? Assay.blob(this.run, task.record, "The whole record", "task") : null) : null,
        terms.length ? h("p", { class: "terms" }, Assay.chips(terms)) : null,
        Assay.exported ? null : h("p", { class: "small" }, h("a", { href: Assay.href("task", this.data.row.task) }, "All attempts at this task")));
    }

    /* What speaks against the attempt's honesty, in one sentence each. */
    warning() {
      const grave = this.data.findings.filter((one) => one.severity === "critical" || one.severity === "major");
      const forged = this.data.verdicts.flatMap((given) => given.marks).filter(([mark]) => mark === "forged" || mark === "untrusted_changes");
      if (!grave.length && !forged.length) return null;
      const named = new Map([...grave.map((one) => [one.rule, `${one.reach ? `(${one.reach}) ` : ""}${one.summary}`]), ...forged.map(([mark, means]) => [mark, means || ""])]);
      return h("section", { class: "warning", "aria-label": "Against this attempt" },
        h("h2", null, grave.some((one) => one.reach === "obtained") || forged.length ? "This attempt may have been paid for something other than the work" : "This attempt tried something other than the work"),
        h("ul", null, [...named].slice(0, 6).map(([name, means]) => h("li", null, h("strong", null, Assay.line(name)), " ", Assay.line(means)))));
    }

    /* The attempts before and after this one in the list of the run that was last shown, as it was filtered and sorted. */
    neighbours() {
      const list = Assay.readingList;
      const at = list && list.run === this.run ? list.at(this.chain) : -1;
      if (at < 0 || list.count < 2) return null;
      const to = (row, words, key) => (row >= 0 && row < list.count
        ? h("a", { class: "button", href: Assay.href("run", this.run, "attempt", list.chain(row)), "aria-keyshortcuts": key, title: `Key ${key}` }, words)
        : h("span", { class: "button", "aria-disabled": "true" }, words));
      return h("nav", { class: "neighbours", "aria-label": "Attempts of the list" }, to(at - 1, "‹ Previous", "<"),
        h("span", { class: "small quiet-text" }, `${format.count(at + 1)} of ${format.count(list.count)}`), to(at + 1, "Next ›", ">"));
    }

    others() {
      const box = h("div", { class: "others" });
      Assay.load(this.name("siblings")).then(({ attempts, left_out: left }) => {
        if (attempts.length < 2) return;
        const at = attempts.findIndex((each) => each.chain === this.chain);
        const chip = (each) => h("a", { class: "chip", "data-status": each.outcome, "aria-current": each.chain === this.chain ? "true" : null,
          href: Assay.href("run", this.run, "attempt", each.chain), title: `${each.agent}${each.model ? `, ${each.model}` : ""}, ${each.steps} steps` },
        h("span", { class: "unseen" }, `attempt ${each.number}: ${Assay.outcomeWord(each.outcome)}`), h("span", { "aria-hidden": "true" }, `${each.number}${each.retry ? `.${each.retry}` : ""}`));
        const near = attempts.slice(Math.max(0, at - 12), Math.max(0, at - 12) + 24);
        const chosen = new Set([this.chain, ...attempts.filter((each) => each.chain !== this.chain).slice(0, 7).map((each) => each.chain)]);
        const compared = attempts.filter((each) => chosen.has(each.chain)).map((each) => each.chain); /* in the order of an export */
        Assay.fill(box, h("span", { class: "small quiet-text" }, `${format.count(attempts.length + left)} attempts at this task: `), near.map(chip), " ",
          h("a", { class: "button", href: Assay.href("run", this.run, "compare", compared) }, "Compare"));
        this.siblings = attempts.map((each) => each.chain);
      }, () => {});
      return h("div", { class: "around" }, box, this.neighbours());
    }

    toolbar() {
      const input = h("input", { type: "search", placeholder: "Search this attempt", "aria-label": "Search this attempt", value: this.words, spellcheck: "false" });
      let timer = 0;
      input.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => {
          this.words = input.value.trim();
          this.search();
        }, 150);
      });
      this.input = input;
      const present = new Set(Array.from(this.lines.kinds, (kind) => GROUPS[kind] || kind));
      const boxes = SHOWN.filter(([kind]) => present.has(kind)).map(([kind, words]) => h("label", { class: "choice" },
        h("input", { type: "checkbox", checked: this.kinds.has(kind), onchange: (event) => {
          if (event.target.checked) this.kinds.add(kind);
          else this.kinds.delete(kind);
          this.refilter();
        } }), words));
      const errors = h("label", { class: "choice" }, h("input", { type: "checkbox", checked: this.onlyErrors, onchange: (event) => {
        this.onlyErrors = event.target.checked;
        this.refilter();
      } }), "Failed only");
      Assay.fill(this.bar, h("button", { type: "button", class: "button outline-button", "aria-expanded": "false", "aria-controls": "attempt-side", onclick: (event) => this.side(event.target) }, "Outline"),
        input, boxes, errors, this.count, this.progress);
    }

    side(button) {
      const open = this.aside.classList.toggle("open");
      button.setAttribute("aria-expanded", String(open));
      if (!open) return;
      this.bar.scrollIntoView({ block: "start" });
      Assay.size(this.aside, { "--top": this.bar.getBoundingClientRect().bottom });
      this.measured();
    }

    /* Rows that were built while hidden have no height. */
    measured() {
      this.outline.reset(this.rows.length);
      this.outline.show(this.current(), { align: "center" });
    }

    tree() {
      Assay.fill(this.treeBox, this.lines.lanes.length > 1 ? Assay.lanes(this.lines.lanes, this.lane, (lane) => {
        this.lane = lane;
        this.tree();
        this.refilter();
      }) : null);
    }

    outlineRow(number) {
      const line = this.rows[number];
      const kind = this.group(line);
      const step = this.stepOf.get(line);
      const classes = ["outline-row", `line-${kind}`];
      if (this.has(line, "error")) classes.push("line-failed");
      return h("button", { type: "button", class: classes.join(" "), "aria-current": number === this.now ? "true" : null, onclick: () => {
        this.jump(line);
        this.aside.classList.remove("open");
        this.bar.querySelector(".outline-button").setAttribute("aria-expanded", "false");
      } }, h("span", { class: "number" }, step === undefined ? "·" : String(step)), h("span", { class: "words" }, Assay.line(this.lines.heads[line] || KINDS[this.lines.kinds[line]])));
    }

    /* The first line that the bar does not hide. */
    current() {
      const [first, last] = this.list.range();
      const under = this.bar.getBoundingClientRect().bottom;
      for (let row = first; row < last; row += 1) {
        const made = this.list.at(row);
        if (made && made.getBoundingClientRect().bottom > under + 8) return row;
      }
      return first;
    }

    follow() {
      const first = this.current();
      if (first === this.now) return;
      const before = this.now;
      this.now = first;
      this.outline.changed(before);
      this.outline.changed(first);
      if (matchMedia(WIDE).matches && !this.aside.contains(document.activeElement)) this.outline.show(first);
    }

    build() {
      this.count = h("span", { class: "small quiet-text count" });
      this.progress = h("span", { class: "small quiet-text", role: "status" });
      this.bar = h("div", { class: "attempt-bar" });
      this.treeBox = h("div", { class: "tree-box" });
      this.empty = h("p", { class: "empty", hidden: true }, "No lines match. ", h("button", { type: "button", class: "button", onclick: () => this.showAll() }, "Show all lines"));
      const scroller = h("div", { class: "outline-list", tabindex: "0", role: "group", "aria-label": "Outline" });
      this.aside = h("aside", { id: "attempt-side", class: "attempt-side", "aria-label": "Outline" }, this.treeBox, scroller);
      this.outline = Assay.virtual({ count: 0, scroller, estimate: 24, row: (at) => this.outlineRow(at) });
      this.list = Assay.virtual({ count: 0, estimate: 180, role: "feed", label: "Lines of the attempt", row: (at) => this.row(at), inset: () => this.bar.offsetHeight + 6 });
      scroller.append(this.outline.element);
      this.summary = h("div", { class: "summary" }, this.heading());
      this.tabs = h("nav", { class: "tabs attempt-tabs", "aria-label": "Views of this attempt" }, VIEWS.filter(([name]) => name !== "tree" || this.data.branched).map(([name, words]) =>
        h("a", { href: this.href(...(name === "log" ? [] : [{ view: name }])), "data-view": name }, words)));
      this.body = h("div", { class: "attempt-body" }, this.aside, h("div", { class: "attempt-lines" }, h("h2", { class: "unseen" }, "Lines"), this.bar, this.empty, this.list.element));
      this.pane = h("div", { class: "attempt-pane", hidden: true });
      Assay.fill(this.page.root, this.summary, this.tabs, this.body, this.pane);
      this.page.root.classList.add("attempt");
      this.toolbar();
      this.tree();
      this.refilter();
      const main = document.getElementById("main");
      matchMedia(WIDE).addEventListener("change", (event) => event.matches && this.measured(), { signal: this.page.signal });
      main.addEventListener("scroll", () => requestAnimationFrame(() => this.follow()), { passive: true, signal: this.page.signal });
    }

    heading() {
      const [task, verdicts] = [this.task(), this.verdicts()];
      const beside = task && this.data.verdicts.length && this.data.verdicts.length <= BESIDE;
      return [this.top(), this.others(), this.warning(), h("div", { class: beside ? "brief beside" : "brief" }, h("div", null, task), h("div", null, verdicts)),
        Assay.notes(this), Assay.course(this), this.findings(), this.about()];
    }

    /* The lines in sight get the tags of the course. */
    retagged() {
      for (const step of new Set([...this.course.alarms.keys(), ...this.course.nodes.keys()])) {
        const row = this.rowOf.get(this.lineOf.get(step));
        if (row !== undefined) this.list.changed(row);
      }
    }

    /* Shows the log, the transcript, the changes, the times or the tree of a search. */
    show(name) {
      const view = VIEWS.some(([known]) => known === name) ? name : "log";
      if (this.view === view) return;
      const before = this.view;
      this.view = view;
      if (this.conversation) this.conversation.stop();
      this.conversation = null;
      for (const tab of this.tabs.children) {
        if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
        else tab.removeAttribute("aria-current");
      }
      this.body.hidden = view !== "log";
      this.pane.hidden = view === "log";
      if (view === "log") {
        Assay.fill(this.pane);
        this.list.reset(this.rows.length, { keep: true });
        this.measured();
      } else if (view === "transcript") {
        this.conversation = Assay.transcript(this);
        Assay.fill(this.pane, h("h2", { class: "unseen" }, "Transcript"), this.conversation.element);
      } else Assay.fill(this.pane, view === "changes" ? Assay.changes(this) : view === "tree" ? Assay.branchTree(this) : Assay.waterfall(this));
      const main = document.getElementById("main");
      const away = this.tabs.getBoundingClientRect().top - main.getBoundingClientRect().top;
      if (view !== "log" && before === null) main.scrollTop += away;
      else if (away < 0) main.scrollTop += away;
    }

    keys() {
      const at = () => {
        const line = document.activeElement && document.activeElement.closest(".line");
        return line ? this.rowOf.get(Number(line.dataset.line)) : this.current() - 1;
      };
      const go = (row) => {
        const made = this.list.show(row, { align: "start" });
        if (made) made.focus({ preventScroll: true });
      };
      const failing = (from, by) => {
        for (let row = from + by; row >= 0 && row < this.rows.length; row += by) {
          if (this.has(this.rows[row], "error")) return go(row);
        }
        return Assay.say("no other line failed");
      };
      Assay.key("j", "the next line", () => go(Math.min(at() + 1, this.rows.length - 1)));
      Assay.key("k", "the previous line", () => go(Math.max(at() - 1, 0)));
      Assay.key("n", "the next line that failed", () => failing(at(), 1));
      Assay.key("p", "the previous line that failed", () => failing(at(), -1));
      Assay.key("o", "open or close the line", () => {
        const row = at();
        if (row >= 0) this.toggle(this.rows[row]);
      });
      Assay.key("g", "the first line", () => go(0));
      Assay.key("G", "the last line", () => go(this.rows.length - 1));
      Assay.key("/", "search this attempt", () => this.input.focus());
      Assay.key("v", "the verdicts", () => {
        document.getElementById("main").scrollTop = 0;
        const first = this.page.root.querySelector(".cites a, .verdict a");
        if (first) first.focus();
      });
      const other = (by) => {
        const known = this.siblings || [];
        const next = known[known.indexOf(this.chain) + by];
        if (next) Assay.go(Assay.href("run", this.run, "attempt", next));
        else Assay.say("no other attempt at this task");
      };
      const listed = (by) => {
        const list = Assay.readingList;
        const at = list && list.run === this.run ? list.at(this.chain) : -1;
        if (at >= 0 && at + by >= 0 && at + by < list.count) Assay.go(Assay.href("run", this.run, "attempt", list.chain(at + by)));
        else Assay.say("no other attempt in the list of the run");
      };
      Assay.key(">", "the next attempt of the run's list", () => listed(1));
      Assay.key("<", "the previous attempt of the run's list", () => listed(-1));
      Assay.key("]", "the next attempt at this task", () => other(1));
      Assay.key("[", "the previous attempt at this task", () => other(-1));
    }

    /* Goes where the address points. */
    point(parts, query) {
      const before = this.view;
      this.show(parts.step === undefined && parts.id === undefined && parts.line === undefined ? query.get("view") : "log");
      const cited = { at: query.get("at") || null, row: Number(query.get("row")) || 0, offset: Number(query.get("offset")) || 0, text: query.get("text") || null };
      if (parts.step !== undefined) this.jump(this.lineOf.get(Number(parts.step)), cited);
      else if (parts.id !== undefined) {
        const line = Object.hasOwn(this.lines.evidence, parts.id) ? this.lines.evidence[parts.id] : -1;
        if (line < 0) Assay.say("this evidence is not in the record");
        const place = this.data.verdicts.flatMap((given) => given.cited).map((each) => each.place).find((each) => each && each.line === line);
        this.jump(line, cited.at ? cited : place || cited);
      } else if (parts.line !== undefined) this.jump(Number(parts.line), cited);
      else if (before === this.view) document.getElementById("main").scrollTop = 0;
    }

    /* What a run in progress adds. */
    live() {
      if (Assay.exported || this.data.seq === null || this.data.row.finished !== null) return;
      let [taken, waiting] = [Promise.resolve(), false];
      const renew = () => {
        if (waiting) return;
        waiting = true; /* what comes while the page is being renewed asks for it once more, and is not lost */
        taken = taken.then(() => {
          waiting = false;
          return this.renew();
        }).catch((error) => Assay.liveness("lost", error.message));
      };
      Assay.liveness("on", "live");
      this.page.signal.addEventListener("abort", () => Assay.liveness(null));
      Assay.live(this.run, this.data.seq, (what, told) => {
        if (what === "lost") Assay.liveness("lost", "no connection");
        if (what === "ended") Assay.liveness("idle", "ended");
        const ours = what === "rows" && (told.reload || told.columns.chain.includes(this.chain));
        if (ours || what === "ended") renew();
      });
    }

    async renew() {
      const data = await Assay.load(this.name("outline"), { fresh: true });
      if (this.page.signal.aborted) return;
      const main = document.getElementById("main");
      const atEnd = main.scrollTop + main.clientHeight > main.scrollHeight - 80;
      const from = Math.max(0, Math.floor((this.lines.events.length - 1) / this.lines.at_once) - 1) * this.lines.at_once;
      this.take(data);
      for (let start = from; start < data.lines.events.length; start += this.lines.at_once) {
        this.pieces.delete(start);
        Assay.load(this.name("lines", String(start)), { fresh: true }).catch(() => {});
      }
      Assay.fill(this.summary, this.heading());
      if (this.view !== "log") {
        const view = this.view;
        this.view = null;
        this.show(view);
      }
      this.tree();
      this.choose();
      this.list.reset(this.rows.length, { keep: true });
      this.outline.reset(this.rows.length, { keep: true });
      this.counted();
      if (atEnd) main.scrollTop = main.scrollHeight;
      if (data.row.finished !== null) Assay.liveness("idle", "ended");
    }
  }

  async function show(page) {
    const { run, chain } = page.parts;
    const data = await Assay.load(Assay.path("run", run, "attempt", chain, "outline"));
    if (page.signal.aborted) return;
    const attempt = new Attempt(page, data);
    attempt.build();
    attempt.keys();
    attempt.live();
    attempt.point(page.parts, page.query);
    page.update = (parts, query) => {
      if (parts.run !== run || parts.chain !== chain) return false;
      attempt.point(parts, query);
      return true;
    };
  }

  const here = "/run/{run}/attempt/{chain}";
  Assay.route(here, show);
  Assay.route(`${here}/step/{step}`, show);
  Assay.route(`${here}/evidence/{id}`, show);
  Assay.route(`${here}/line/{line}`, show);
})();
