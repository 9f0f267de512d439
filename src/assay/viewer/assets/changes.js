"use strict";
/* What an attempt's agent changed: the files of the final state against the task's, and the steps that wrote files. */

(() => {
  const { h, fill, format } = Assay;
  const PART = 65536;
  const MOST_PARTS = 6;
  const OPENED = 3; /* files that are shown at once */
  const SUMMARISED = 6; /* files of a step that its heading names */

  async function whole(run, digest) {
    const first = await Assay.load(Assay.path("run", run, "blob", digest, "0"));
    if (first.binary) return { problem: "The content is binary." };
    if (first.parts > MOST_PARTS) return { problem: `The file has ${format.bytes(first.length)}.` };
    const texts = [first.text];
    for (let part = 1; part < first.parts; part += 1) texts.push((await Assay.load(Assay.path("run", run, "blob", digest, String(part)))).text);
    return { text: texts.join("") };
  }

  /* A content before or after: computed text, a blob, or nothing. Of an absent file the empty text. */
  async function content(run, text, digest, absent) {
    if (typeof text === "string") return { text };
    if (digest) return whole(run, digest);
    return absent ? { text: "" } : null;
  }

  const small = (...words) => h("p", { class: "small quiet-text" }, words);

  async function drawn(run, file) {
    if (file.type !== "file") return small(Assay.line(file.type));
    const after = await content(run, file.text, file.digest, file.kind === "removed");
    const before = await content(run, file.before_text, file.before, file.kind === "added");
    const problem = (after && after.problem) || (before && before.problem);
    if (problem) return small(problem);
    if (!after) return small("The content after is not in the store.");
    if (!before && file.kind === "removed") return small("The file was removed; its content is not in the store.");
    if (!before) {
      return [small("The content before is not in the store: this is the whole file after."),
        Assay.block({ text: after.text.slice(0, PART), at: "" }, { run }, { label: file.path, plain: true })];
    }
    return Assay.diff(before.text, after.text, `difference of ${file.path}`, true) || small("The texts differ too much for a comparison by lines.");
  }

  const fileHead = (file) => [h("span", { class: "chip", "data-change": file.kind }, Assay.line(file.kind)), h("code", { class: "change-path" }, Assay.line(file.path)),
    file.size === null ? null : h("span", { class: "small quiet-text" }, format.bytes(file.size))];

  function fileRow(run, file, open) {
    const body = h("div", { class: "change-body" });
    const buttons = h("p", { class: "small change-texts" }, file.from ? h("span", null, "Before: ", h("code", null, Assay.line(file.from)), " of the task") : null,
      file.before ? Assay.blob(run, file.before, "Whole text before", file.path) : null,
      file.digest ? Assay.blob(run, file.digest, "Whole text at the end", file.path) : null);
    const box = h("details", { class: "change panel", open }, h("summary", null, fileHead(file)), body);
    const show = async () => {
      if (body.childElementCount || !box.open) return;
      fill(body, h("p", { class: "small quiet-text" }, "Loading…"));
      try {
        return fill(body, await drawn(run, file), buttons);
      } catch (error) {
        return fill(body, h("p", { class: "small quiet-text" }, error.message));
      }
    };
    box.addEventListener("toggle", show);
    show();
    return box;
  }

  const NAMED_ONLY = "Contents are stored for the final state only; these are the files that the calls of this step name.";
  const UNNAMED = "Contents are stored for the final state only, and no call of this step names a file that it writes.";
  const FROM_CALLS = "Computed from the recorded calls, which together give the stored final file byte for byte.";

  /* What the files of a step are compared with; null where that is the step before. */
  function since(one) {
    if (one.basis === "calls") return FROM_CALLS;
    if (one.since === null) return null;
    if (one.since < 0) return "Compared with the start of the attempt: this includes what was set up before the step.";
    return one.since === one.step - 1 ? null : `Compared with the state after step ${one.since}: the steps between have no recorded state.`;
  }

  async function stepFiles(attempt, one) {
    const parts = await Promise.all(one.files.map(async (file) => [one.files.length > 1 ? h("p", { class: "change-head" }, fileHead(file)) : null, await drawn(attempt.run, file)]));
    const note = since(one);
    return [note ? small(note) : null, parts, one.files_left_out ? small(`${format.count(one.files_left_out)} more files are not listed.`) : null];
  }

  async function stepCalls(attempt, one, inServices) {
    const start = Math.floor(one.line / attempt.lines.at_once) * attempt.lines.at_once;
    const piece = one.line < 0 ? { lines: [] } : await Assay.load(attempt.name("lines", String(start)));
    const found = piece.lines.find((each) => each.line === one.line);
    const here = { run: attempt.run, chain: attempt.chain, event: found ? found.event : 0 };
    return [inServices ? null : small(one.paths.length ? NAMED_ONLY : UNNAMED), found && found.calls ? found.calls.map((call) => Assay.toolCall(call, here)) : small("This step cannot be shown.")];
  }

  function stepSummary(one, inServices) {
    if (!one.basis) {
      if (inServices && !one.paths.length) return one.tools.map((name) => h("code", { class: "change-path" }, Assay.line(name)));
      return one.paths.length ? one.paths.map((path) => h("code", { class: "change-path" }, Assay.line(path)))
        : h("span", { class: "quiet-text" }, "the state changed; no call names a file");
    }
    if (!one.files.length) return h("span", { class: "quiet-text" }, "folders or modes changed");
    if (one.files.length === 1) return fileHead(one.files[0]);
    return one.files.slice(0, SUMMARISED).map((file) => [h("span", { class: "chip", "data-change": file.kind }, Assay.line(file.kind)), h("code", { class: "change-path" }, Assay.line(file.path))])
      .concat(one.files.length > SUMMARISED ? [h("span", { class: "small quiet-text" }, `and ${format.count(one.files.length - SUMMARISED)} more`)] : []);
  }

  function stepRow(attempt, one, open, inServices) {
    const body = h("div", { class: "change-body" });
    const box = h("details", { class: "change panel", open, "data-basis": one.basis || "named" }, h("summary", null, h("strong", null, `step ${one.step}`), stepSummary(one, inServices),
      one.differs || one.basis ? null : h("span", { class: "small quiet-text" }, "same state digest, or not recorded")), body);
    const show = async () => {
      if (body.childElementCount || !box.open) return;
      fill(body, small("Loading…"));
      try {
        fill(body, one.basis ? await stepFiles(attempt, one) : await stepCalls(attempt, one, inServices), h("p", { class: "small" }, h("a", { href: attempt.href("step", String(one.step)) }, "In the log")));
      } catch (error) {
        fill(body, small(error.message));
      }
    };
    box.addEventListener("toggle", show);
    show();
    return box;
  }

  const value = (text) => (text === null ? h("span", { class: "quiet-text" }, "none") : Assay.line(text));

  /* A row of a service: its columns before and after. */
  const serviceRow = (one) => h("details", { class: "change panel" }, h("summary", null, h("span", { class: "chip", "data-change": one.kind }, one.kind),
    one.words ? h("span", { class: "change-path" }, Assay.line(one.words)) : h("code", { class: "change-path" }, Assay.line(one.table), " ", Assay.line(one.key))),
  h("div", { class: "change-body wide", tabindex: "0", role: "region", "aria-label": `Columns of ${Assay.plain(one.table)} ${Assay.plain(one.key)}` }, h("table", { class: "plain" },
    h("thead", null, h("tr", null, ["column", one.kind === "added" ? null : "before", one.kind === "removed" ? null : "after"].filter(Boolean).map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, one.cells.map(([column, before, after]) => h("tr", null, h("th", { scope: "row" }, Assay.line(column)),
      one.kind === "added" ? null : h("td", null, value(before)), one.kind === "removed" ? null : h("td", null, value(after))))))));

  function serviceRows(services) {
    if (services === null) return null;
    const many = services.rows.length + services.left_out;
    return h("section", null, h("h2", null, `In the services: ${format.count(many)} ${many === 1 ? "row" : "rows"}`),
      many ? services.rows.map(serviceRow) : h("p", { class: "quiet-text" }, "No row of the services differs at the end."),
      services.left_out ? small(`${format.count(services.left_out)} more rows are not listed.`) : null);
  }

  /* Assay.changes(attempt): an element that loads and shows what changed. */
  Assay.changes = (attempt) => {
    const place = h("div", { class: "changes" }, h("p", { class: "small quiet-text" }, "Loading…"));
    Assay.load(attempt.name("changes"), { fresh: attempt.data.row.finished === null }).then((found) => {
      const many = found.files.length + found.left_out;
      const files = !found.known ? h("p", { class: "quiet-text" }, "The final state of this attempt is not in the store.")
        : many ? found.files.map((file, at) => fileRow(attempt.run, file, at < OPENED)) : h("p", { class: "quiet-text" }, "The agent changed no file.");
      fill(place, serviceRows(found.services),
        found.services !== null && !found.known ? null : h("section", null, h("h2", null, found.known ? `In all: ${format.count(many)} ${many === 1 ? "file" : "files"}` : "In all"), files,
          found.left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.left_out)} more files are not listed.`) : null),
        h("section", null, h("h2", null, "Step by step"),
          attempt.lines.lanes.length > 1 ? small("Agents that act at the same time share one state: a step may include what another agent changed meanwhile.") : null,
          found.steps.length ? found.steps.map((one, at) => stepRow(attempt, one, Boolean(one.basis) && at < OPENED, found.services !== null))
          : h("p", { class: "quiet-text" }, found.services === null ? "No step names a file that it writes." : "No step changed the state."),
        found.steps_left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.steps_left_out)} more steps are not listed.`) : null));
    }, (error) => fill(place, h("p", { class: "note" }, error.message)));
    return place;
  };
})();
