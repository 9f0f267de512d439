"use strict";
/* Buttons that copy what is shown. Recorded text is pasted into terminals and editors, so what a page shows as a mark is
   written as an escape, and no button copies anything else than the text beside it. */

(() => {
  const { h } = Assay;
  const MOST_PARTS = 64; /* of 64 thousand characters each */
  const SHOWN_MS = 2000;

  async function put(words) {
    if (navigator.clipboard) {
      try {
        await navigator.clipboard.writeText(words);
        return;
      } catch {
        /* not allowed here: the older way asks for no permission */
      }
    }
    const focused = document.activeElement;
    const field = h("textarea", { class: "unseen", readonly: true, tabindex: "-1", "aria-label": "text to copy" });
    field.value = words;
    (document.querySelector("dialog[open]") || document.body).append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (focused) focused.focus({ preventScroll: true });
    if (!done) throw new Error("the browser refused to copy");
  }

  /* Assay.copy(content, label): a button; `content` is a text, or a function that gives one or a promise of one. */
  Assay.copy = (content, label) => {
    const button = h("button", { type: "button", class: "copy", "aria-label": `Copy ${Assay.plain(label, 80)}`, title: "Copy" });
    const told = (sign, words) => {
      button.textContent = sign;
      Assay.say(words);
      setTimeout(() => { button.textContent = ""; }, SHOWN_MS);
    };
    button.addEventListener("click", async () => {
      try {
        await put(Assay.escaped(typeof content === "function" ? await content() : content));
        told("✓", `copied ${label}`);
      } catch (error) {
        told("✗", `not copied: ${error.message}`);
      }
    });
    return button;
  };

  /* Assay.copyable(box, content, label): a box with such a button in its corner. */
  Assay.copyable = (box, content, label) => h("div", { class: "copyable" }, box, Assay.copy(content, label));

  /* Assay.joined(load): the whole text of a view that comes in parts. */
  Assay.joined = async (load) => {
    const first = await load(0);
    if (first.parts > MOST_PARTS) throw new Error("the text is too long for the clipboard");
    const texts = [first.text];
    for (let part = 1; part < first.parts; part += 1) texts.push((await load(part)).text);
    return texts.join("");
  };

  /* Assay.jsonOf(node): a value's nodes as JSON; null where a part of it is not here. */
  Assay.jsonOf = ([kind, held, left]) => {
    if (kind === "v") return typeof held === "string" ? held : JSON.stringify(held);
    if (kind === "s") return held.tail === undefined && !held.image ? JSON.stringify(held.text) : null;
    if (kind === "x" || left) return null;
    const parts = held.map((each) => {
      const made = Assay.jsonOf(kind === "a" ? each : each[1]);
      return made === null ? null : kind === "a" ? made : `${JSON.stringify(each[0])}: ${made}`;
    });
    if (parts.includes(null)) return null;
    return kind === "a" ? `[${parts.join(", ")}]` : `{${parts.join(", ")}}`;
  };
})();
