"use strict";
/* The pages that a browser showed: before an act, with the point that it was aimed at, and after it. */

(() => {
  const { h, fill } = Assay;

  /* A page's picture with a mark at `point`, pixels in the picture; a click shows it in full. */
  function shot(run, digest, label, caption, point) {
    const figure = h("figure", { class: "shot" }, h("figcaption", { class: "small quiet-text" }, `${label}: loading…`));
    Assay.load(Assay.path("run", run, "shown", digest)).then((found) => {
      if (found.problem) {
        fill(figure, h("figcaption", { class: "small quiet-text" }, `${label}: ${found.problem}`));
        return;
      }
      const drawn = () => [h("img", { src: `data:${found.type};base64,${found.data}`, alt: label, width: found.width, height: found.height }), mark(point, found)];
      fill(figure, h("button", { type: "button", class: "shot-frame", "aria-label": `Enlarge: ${label}`, onclick: () => enlarge(label, drawn()) }, drawn()),
        h("figcaption", { class: "small quiet-text" }, caption));
    }, (error) => fill(figure, h("figcaption", { class: "small quiet-text" }, `${label}: ${error.message}`)));
    return figure;
  }

  function mark(point, picture) {
    if (!point || point[0] < 0 || point[1] < 0 || point[0] > picture.width || point[1] > picture.height) return null;
    const made = h("span", { class: "shot-point", role: "img", "aria-label": `aimed at ${Math.round(point[0])}, ${Math.round(point[1])}` });
    return Assay.size(made, { "--x": 100 * point[0] / picture.width, "--y": 100 * point[1] / picture.height });
  }

  function enlarge(label, drawn) {
    const dialog = h("dialog", { class: "shot-large", "aria-label": label },
      h("header", null, h("h2", null, label), h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Close")),
      h("div", { class: "shot-scroll", tabindex: "0", role: "group", "aria-label": `${label}, enlarged` }, h("div", { class: "shot-frame" }, drawn)));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  function place(one) {
    return [one.title ? h("strong", null, Assay.line(one.title)) : null, " ", one.url ? h("code", null, Assay.line(one.url)) : null];
  }

  function pair(one, run) {
    const act = one.act || "the act";
    const at = one.point ? ` at ${Math.round(one.point[0])}, ${Math.round(one.point[1])}` : "";
    const aim = [h("span", { class: "tool" }, Assay.line(act)), one.target ? [" ", h("code", null, Assay.line(one.target))] : null, at,
      one.point ? h("span", { class: "unseen" }, ". An act on an element first scrolls it into view.") : null];
    const sights = [one.point && one.before ? shot(run, one.before, `Before ${Assay.plain(act)}`, aim, one.point) : null,
      one.image ? shot(run, one.image, `After ${Assay.plain(act)}`, one.point && one.before ? place(one) : [aim, ": ", place(one)]) : null];
    return sights.some(Boolean) ? sights : h("p", { class: "small quiet-text" }, aim, ": ", place(one), " (no picture was taken)");
  }

  /* Assay.screens(line, here): the screens of a step, or null. */
  Assay.screens = (line, here) => (line.screens && line.screens.length
    ? h("div", { class: "shots", role: "group", "aria-label": "Pages in the browser" }, line.screens.map((one) => pair(one, here.run))) : null);
})();
