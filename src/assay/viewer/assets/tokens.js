"use strict";
/* The tokens that a call sampled, coloured by how likely each was, and whether they may be trained on. */

(() => {
  const { h, format } = Assay;
  /* Natural log-probabilities: below each, the next darker step. */
  const STEPS = [-0.05, -0.3, -0.7, -1.4, -2.3, -4.6];
  const SHARES = ["≥ 95%", "≥ 74%", "≥ 50%", "≥ 25%", "≥ 10%", "≥ 1%", "< 1%"];

  function step(logprob) {
    const at = STEPS.findIndex((bound) => logprob >= bound);
    return at < 0 ? STEPS.length : at;
  }

  function token(word, id, logprob, position) {
    const told = [`token ${position}`, id === undefined ? "" : `id ${id}`,
      logprob === null || logprob === undefined ? "likelihood unknown" : `log-probability ${logprob.toFixed(3)}, probability ${(100 * Math.exp(logprob)).toFixed(2)}%`];
    const made = h("span", { class: logprob === null || logprob === undefined ? "tok" : `tok tok-${step(logprob)}`,
      title: told.filter(Boolean).join(", ") });
    const lines = word.split("\n");
    lines.forEach((line, at) => {
      if (at) made.append(h("span", { class: "mark" }, "↵"), document.createTextNode("\n"));
      made.append(Assay.text(line));
    });
    return made;
  }

  /* The certificate of a call as a word with its reason. */
  Assay.certificate = (summary) => {
    const known = summary.certificate;
    if (!known) return summary.sampled === null ? null : h("span", { class: "certificate", "data-certified": "none" }, "no certificate");
    const where = known.position === undefined || known.position === null ? "" : ` (from token ${known.position})`;
    return known.certified
      ? h("span", { class: "certificate", "data-certified": "yes", title: "sampled from exactly the tokens that a training row has" }, "✓ certified")
      : h("span", { class: "certificate", "data-certified": "no" }, "✗ not certified: ", Assay.line(known.reason || "no reason given"), where);
  };

  function legend() {
    return h("div", { class: "legend small", "aria-hidden": "true" }, "probability ",
      SHARES.map((words, at) => h("span", { class: `tok tok-${at}` }, words)));
  }

  function shown(found) {
    const box = h("div", { class: "tokens", tabindex: "0", role: "group", "aria-label": "sampled tokens" });
    const count = (found.ids || found.logprobs || []).length;
    for (let at = 0; at < count; at += 1) {
      const id = found.ids ? found.ids[at] : undefined;
      const word = found.words ? found.words[at] : found.ids ? `${id} ` : "· ";
      box.append(token(word, id, found.logprobs ? found.logprobs[at] : null, found.part * 2048 + at));
    }
    return box;
  }

  function measures(found) {
    const known = (found.logprobs || []).filter((one) => one !== null);
    if (!known.length) return null;
    const mean = known.reduce((sum, one) => sum + one, 0) / known.length;
    return h("span", { class: "small quiet-text" }, `mean log-probability ${mean.toFixed(3)}, perplexity ${Math.exp(-mean).toFixed(2)}, least likely ${(100 * Math.exp(Math.min(...known))).toPrecision(2)}%`);
  }

  /* Assay.tokens(run, chain, event, summary): all of a call's tokens, a part at a time. */
  Assay.tokens = (run, chain, event, summary) => {
    const box = h("div", { class: "token-view" }, h("p", { class: "quiet-text small" }, "Loading…"));
    const load = (part) => Assay.load(Assay.path("run", run, "attempt", chain, "tokens", String(event), String(part)));
    load(0).then((first) => {
      const unknown = first.words ? null : h("p", { class: "quiet-text small" }, first.ids
        ? "The record holds the ids of these tokens, not their texts." : "The record holds the probability of each token, not the token.");
      const more = h("div", { class: "small" });
      Assay.fill(box, h("div", { class: "token-head" }, h("span", { class: "small" }, `${format.count(first.count)} tokens`),
        Assay.certificate(summary), measures(first)), first.logprobs ? legend() : h("p", { class: "quiet-text small" }, "no log-probabilities are recorded"),
      unknown, shown(first), more);
      const next = (part) => {
        if (part >= first.parts) {
          Assay.fill(more);
          return;
        }
        Assay.fill(more, h("button", { type: "button", class: "button", onclick: () => load(part).then((found) => {
          more.before(shown(found));
          next(part + 1);
        }, (error) => Assay.fill(more, error.message)) }, `Show tokens from ${format.count(part * 2048)}`));
      };
      next(1);
    }, (error) => Assay.fill(box, h("p", { class: "quiet-text small" }, error.message)));
    return box;
  };
})();
