"use strict";
/* Small pieces that several pages show: statuses, shares, tabs. */

(() => {
  const { h } = Assay;
  const OUTCOMES = ["pass", "doubt", "fail", "unknown", "error", "open"];
  const WORDS = { pass: "pass", doubt: "doubtful pass", fail: "fail", unknown: "not judged", error: "error", open: "running" };

  Assay.outcomes = OUTCOMES;
  const isKnown = (name) => Object.hasOwn(WORDS, name);
  Assay.outcomeWord = (name) => (isKnown(name) ? WORDS[name] : name);

  /* A status as a word on its colour; `kind` is one of the outcomes, or "none". */
  Assay.status = (kind, words) => h("span", { class: "status", "data-status": isKnown(kind) ? kind : "none" },
    Assay.line(words === undefined ? Assay.outcomeWord(kind) : words));

  /* The grade of separation beside a pass; nothing beside any other outcome. */
  Assay.separation = (outcome, grade) => (grade && (outcome === "pass" || outcome === "doubt")
    ? h("span", { class: "tag", title: "Separation of the verifier's process from the agent's files and processes" }, Assay.line(`separation ${grade}`)) : null);

  /* Counts by status as one bar; read out as words. */
  Assay.bar = (counts, { label = "" } = {}) => {
    const present = Object.entries(counts).filter(([, number]) => number > 0);
    const words = present.map(([name, number]) => `${Assay.format.count(number)} ${Assay.outcomeWord(name)}`).join(", ");
    const bar = h("div", { class: "share", role: "img", "aria-label": `${label}${label && ": "}${words || "none"}` });
    for (const [name, number] of present) {
      bar.append(Assay.size(h("span", { "data-status": isKnown(name) ? name : "none" }), { "--part": number }));
    }
    return bar;
  };

  /* The heading and the tabs of a run's pages. `at`: "attempts", "tasks", "figures", "failures", "training", "nodes" or "soundness". */
  Assay.runTabs = (page, run, at) => {
    page.crumbs([["Runs", "#/"], [run, at === "attempts" ? null : Assay.href("run", run)],
      ...(at === "attempts" ? [] : [[at, null]])]);
    page.title(at === "attempts" ? run : `${at} of ${run}`);
    const tab = (name, words, to) => h("a", { href: to, "aria-current": name === at ? "page" : null }, words);
    const made = h("nav", { class: "tabs", "aria-label": "Pages of this run" },
      tab("attempts", "Attempts", Assay.href("run", run)),
      tab("tasks", "Tasks", Assay.href("run", run, "tasks")),
      tab("figures", "Figures", Assay.href("run", run, "figures")),
      tab("failures", "Failures", Assay.href("run", run, "failures")),
      at === "nodes" ? tab("nodes", "Nodes", Assay.href("run", run, "nodes")) : null,
      at === "training" ? tab("training", "Training", Assay.href("run", run, "training")) : null,
      tab("soundness", "Soundness", Assay.href("run", run, "soundness")));
    new ResizeObserver(() => { /* on a narrow screen the open tab may lie beyond the edge */
      const open = made.querySelector("[aria-current]");
      if (open && made.scrollWidth > made.clientWidth) made.scrollLeft = open.offsetLeft - made.offsetLeft - (made.clientWidth - open.offsetWidth) / 2;
    }).observe(made);
    return made;
  };

  /* Tokens in and out; what is not known is said to be so, and nothing where neither is. */
  Assay.tokensWords = (metrics) => {
    const [asked, given] = [metrics.prompt_tokens, metrics.completion_tokens];
    return (asked ?? given ?? null) === null ? null : `${Assay.format.tokens(asked)} in, ${Assay.format.tokens(given)} out`;
  };

  /* What a model call cost, [tokens in, tokens out, US dollars]; nothing where nothing of it is known. */
  Assay.spentWords = ([asked, given, cost]) => [Assay.tokensWords({ prompt_tokens: asked, completion_tokens: given }),
    (cost ?? null) === null ? null : Assay.format.money(cost)].filter(Boolean).join(" · ") || null;

  /* The cost of a step as an element of its heading. */
  Assay.spent = (usage) => {
    const words = usage ? Assay.spentWords(usage) : null;
    return words ? h("span", { class: "spent", title: "tokens of the model call, and its cost where it is known" }, words) : null;
  };

  /* The state of a run as a word: running, interrupted, finished or sealed. */
  const STATES = { running: "open", interrupted: "doubt", finished: "pass", sealed: "none" };
  Assay.runState = (state, more = "") => (state ? Assay.status(Object.hasOwn(STATES, state) ? STATES[state] : "none", `${state}${more}`)
    : h("span", { class: "quiet-text" }, "–"));

  /* The limits, checks and tags of a task, one text each. */
  Assay.taskTerms = (task) => {
    const amount = (name, value) => (name.endsWith("_s") ? Assay.format.seconds(value) : name.endsWith("_usd") ? Assay.format.money(value) : Assay.format.count(value));
    return [...Object.entries(task.limits || {}).map(([name, value]) => `${name.replace(/_(s|usd)$/, "")} ${amount(name, value)}`),
      ...(task.checks || []).map(([name, kind]) => (name === kind ? `check ${name}` : `check ${name} (${kind})`)), ...(task.tags || [])];
  };
  Assay.chips = (texts) => texts.map((words) => h("span", { class: "chip" }, Assay.line(words)));

  /* An excerpt with the words that were sought, marked. */
  Assay.excerpt = (text, words) => {
    const at = text.toLowerCase().indexOf(words.toLowerCase());
    return at < 0 ? Assay.line(text) : [Assay.line(text.slice(0, at)), h("mark", null, Assay.line(text.slice(at, at + words.length))), Assay.line(text.slice(at + words.length))];
  };

  /* What is known of the connection, at the top of the page. */
  Assay.liveness = (state, words) => {
    const badge = document.getElementById("live");
    badge.hidden = !state;
    if (!state) return;
    badge.dataset.state = state;
    badge.textContent = words;
  };
})();
