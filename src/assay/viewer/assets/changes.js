"use strict";
/* What an attempt's agent changed: the files of the final state against the task's, and the steps that wrote files. */

(() => {
  const { h, fill, format } = Assay;
  const PART = 65536;
  const MOST_PARTS = 6;
  const OPENED = 3; /* files that are shown at once */

  async function whole(run, digest) {
    const first = await Assay.load(Assay.path("run", run, "blob", digest, "0"));
    if (first.binary) return { problem: "The content is binary." };
    if (first.parts > MOST_PARTS) return { problem: `The file has ${format.bytes(first.length)}.` };
    const texts = [first.text];
    for (let part = 1; part < first.parts; part += 1) texts.push((await Assay.load(Assay.path("run", run, "blob", digest, String(part)))).text);
    return { text: texts.join("") };
  }

  async function drawn(run, file) {
    const after = file.kind === "removed" || !file.digest ? { text: "" } : await whole(run, file.digest);
    const before = file.before ? await whole(run, file.before) : { text: "" };
    const problem = after.problem || before.problem;
    if (problem) return h("p", { class: "small quiet-text" }, problem);
    if (file.kind === "removed" && !file.before) return h("p", { class: "small quiet-text" }, "The file was removed; its content is not in the store.");
    if (file.kind === "changed" && !file.before) {
      return [h("p", { class: "small quiet-text" }, "The content before is not in the store: this is the whole file at the end."),
        Assay.block({ text: after.text.slice(0, PART), at: "" }, { run }, { label: file.path, plain: true })];
    }
    const lines = (text) => text.replace(/\n$/, ""); /* the end of the last line is no line of its own */
    return Assay.diff(lines(before.text), lines(after.text), `difference of ${file.path}`)
      || h("p", { class: "small quiet-text" }, "The texts differ too much for a comparison by lines.");
  }

  function fileRow(run, file, open) {
    const body = h("div", { class: "change-body" });
    const buttons = h("p", { class: "small change-texts" }, file.from ? h("span", null, "Before: ", h("code", null, Assay.line(file.from)), " of the task") : null,
      file.before ? Assay.blob(run, file.before, "Whole text before", file.path) : null,
      file.digest ? Assay.blob(run, file.digest, "Whole text at the end", file.path) : null);
    const box = h("details", { class: "change panel", open }, h("summary", null,
      h("span", { class: "chip", "data-change": file.kind }, Assay.line(file.kind)), h("code", { class: "change-path" }, Assay.line(file.path)),
      file.size === null ? null : h("span", { class: "small quiet-text" }, format.bytes(file.size))), body);
    const show = async () => {
      if (body.childElementCount || !box.open) return;
      fill(body, h("p", { class: "small quiet-text" }, "Loading…"));
      if (file.type !== "file") return fill(body, h("p", { class: "small quiet-text" }, Assay.line(file.type)));
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

  function stepRow(attempt, [step, line, paths, differs]) {
    const body = h("div", { class: "change-body" });
    const words = paths.length ? paths.map((path) => h("code", { class: "change-path" }, Assay.line(path)))
      : h("span", { class: "quiet-text" }, "the state changed; no call names a file");
    const box = h("details", { class: "change panel" }, h("summary", null, h("strong", null, `step ${step}`), words,
      differs ? null : h("span", { class: "small quiet-text" }, "same state digest, or not recorded")), body);
    box.addEventListener("toggle", async () => {
      if (body.childElementCount || !box.open) return;
      fill(body, h("p", { class: "small quiet-text" }, "Loading…"));
      const start = Math.floor(line / attempt.lines.at_once) * attempt.lines.at_once;
      try {
        const piece = line < 0 ? { lines: [] } : await Assay.load(attempt.name("lines", String(start)));
        const found = piece.lines.find((each) => each.line === line);
        const here = { run: attempt.run, chain: attempt.chain, event: found ? found.event : 0 };
        fill(body, found && found.calls ? found.calls.map((call) => Assay.toolCall(call, here)) : h("p", { class: "small quiet-text" }, "This step cannot be shown."),
          h("p", { class: "small" }, h("a", { href: attempt.href("step", String(step)) }, "In the log")));
      } catch (error) {
        fill(body, h("p", { class: "small quiet-text" }, error.message));
      }
    });
    return box;
  }

  /* Assay.changes(attempt): an element that loads and shows what changed. */
  Assay.changes = (attempt) => {
    const place = h("div", { class: "changes" }, h("p", { class: "small quiet-text" }, "Loading…"));
    Assay.load(attempt.name("changes"), { fresh: attempt.data.row.finished === null }).then((found) => {
      const many = found.files.length + found.left_out;
      const files = !found.known ? h("p", { class: "quiet-text" }, "The final state of this attempt is not in the store.")
        : many ? found.files.map((file, at) => fileRow(attempt.run, file, at < OPENED)) : h("p", { class: "quiet-text" }, "The agent changed no file.");
      fill(place,
        h("section", null, h("h2", null, found.known ? `In all: ${format.count(many)} ${many === 1 ? "file" : "files"}` : "In all"), files,
          found.left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.left_out)} more files are not listed.`) : null),
        h("section", null, h("h2", null, "Step by step"), found.steps.length ? found.steps.map((one) => stepRow(attempt, one))
          : h("p", { class: "quiet-text" }, "No step names a file that it writes."),
        found.steps_left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.steps_left_out)} more steps are not listed.`) : null));
    }, (error) => fill(place, h("p", { class: "note" }, error.message)));
    return place;
  };
})();
