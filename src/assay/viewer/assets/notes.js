"use strict";
/* Notes and tags that people give to an attempt. They are added to its chain; nothing of the record is rewritten. */

(() => {
  const { h, fill, format } = Assay;
  let taken = null; /* whether this server takes notes; asked once */

  function takesNotes() {
    if (Assay.exported) return Promise.resolve(false);
    taken = taken || Assay.load("viewer").then((found) => found.notes === true, () => false);
    return taken;
  }

  /* Assay.notes(attempt): the tags and notes of an attempt, with a form where the server takes notes. */
  Assay.notes = (attempt) => {
    const place = h("section", { class: "notes", "aria-label": "Notes and tags" });
    const name = attempt.name("annotations");
    const open = attempt.data.row.finished === null && !attempt.data.row.interrupted;
    const show = async (problem = "") => {
      const none = Assay.exported && !attempt.data.annotated; /* an export holds no view of what is not there */
      const [found, can] = none ? [{ tags: [], notes: [] }, false] : await Promise.all([Assay.load(name, { fresh: !Assay.exported }).catch(() => ({ tags: [], notes: [] })), takesNotes()]);
      if (attempt.page.signal.aborted) return;
      fill(place, drawn(found, can && !open, problem, send));
    };
    const send = async (content) => {
      try {
        await Assay.send(name, content);
        await show();
        Assay.say("added to the attempt");
      } catch (error) {
        await show(error.message);
      }
    };
    show();
    return place;
  };

  function drawn(found, can, problem, send) {
    if (!can && !found.tags.length && !found.notes.length) return null;
    const tags = found.tags.map((tag) => h("span", { class: "chip person-chip" }, Assay.line(tag), can
      ? h("button", { type: "button", class: "untag", "aria-label": `Take away the tag ${Assay.plain(tag)}`, onclick: () => send({ untagged: [tag] }) }, "×") : null));
    return [h("div", { class: "note-tags" }, tags, can ? [tagField(send), noteField(send)] : null),
      found.notes.length ? h("ul", null, found.notes.map((one) => h("li", null, h("div", { class: "prose" }, Assay.text(one.text)),
        h("p", { class: "small quiet-text" }, Assay.line([one.by, one.at ? format.moment(one.at).slice(0, 16) : null].filter(Boolean).join(", ")))))) : null,
      problem ? h("p", { class: "note", role: "alert" }, problem) : null];
  }

  function tagField(send) {
    const input = h("input", { type: "text", class: "tag-input", placeholder: "Add a tag", "aria-label": "Add a tag", maxlength: "60", spellcheck: "false", autocomplete: "off" });
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && input.value.trim()) send({ tags: [input.value.trim()] });
    });
    return input;
  }

  function noteField(send) {
    const area = h("textarea", { rows: "2", placeholder: "Write a note", "aria-label": "Note", maxlength: "8000" });
    return h("details", { class: "note-form" }, h("summary", null, "Add a note"), area,
      h("button", { type: "button", class: "button", onclick: () => area.value.trim() && send({ text: area.value.trim() }) }, "Add to the record"));
  }
})();
