"use strict";
/* Keys, the dialog that lists them, and the theme. */

(() => {
  const everywhere = [];
  let here = [];
  let dialog = null;

  /* Assay.key("j", "next row", handler): for the page that is being shown; with {global: true} for all pages. `key` is
     a KeyboardEvent.key; "Shift+J" and the like where a modifier is meant. A handler that returns false lets the
     browser have the key. */
  Assay.key = (key, means, handler, { global = false } = {}) => {
    const entry = { key, means, handler };
    if (global) {
      everywhere.push(entry);
      return;
    }
    here.push(entry);
    const page = Assay.page();
    if (page) {
      page.signal.addEventListener("abort", () => {
        here = here.filter((one) => one !== entry);
      });
    }
  };

  function typing(target) {
    return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (document.querySelector("dialog[open]")) return;
    const name = event.shiftKey && event.key.length > 1 ? `Shift+${event.key}` : event.key;
    const found = [...here, ...everywhere].find((entry) => entry.key === name);
    if (found && found.handler(event) !== false) event.preventDefault();
  }

  const SHOWN = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", " ": "Space", Escape: "Esc" };

  function help() {
    if (!dialog) {
      dialog = Assay.h("dialog", { class: "help", "aria-labelledby": "help-title" });
      document.body.append(dialog);
      dialog.addEventListener("click", (event) => {
        if (event.target === dialog) dialog.close();
      });
    }
    const row = (entry) => Assay.h("div", { class: "help-row" },
      Assay.h("dt", null, Assay.h("kbd", null, SHOWN[entry.key] || entry.key)), Assay.h("dd", null, entry.means));
    Assay.fill(dialog,
      Assay.h("h2", { id: "help-title" }, "Keys"),
      Assay.h("dl", null, [...here, ...everywhere].filter((entry) => entry.means).map(row)),
      Assay.h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Close"));
    dialog.showModal();
  }

  const THEMES = ["auto", "light", "dark"];
  const WORDS = { auto: "system default", light: "light", dark: "dark" };

  function remembered() {
    try {
      const found = localStorage.getItem("assay-theme");
      return THEMES.includes(found) ? found : "auto";
    } catch {
      return "auto";
    }
  }

  function theme(name) {
    document.documentElement.dataset.theme = name;
    const button = document.getElementById("theme");
    button.setAttribute("aria-label", `Colours: ${WORDS[name]}`);
    Assay.fill(button, "Theme", Assay.h("span", { class: "bar-word" }, `: ${name}`));
    try {
      localStorage.setItem("assay-theme", name);
    } catch {
      /* a browser that keeps nothing shows it all the same */
    }
    document.dispatchEvent(new CustomEvent("assay-theme"));
  }

  function nextTheme() {
    const at = THEMES.indexOf(document.documentElement.dataset.theme);
    theme(THEMES[(at + 1) % THEMES.length]);
    Assay.say(`Colours: ${WORDS[document.documentElement.dataset.theme]}`);
  }

  document.documentElement.dataset.theme = remembered();
  document.addEventListener("keydown", pressed);
  document.addEventListener("DOMContentLoaded", () => {
    theme(remembered());
    document.getElementById("theme").addEventListener("click", nextTheme);
    document.getElementById("help").addEventListener("click", help);
  });
  Assay.key("?", "these keys", help, { global: true });
  Assay.key("t", "light, dark, or the system default", nextTheme, { global: true });
  Assay.key("u", "one level up", () => {
    const links = document.querySelectorAll("#crumbs a");
    Assay.go(links.length ? links[links.length - 1].getAttribute("href") : "#/");
  }, { global: true });
})();
