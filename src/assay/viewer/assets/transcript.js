"use strict";
/* An attempt as a conversation: what was asked, said, done and answered, without the bookkeeping of the log. */

(() => {
  const { h, format } = Assay;
  const NAMES = { agent: "Agent", user: "User", environment: "Environment", other_agent: "Another agent" };
  const KEYS = ["command", "cmd", "code", "path", "file_path", "filename", "pattern", "query", "url", "text", "content"];
  const WORDS = { false: "Open all calls and outputs", true: "Fold all calls and outputs" };
  const isKnown = (name) => Object.hasOwn(NAMES, name);

  /* The beginning of a tool call's main argument. */
  function brief(call) {
    if (call.arguments) return call.arguments.text;
    const entries = new Map(call.parsed[1].map(([key, node]) => [key, node]));
    const key = KEYS.find((name) => entries.has(name));
    return key === undefined ? [...entries.values()].slice(0, 3).map(words).filter(Boolean).join(", ") : words(entries.get(key));
  }

  /* A short value as text; nothing of a nested one. */
  function words(node) {
    if (node[0] === "s") return node[1].text;
    if (node[0] === "a") return node[1].map((each) => (each[0] === "s" ? each[1].text : String(each[1]))).join(" ");
    return node[0] === "v" ? String(node[1]) : "";
  }

  function toolRow({ call, answers }, here, open) {
    const failed = answers.some((one) => one.exit_code || one.error || one.timed_out);
    const codes = answers.filter((one) => one.exit_code !== null && one.exit_code !== undefined).map((one) => one.exit_code);
    const words = call ? [h("span", { class: "tool" }, Assay.line(call.name)), h("code", null, Assay.line(brief(call).slice(0, 160)))]
      : [h("span", { class: "quiet-text" }, "output")];
    const box = h("details", { class: "said-tool", open, "data-failed": failed ? "yes" : null }, h("summary", null, words,
      codes.length ? h("span", { class: "exit", "data-failed": failed ? "yes" : "no" }, `exit ${codes[0]}`) : failed ? h("span", { class: "exit", "data-failed": "yes" }, "failed") : null));
    const show = () => {
      if (box.open && box.childElementCount === 1) box.append(h("div", { class: "said-tool-body" }, call ? Assay.toolCall(call, here) : null, answers.map((one) => Assay.seen(one, here))));
    };
    box.addEventListener("toggle", show);
    show();
    return box;
  }

  function stepRow(line, here, open) {
    return [line.reasoning && line.reasoning.text ? Assay.reasoning(line.reasoning, here, { folded: true }) : null,
      line.message && line.message.text ? Assay.prose(line.message, here, "message") : null,
      Assay.stepPairs(line).map((pair) => toolRow(pair, here, open)),
      Assay.screens(line, here),
      line.more > 0 ? h("p", { class: "small quiet-text" }, `${format.count(line.more)} more calls or outputs are in the log.`) : null];
  }

  function verdictRow(given) {
    return h("p", null, Assay.status(given.status, given.status), " ", h("strong", null, Assay.line(given.check)), " ", Assay.text(given.reason.text));
  }

  /* Assay.transcript(attempt): {element, changed(start), stop()}; lines come from the attempt's own pieces. */
  Assay.transcript = (attempt) => {
    const { lines } = attempt;
    const rows = []; /* the task's text stands above */
    for (let line = 0; line < lines.events.length; line += 1) if ("scv".includes(lines.kinds[line])) rows.push(line);
    const places = new Map(rows.map((line, row) => [line, row]));

    function body(line) {
      const piece = attempt.piece(line);
      if (!piece) return h("p", { class: "quiet-text small" }, "Loading…");
      const found = piece.lines.get(line);
      if (!found) return h("p", { class: "quiet-text small" }, piece.problem || "This line cannot be shown.");
      const here = { run: attempt.run, chain: attempt.chain, event: found.event };
      if (found.kind === "step") return stepRow(found, here, attempt.callsOpen);
      if (found.kind === "verdict") return verdictRow(found.verdict);
      return Assay.lineBody(found, here);
    }

    function speaker(line) {
      const kind = lines.kinds[line];
      if (kind === "v") return ["verdict", "Verdict"];
      if (kind === "c") return ["agent", "Model call"];
      const piece = attempt.piece(line);
      const found = piece && piece.lines.get(line);
      const actor = found ? found.actor : "agent";
      const named = found && found.who !== actor && found.who !== "agent" ? found.who : null;
      return [isKnown(actor) ? actor : "agent", named || (isKnown(actor) ? NAMES[actor] : actor)];
    }

    function row(number) {
      const line = rows[number];
      const shown = { tabindex: "-1", "aria-posinset": number + 1, "aria-setsize": rows.length };
      const [kind, name] = speaker(line);
      const step = attempt.stepOf.get(line);
      const at = lines.at[line];
      return h("article", { ...shown, class: `said-row said-${kind.replace("_", "-")}`, "aria-label": step === undefined ? name : `${Assay.plain(name)}, step ${step}` },
        h("header", null, h("strong", null, Assay.line(name)),
          step === undefined ? null : h("a", { class: "small", href: attempt.href("step", String(step)) }, `step ${step}`),
          Assay.spent(attempt.usageOf.get(line)),
          at === null ? null : h("span", { class: "small quiet-text" }, `+${format.seconds(at)}`)),
        h("div", { class: "said-bubble" }, body(line)));
    }

    const list = Assay.virtual({ count: rows.length, estimate: 120, role: "feed", label: "Transcript", row });
    const all = h("button", { type: "button", class: "button", "aria-pressed": String(attempt.callsOpen), onclick: () => {
      attempt.callsOpen = !attempt.callsOpen;
      all.setAttribute("aria-pressed", String(attempt.callsOpen));
      all.textContent = WORDS[String(attempt.callsOpen)];
      list.reset(rows.length, { keep: true });
    } }, WORDS[String(attempt.callsOpen)]);
    const element = rows.length ? h("div", { class: "transcript" }, h("p", { class: "transcript-tools" }, all), list.element) : h("p", { class: "empty" }, "This record holds no messages.");
    return {
      element,
      changed(start) {
        for (let line = start; line < start + lines.at_once; line += 1) if (places.has(line)) list.changed(places.get(line));
      },
      stop: list.stop,
    };
  };
})();
