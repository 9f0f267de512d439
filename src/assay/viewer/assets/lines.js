"use strict";
/* The lines of an attempt in full: steps, model calls, evidence, verdicts, notes. */

(() => {
  const { h, format } = Assay;
  const EDITS = [["old_string", "new_string"], ["old_str", "new_str"], ["old", "new"], ["search", "replace"], ["find", "replace"]];

  /* ---- tool calls ---------------------------------------------------------------------------------------------- */

  function whole(node) {
    return node && node[0] === "s" && node[1].tail === undefined && !node[1].image ? node[1].text : null;
  }

  /* The arguments of an edit as a difference, and what is left of them. */
  function edit(entries, name) {
    const fields = new Map(entries);
    for (const [before, after] of EDITS) {
      const texts = [whole(fields.get(before)), whole(fields.get(after))];
      if (texts[0] === null || texts[1] === null || !fields.has(before)) continue;
      const made = Assay.diff(texts[0], texts[1], `difference made by ${name}`);
      if (made) return { made, rest: entries.filter(([key]) => key !== before && key !== after) };
    }
    return null;
  }

  function toolCall(call, here, cited) {
    const head = h("div", { class: "call-head" }, h("span", { class: "tool" }, Assay.line(call.name)),
      call.error ? h("span", { class: "status", "data-status": "error" }, "malformed") : null);
    const box = h("div", { class: "tool-call" }, head);
    if (call.error) box.append(h("p", { class: "small quiet-text" }, Assay.text(call.error)));
    if (call.arguments) {
      box.append(Assay.block(call.arguments, here, { label: `arguments of ${call.name}`, cited }));
      return box;
    }
    const [, entries, left] = call.parsed;
    const changed = edit(entries, call.name);
    const rest = changed ? changed.rest : entries;
    if (rest.length === 1 && !left && rest[0][1][0] === "s" && !changed) {
      box.append(Assay.block(rest[0][1][1], here, { label: `${rest[0][0]} of ${call.name}`, cited }));
      head.append(h("span", { class: "quiet-text small" }, Assay.line(rest[0][0])));
    } else if (rest.length) {
      const json = Assay.jsonOf(call.parsed);
      if (json !== null) head.append(Assay.copy(json, `arguments of ${call.name}`));
      box.append(Assay.node(["o", rest, left], here, { label: `arguments of ${call.name}`, cited }));
    }
    if (changed) box.append(changed.made);
    return box;
  }

  /* ---- what came back ------------------------------------------------------------------------------------------ */

  function cutOff(found, here, label) {
    if (!found) return null;
    return h("p", { class: "small quiet-text" }, `The record holds a part; ${found.complete === false ? "the beginning" : "the whole"} has ${format.bytes(found.length)}. `,
      Assay.blob(here.run, found.digest, "Show it", label));
  }

  function seen(one, here, cited) {
    const code = one.exit_code;
    const head = h("div", { class: "call-head" },
      h("span", { class: "quiet-text small" }, "output"),
      code === null || code === undefined ? null : h("span", { class: "exit", "data-failed": code ? "yes" : "no" }, `exit ${code}`),
      one.error && !code ? h("span", { class: "exit", "data-failed": "yes" }, "error") : null,
      one.timed_out ? h("span", { class: "exit", "data-failed": "yes" }, "timed out") : null,
      one.duration_s === null ? null : h("span", { class: "quiet-text small" }, format.seconds(one.duration_s)));
    return h("div", { class: "seen" }, head,
      one.content.text || one.content.image ? Assay.block(one.content, here, { label: "output", cited }) : h("p", { class: "quiet-text small" }, "nothing"),
      cutOff(one.truncated, here, "output"),
      one.stderr ? [h("div", { class: "call-head" }, h("span", { class: "quiet-text small" }, "standard error")), Assay.block(one.stderr, here, { label: "standard error", cited })] : null,
      cutOff(one.stderr_truncated, here, "standard error"));
  }

  /* A step's tool calls, each with what answers it; of calls with one id, each gets one answer in turn, the last the rest. */
  function pairs(step) {
    const left = [...step.seen];
    const found = step.calls.map((call, at) => {
      const named = left.filter((one) => one.call_id && one.call_id === call.id);
      const own = step.calls.some((later, number) => number > at && later.id === call.id) ? named.slice(0, 1) : named;
      const answers = own.length ? own : left.length && !left[0].call_id ? [left[0]] : [];
      for (const one of answers) left.splice(left.indexOf(one), 1);
      return { call, answers };
    });
    return [...found, ...left.map((one) => ({ call: null, answers: [one] }))];
  }

  function acts(step, here, cited) {
    return pairs(step).flatMap(({ call, answers }) => [...(call ? [toolCall(call, here, cited)] : []), ...answers.map((one) => seen(one, here, cited))]);
  }

  function reasoning(cut, here, cited) {
    const open = Boolean(cited && cited.at === cut.at);
    const box = h("details", { class: "reasoning", open }, h("summary", null, "Reasoning"));
    const fill = () => {
      if (box.childElementCount === 1) box.append(Assay.prose(cut, here, "reasoning"));
    };
    if (open || (cut.text.length < 1200 && !(cited && cited.folded))) {
      box.open = true;
      fill();
    }
    box.addEventListener("toggle", fill);
    return box;
  }

  const SAID = { user: "the user", environment: "the environment", other_agent: "another agent" };

  function stepBody(line, here, cited) {
    const named = line.who !== line.actor && line.who !== "agent";
    return [
      named || SAID[line.actor] ? h("p", { class: "small quiet-text" }, Assay.line(named ? line.who : SAID[line.actor])) : null,
      line.reasoning && line.reasoning.text ? reasoning(line.reasoning, here, cited) : null,
      line.message && line.message.text ? (cited && cited.at === line.message.at
        ? Assay.block(line.message, here, { label: "message", cited }) : Assay.prose(line.message, here, "message")) : null,
      beside(acts(line, here, cited), Assay.screens(line, here)),
      line.more > 0 ? h("p", { class: "small quiet-text" }, `${format.count(line.more)} more calls or outputs. `, event(here)) : null,
      line.extra ? h("details", { class: "more" }, h("summary", null, "Other fields of the imported record"), Assay.node(line.extra, here, { label: "extra" })) : null,
      line.model_call ? modelCall(line.model_call, here) : null,
    ];
  }

  /* What was done, with the pages that a browser showed beside it. */
  const beside = (done, screens) => (screens ? h("div", { class: "with-shots" }, h("div", { class: "with-shots-acts" }, done), screens) : done);

  function event(here) {
    return h("button", { type: "button", class: "quiet", onclick: () => Assay.wholeEvent(here, `event ${here.event}`) }, "The event as JSON");
  }

  /* ---- model calls --------------------------------------------------------------------------------------------- */

  function facts(pairs) {
    return h("dl", { class: "facts-list" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value instanceof Node ? value : Assay.line(value)))));
  }

  function modelCall(summary, here, open = false) {
    const usage = summary.usage || {};
    const at = { run: here.run, chain: here.chain, event: summary.event < 0 ? here.event : summary.event };
    const told = [summary.model, Assay.spentWords([usage.prompt_tokens, usage.completion_tokens, summary.cost_usd]),
      summary.started && summary.ended ? format.seconds(summary.ended - summary.started) : null].filter((each) => each);
    const box = h("details", { class: "model-call", open }, h("summary", null, h("span", null, "Model call "), Assay.line(told.join(" · ")), " ", Assay.certificate(summary)));
    const fill = () => {
      if (box.childElementCount > 1) return;
      box.append(callBody(summary, at));
    };
    if (open) fill();
    box.addEventListener("toggle", fill);
    return box;
  }

  function callBody(summary, at) {
    const said = h("div", { class: "said" });
    const tokens = h("div");
    const openMessages = h("button", { type: "button", class: "button", onclick: () => messages(said, at) }, "Messages");
    const openTokens = summary.sampled !== null || summary.logprobs
      ? h("button", { type: "button", class: "button", onclick: () => Assay.fill(tokens, tokens.childElementCount ? [] : Assay.tokens(at.run, at.chain, at.event, summary)) }, "Tokens") : null;
    return h("div", { class: "call-body" },
      facts([["id", summary.id], ["dialect", summary.dialect], ["weights", summary.weight_version],
        ["goes on with", summary.parent ? `${summary.parent} (${format.count(summary.shared_messages)} messages shared)` : null],
        ["branch", summary.cause ? `${summary.branch}: ${summary.cause}${summary.differs_at === null ? "" : ` at ${summary.differs_at}`}` : null],
        ["prompt", summary.prompted === null ? null : `${format.count(summary.prompted)} tokens`],
        ["tries", summary.tries > 1 ? String(summary.tries) : null],
        ["mean log-probability", summary.mean_logprob === null ? null : summary.mean_logprob.toFixed(3)],
        ["delivered", summary.delivered ? null : "no: the client had disconnected"],
        ["taken out", summary.redactions.join(", ")]]),
      summary.error ? h("div", { class: "problem" }, Assay.prose(summary.error, at, "error of the call")) : null,
      summary.sampling[1].length ? h("details", { class: "more" }, h("summary", null, "Sampling"), Assay.node(summary.sampling, at, { label: "sampling" })) : null,
      summary.lineage ? h("details", { class: "more" }, h("summary", null, "Client metadata"), Assay.node(summary.lineage, at, { label: "lineage" })) : null,
      h("div", { class: "buttons" }, openMessages, openTokens), said, tokens);
  }

  function messages(box, at) {
    if (box.childElementCount) {
      Assay.fill(box);
      return;
    }
    Assay.fill(box, h("p", { class: "small quiet-text" }, "Loading…"));
    Assay.load(Assay.path("run", at.run, "attempt", at.chain, "call", String(at.event))).then((found) => {
      const half = Math.ceil(found.messages.length / 2);
      Assay.fill(box,
        found.shared ? h("p", { class: "small quiet-text" }, `${format.count(found.shared)} earlier messages are shared with call ${found.parent}.`) : null,
        found.tools.length ? h("p", { class: "small quiet-text" }, "Tools offered: ", Assay.line(found.tools.join(", "))) : null,
        found.messages.slice(0, half).map((one) => message(one, at)),
        found.left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.left_out)} messages omitted. `, event(at)) : null,
        found.messages.slice(half).map((one) => message(one, at)),
        found.answer ? message({ ...found.answer, role: "answer" }, at) : h("p", { class: "small quiet-text" }, "No response."));
    }, (error) => Assay.fill(box, h("p", { class: "small quiet-text" }, error.message)));
  }

  function message(one, at) {
    return h("section", { class: "said-message" }, h("h4", null, Assay.line(one.role)),
      one.reasoning ? h("details", { class: "reasoning" }, h("summary", null, "Reasoning"), Assay.prose(one.reasoning, at, "reasoning")) : null,
      one.parts.map((part) => (part.picture !== undefined
        ? Assay.picture(Assay.path("run", at.run, "attempt", at.chain, "picture", String(at.event), part.picture), "picture in the message")
        : Assay.prose(part, at, `message of ${one.role}`))),
      one.calls.map((call) => h("div", { class: "tool-call" }, h("div", { class: "call-head" }, h("span", { class: "tool" }, Assay.line(call.name))),
        Assay.block(call.arguments, at, { label: `arguments of ${call.name}` }))));
  }

  /* ---- evidence, verdicts, notes ------------------------------------------------------------------------------- */

  function tests(found, cited) {
    const wanted = cited && cited.at === "/evidence/data/tests" ? cited.text : null;
    const row = ([id, status]) => h("li", { class: wanted && id.startsWith(wanted) ? "cited" : null },
      h("span", { class: "exit", "data-failed": status === "passed" || status === "skipped" || status === "xfailed" ? "no" : "yes" }, Assay.line(status)), " ", h("code", null, Assay.line(id)));
    return h("div", { class: "tests block", tabindex: "0", role: "group", "aria-label": "tests" }, h("ul", null, found.shown.map(row)),
      found.left_out ? h("p", { class: "small quiet-text" }, `${format.count(found.left_out)} more`) : null);
  }

  function evidenceBody(line, here, cited) {
    return [
      facts([["id", line.id], ["channel", line.channel], ["at", line.at ? format.moment(line.at) : null]]),
      line.tests ? tests(line.tests, cited) : null,
      Assay.node(line.data, here, { label: line.type, cited }),
      line.pictures.map((digest) => Assay.picture(Assay.path("run", here.run, "shown", digest), "picture")),
      line.blobs.length ? h("details", { class: "more" }, h("summary", null, `${format.count(line.blobs.length + line.more_blobs)} kept ${line.blobs.length === 1 ? "blob" : "blobs"}`),
        h("ul", { class: "blobs" }, line.blobs.map((digest) => h("li", null, Assay.blob(here.run, digest, format.digest(digest), "blob"), Assay.copy(digest, `digest ${format.digest(digest)}`)))),
        line.more_blobs ? h("p", { class: "small quiet-text" }, `${format.count(line.more_blobs)} more`) : null) : null,
    ];
  }

  function verdictBody(line, here) {
    const given = line.verdict;
    return [
      Assay.prose(given.reason, here, "reason"),
      facts([["kind", given.kind], ["score", given.score === null || given.score === undefined ? null : String(given.score)],
        ["took", given.duration_s ? format.seconds(given.duration_s) : null], ["verifier", given.verifier ? h("span", null, format.digest(given.verifier), Assay.copy(given.verifier, "digest of the verifier")) : null],
        ["marks", (given.marks || []).join(", ")]]),
      given.evidence && given.evidence.length ? h("p", { class: "small" }, "Rests on ", given.evidence.map((id) => [h("a", { href: Assay.href("run", here.run, "attempt", here.chain, "evidence", id) }, Assay.line(id)), " "])) : null,
    ];
  }

  Object.assign(Assay, { stepPairs: pairs, toolCall, seen, reasoning });

  /* Assay.lineBody(line, here, cited): the inside of a line's box. */
  Assay.lineBody = (line, here, cited = null) => {
    const at = { ...here, event: line.event };
    if (line.kind === "step") return stepBody(line, at, cited);
    if (line.kind === "call") return [modelCall({ ...line.call, event: line.event }, at, true)];
    if (line.kind === "evidence") return evidenceBody(line, at, cited);
    if (line.kind === "verdict") return verdictBody(line, at);
    if (line.kind === "large") return [h("p", { class: "small quiet-text" }, `Too large to show here (${format.bytes(line.size)}). `, event(at))];
    return [Assay.node(line.data, at, { label: line.kind, cited })];
  };
})();
