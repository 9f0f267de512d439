"use strict";
/* Messages and instructions as they were written, with their Markdown made visible: every character stays, code, headings,
   emphasis and lists get their looks. No markup of a record becomes an element of another kind than `span`. */

(() => {
  const { h } = Assay;
  const LONGEST = 20000; /* longer texts are shown plain */
  const INLINE = /`[^`\n]{1,500}`|\*\*[^*\n]{1,500}\*\*/g;
  const FENCE = /^ {0,3}(```+|~~~+)/;

  const faint = (words) => h("span", { class: "md-sign" }, Assay.text(words));

  /* A code span or a strong part, with its signs. */
  function part(words) {
    const signs = words.startsWith("`") ? 1 : 2;
    const inside = words.slice(signs, -signs);
    return h("span", { class: signs === 1 ? "md-code" : "md-strong" }, faint(words.slice(0, signs)), Assay.text(inside), faint(words.slice(-signs)));
  }

  function inline(words) {
    const made = [];
    let at = 0;
    for (const found of words.matchAll(INLINE)) {
      if (found.index > at) made.push(Assay.text(words.slice(at, found.index)));
      made.push(part(found[0]));
      at = found.index + found[0].length;
    }
    if (at < words.length || !made.length) made.push(Assay.text(words.slice(at)));
    return made;
  }

  /* A line with the look of its first sign; the line's end belongs to it. */
  function block(words, end) {
    const heading = /^ {0,3}#{1,6} /.exec(words);
    if (heading) return h("span", { class: "md-heading" }, faint(heading[0]), inline(words.slice(heading[0].length)), end);
    const item = /^( {0,12})([-*+]|\d{1,4}[.)]) +/.exec(words);
    if (item) return h("span", { class: "md-item", "data-depth": String(Math.min(3, Math.floor(item[1].length / 2))) }, faint(item[0]), inline(words.slice(item[0].length)), end);
    if (/^ {0,3}> ?/.test(words)) return h("span", { class: "md-quote" }, inline(words), end);
    return [inline(words), end];
  }

  /* Assay.markdown(text): nodes whose text is the given one. */
  Assay.markdown = (text) => {
    if (text.length > LONGEST) return Assay.text(text);
    const made = [];
    const lines = text.split("\n");
    let fence = null;
    lines.forEach((words, at) => {
      const end = at < lines.length - 1 ? "\n" : "";
      const sign = FENCE.exec(words);
      if (fence) {
        fence.append(sign && words.trim() === fence.dataset.sign ? faint(words) : Assay.text(words), end);
        if (sign && words.trim() === fence.dataset.sign) fence = null;
      } else if (sign) {
        fence = h("span", { class: "md-fence", "data-sign": sign[1] }, faint(words), end);
        made.push(fence);
      } else made.push(block(words, end));
    });
    return made;
  };
})();
