"use strict";
/* The client's core: safe DOM, data, routes. Everything that a page shows comes from records that strangers wrote, so:
   text goes in by text nodes alone (`h` does it), invisible and steering characters are shown as marks, links lead to
   our own routes alone, and nothing that was recorded becomes a style, an address or a script. */

const Assay = (() => {
  /* ---- text ---------------------------------------------------------------------------------------------------- */

  const NAMED = {
    0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0b: "VT", 0x0c: "FF", 0x0d: "CR", 0x1b: "ESC", 0x7f: "DEL", 0x85: "NEL",
    0x9b: "CSI", 0x9d: "OSC", 0xad: "SHY", 0x061c: "ALM", 0x180e: "MVS", 0x200b: "ZWSP", 0x200c: "ZWNJ", 0x200d: "ZWJ",
    0x200e: "LRM", 0x200f: "RLM", 0x2028: "LS", 0x2029: "PS", 0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF",
    0x202d: "LRO", 0x202e: "RLO", 0x2060: "WJ", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI",
    0xfeff: "BOM",
  };
  /* Controls but tab and newline, and characters that change text direction or are invisible. */
  const HIDDEN = "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5" +
    "\\u180b-\\u180f\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff0-\\ufffb" +
    "\\u{e0000}-\\u{e0fff}";
  const MARKED = new RegExp(`[${HIDDEN}]`, "u");
  const MARKED_LINE = new RegExp(`[\\n\\t${HIDDEN}]`, "u");
  const RUN = 400;

  /* Shows a string: a text node, or a fragment in which each invisible character is a visible mark. With `line`,
     newlines and tabs are marks too. */
  function text(value, line = false) {
    const given = String(value);
    const pattern = line ? MARKED_LINE : MARKED;
    if (!pattern.test(given)) return document.createTextNode(given);
    const made = document.createDocumentFragment();
    let plain = "";
    let marks = 0;
    for (const character of given) {
      if (!pattern.test(character) || marks >= RUN * 50) {
        plain += pattern.test(character) ? "\ufffd" : character;
        continue;
      }
      if (plain) made.append(plain);
      plain = "";
      made.append(mark(character.codePointAt(0)));
      marks += 1;
    }
    if (plain) made.append(plain);
    return made;
  }

  function line(value) {
    return text(value, true);
  }

  function mark(code) {
    const span = document.createElement("span");
    const number = "U+" + code.toString(16).toUpperCase().padStart(4, "0");
    span.className = "mark";
    span.title = number;
    span.textContent = code === 10 ? "↵" : code === 9 ? "⇥" : NAMED[code] || number;
    return span;
  }

  /* ---- DOM ----------------------------------------------------------------------------------------------------- */

  const SVG = "http://www.w3.org/2000/svg";
  const TAGS = new Set(("a abbr article aside b bdi blockquote br button caption code col colgroup dd del details dfn " +
    "dialog div dl dt em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr i img input ins kbd label " +
    "legend li main mark menu meter nav ol optgroup option output p pre progress q s samp section select small span " +
    "strong sub summary sup table tbody td textarea tfoot th thead time tr u ul var wbr").split(" "));
  const SHAPES = new Set(("circle clipPath defs desc ellipse g line marker path polygon polyline rect svg text title " +
    "tspan").split(" "));
  const PLAIN = new Set(("alt autocomplete checked class colspan cols cx cy d dx dy datetime dir disabled download fill " +
    "fill-opacity font-size font-weight for gradientUnits height hidden id inputmode lang label list marker-end max " +
    "maxlength min multiple name offset open opacity pathLength placeholder points preserveAspectRatio r readonly rows " +
    "rowspan rx ry scope selected size span spellcheck step stroke stroke-dasharray stroke-linecap stroke-linejoin " +
    "stroke-opacity stroke-width tabindex text-anchor title transform type value viewBox width wrap x x1 x2 y y1 " +
    "y2 dominant-baseline refX refY orient markerWidth markerHeight markerUnits role").split(" "));
  const SPOKEN = new Set(["alt", "aria-label", "placeholder", "title"]); /* shown, or read out, where no mark can be */
  const IMAGE = /^(blob:|data:image\/(png|jpeg|gif|webp);base64,)/;

  /* Builds an element: h("p", {class: "note"}, "text", another). Children are nodes, strings (shown by `text`), arrays,
     or nothing (null, undefined, false). Of attributes only known ones are taken: `href` only to our own routes, `src`
     only of an image that we hold, `on...` only as functions. There is no `style`: give a class, or use `size`. */
  function h(tag, attributes, ...children) {
    if (!TAGS.has(tag)) throw new Error(`element <${tag}> is not allowed`);
    return filled(document.createElement(tag), attributes, children);
  }

  /* The same for SVG. */
  function svg(tag, attributes, ...children) {
    if (!SHAPES.has(tag)) throw new Error(`shape <${tag}> is not allowed`);
    return filled(document.createElementNS(SVG, tag), attributes, children);
  }

  function filled(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) set(element, name, value);
    add(element, children);
    return element;
  }

  function set(element, name, value) {
    if (value === null || value === undefined || value === false) {
      element.removeAttribute(name);
    } else if (typeof value === "function" && /^on[a-z]+$/.test(name)) {
      element.addEventListener(name.slice(2), value);
    } else if (name === "href" && String(value).startsWith("#/")) {
      element.setAttribute("href", String(value));
    } else if (name === "src" && element.tagName === "IMG" && IMAGE.test(String(value))) {
      element.setAttribute("src", String(value));
    } else if (PLAIN.has(name) || /^(aria|data)-[a-z-]+$/.test(name)) {
      element.setAttribute(name, value === true ? (/^aria-/.test(name) ? "true" : "") : SPOKEN.has(name) ? unmasked(value) : String(value));
    } else {
      throw new Error(`attribute ${name} is not allowed with that value`);
    }
  }

  function add(parent, children) {
    for (const child of children) {
      if (Array.isArray(child)) add(parent, child);
      else if (child instanceof Node) parent.append(child);
      else if (child === null || child === undefined || child === false) continue;
      else parent.append(parent.namespaceURI === SVG ? unmasked(child) : text(child)); /* a drawing shows no marks */
    }
    return parent;
  }

  /* Empties an element and fills it again. */
  function fill(element, ...children) {
    element.replaceChildren();
    return add(element, children);
  }

  /* Numbers as CSS pixels or custom properties, set through the object model, which the policy allows:
     size(element, {height: 20, "--share": 0.4}). */
  function size(element, sizes) {
    for (const [name, value] of Object.entries(sizes)) {
      if (!Number.isFinite(value)) continue;
      element.style.setProperty(name, name.startsWith("--") ? String(value) : `${value}px`);
    }
    return element;
  }

  /* ---- names --------------------------------------------------------------------------------------------------- */

  /* Parts to a path; an array becomes its parts joined by "+". */
  function path(...parts) {
    return parts.map((part) => (Array.isArray(part) ? part.map(encodeURIComponent).join("+") : encodeURIComponent(part)))
      .join("/");
  }

  /* The address of a page: href("run", run, "attempt", chain). A last plain object is the query. */
  function href(...parts) {
    const last = parts[parts.length - 1];
    const query = last && typeof last === "object" && !Array.isArray(last) ? parts.pop() : null;
    const words = query ? new URLSearchParams(Object.entries(query).filter((pair) => pair[1])).toString() : "";
    return `#/${path(...parts)}${words ? `?${words}` : ""}`;
  }

  /* ---- data ---------------------------------------------------------------------------------------------------- */

  class Failure extends Error {
    constructor(message, status) {
      super(message);
      this.name = "Failure";
      this.status = status;
    }
  }

  const exported = document.documentElement.dataset.source === "files";
  const loaded = new Map(); /* name to {view, size}; the longest unused first */
  const KEPT = 64;
  const KEPT_CHARACTERS = 48e6;
  let held = 0;

  /* A view by its name, `Assay.load(Assay.path("run", run, "rows"))`; the last ones are kept. `fresh` asks again. */
  function load(name, { fresh = false } = {}) {
    const known = fresh ? undefined : loaded.get(name);
    if (known) {
      loaded.delete(name);
      loaded.set(name, known);
      return known.view;
    }
    forget(name);
    const entry = { view: null, size: 0 };
    entry.view = (exported ? fromScript(name) : fromServer(name)).then((json) => {
      if (loaded.get(name) === entry) {
        entry.size = json.length;
        held += json.length;
        while (loaded.size > 1 && held > KEPT_CHARACTERS) forget(loaded.keys().next().value);
      }
      return JSON.parse(json);
    });
    entry.view.catch(() => {
      if (loaded.get(name) === entry) forget(name);
    });
    loaded.set(name, entry);
    if (loaded.size > KEPT) forget(loaded.keys().next().value);
    return entry.view;
  }

  function forget(name) {
    const entry = loaded.get(name);
    if (!entry) return;
    held -= entry.size;
    loaded.delete(name);
  }

  async function fromServer(name) {
    let answer;
    try {
      answer = await fetch(`data/${name}`, { credentials: "omit" });
      if (answer.ok) return await answer.text();
    } catch {
      throw new Failure("The server does not respond. Is `assay view` still running?", 0);
    }
    const body = await answer.json().catch(() => ({}));
    throw new Failure(body.error || `The server answered ${answer.status}.`, answer.status);
  }

  /* Sends what a person wrote to the server: send(name, plain object). Raises `Failure` with the server's reason. */
  async function send(name, content) {
    let answer;
    try {
      answer = await fetch(`data/${name}`, { method: "POST", credentials: "omit", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });
    } catch {
      throw new Failure("The server does not respond. Is `assay view` still running?", 0);
    }
    if (answer.ok) return;
    const body = await answer.json().catch(() => ({}));
    throw new Failure(body.error || `The server answered ${answer.status}.`, answer.status);
  }

  const scripts = new Map();
  const provided = new Map();

  /* What a file of an export calls: the view's JSON as a text, so that no key of it means anything to JavaScript. */
  function provide(name, json) {
    provided.set(name, json);
  }

  async function fromScript(name) {
    const address = fileOf(name);
    if (!scripts.has(address)) scripts.set(address, injected(address));
    const there = await scripts.get(address);
    const json = provided.get(name);
    if (!there || json === undefined) {
      throw new Failure("This is not in the export: `assay view` on the store shows it.", 404);
    }
    provided.delete(name);
    scripts.delete(address); /* asked again, it is read again: what was seen is not held for ever */
    return json;
  }

  function injected(address) {
    return new Promise((done) => {
      const script = document.createElement("script");
      script.charset = "utf-8";
      script.src = address;
      script.onload = () => done(true);
      script.onerror = () => done(false);
      for (const end of ["load", "error"]) script.addEventListener(end, () => script.remove());
      document.head.append(script);
    });
  }

  /* Where an export keeps a view; `assay.viewer.export.view_file` is its twin. */
  function fileOf(name) {
    let first = 0x811c9dc5;
    let second = 0x01000193;
    for (let at = 0; at < name.length; at += 1) {
      first = Math.imul(first ^ name.charCodeAt(at), 0x01000193) >>> 0;
      second = Math.imul(second ^ name.charCodeAt(at), 0x85ebca6b) >>> 0;
    }
    const hex = (number) => number.toString(16).padStart(8, "0");
    return `data/${hex(first).slice(0, 2)}/${hex(first)}${hex(second)}.js`;
  }

  /* Calls `told(name, data)` for what the server says of a run (or, for null, of the list of runs) until the page is
     left. Of an export, and of a run that is sealed, nothing comes. Returns a function that ends it. */
  function live(run, after, told) {
    if (exported) return () => {};
    const source = new EventSource(`events${run === null ? "" : `/${encodeURIComponent(run)}`}?after=${after || 0}`);
    for (const name of ["state", "rows", "runs", "ended", "failed"]) {
      source.addEventListener(name, (event) => {
        const data = JSON.parse(event.data);
        if (name === "ended" || name === "failed") source.close();
        told(name, data);
      });
    }
    source.onerror = () => told("lost", {});
    const end = () => source.close();
    if (current) current.signal.addEventListener("abort", end);
    return end;
  }

  /* ---- routes -------------------------------------------------------------------------------------------------- */

  const routes = [];
  let current = null;

  /* Registers a page: route("/run/{run}/attempt/{chain}", show). `show(page)` fills `page.root`; it may be async.
     A page has: `parts` (decoded), `query` (URLSearchParams), `root` (an element), `signal` (aborted when the page is
     left), `title(text)`, `crumbs([[text, href], ...])`, and may set `page.update = (parts, query) => boolean`: asked
     when the address changes to another one of the same `show`; true means that it took the change itself. */
  function route(pattern, show) {
    const names = [];
    const expression = pattern.replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/\{([a-z]+)(\\\+)?\}/g, (_, name, plus) => {
      names.push([name, Boolean(plus)]);
      return "([^/]+)";
    });
    routes.push({ expression: new RegExp(`^${expression}$`), names, show });
  }

  function resolved(address) {
    const [place, query] = [address.replace(/\?.*$/s, ""), address.includes("?") ? address.replace(/^[^?]*\?/, "") : ""];
    for (const known of routes) {
      const found = known.expression.exec(place);
      if (!found) continue;
      const parts = {};
      try {
        known.names.forEach(([name, many], at) => {
          const raw = found[at + 1];
          parts[name] = many ? raw.split("+").map(decodeURIComponent) : decodeURIComponent(raw);
        });
      } catch {
        return null;
      }
      return { show: known.show, parts, query: new URLSearchParams(query) };
    }
    return null;
  }

  async function follow() {
    const address = location.hash.startsWith("#/") ? location.hash.slice(1) : "/";
    const found = resolved(address);
    const before = current;
    const samePage = before && found && before.show === found.show && before.update;
    if (samePage && before.update(found.parts, found.query)) {
      before.parts = found.parts;
      before.query = found.query;
      document.documentElement.dataset.state = "ready";
      return;
    }
    if (before) before.leave();
    document.documentElement.dataset.state = "loading";
    const page = opened(found);
    current = page;
    const main = document.getElementById("main");
    main.replaceChildren(page.root);
    main.scrollTop = 0;
    crumbs([]);
    try {
      if (!found) throw new Failure("There is no such page.", 404);
      await found.show(page);
      if (!page.signal.aborted) document.documentElement.dataset.state = "ready";
    } catch (error) {
      if (page.signal.aborted) return;
      if (!(error instanceof Failure)) console.error(error);
      broken(page, error);
      document.documentElement.dataset.state = "failed";
    }
    if (!page.signal.aborted && before) focusOn(page);
  }

  function opened(found) {
    const stop = new AbortController();
    const page = {
      show: found && found.show,
      parts: found ? found.parts : {},
      query: found ? found.query : new URLSearchParams(),
      root: h("div", { class: "page" }),
      signal: stop.signal,
      update: null,
      leave: () => stop.abort(),
      title: (words) => {
        document.title = `${plain(words)} · Assay`;
      },
      crumbs,
    };
    return page;
  }

  const EVERY_MARKED = new RegExp(`[${HIDDEN}]`, "gu");

  /* Text for a place without elements: invisible characters become one sign. */
  function unmasked(words) {
    return String(words).replace(EVERY_MARKED, "\ufffd");
  }

  /* The same, and short, for one line. */
  function plain(words, most = 200) {
    return unmasked(words).replace(/[\n\t]/g, "\ufffd").slice(0, most);
  }

  /* Text for the clipboard: invisible characters are escapes, as in JavaScript. */
  function escaped(words) {
    return String(words).replace(EVERY_MARKED, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
  }

  function broken(page, error) {
    const words = error instanceof Failure ? error.message : `This page failed: ${error.message}`;
    fill(page.root, h("div", { class: "failure", role: "alert" },
      h("h1", { tabindex: "-1" }, "Cannot be shown"), h("p", null, words), h("p", null, h("a", { href: "#/" }, "All runs"))));
    page.title("Cannot be shown");
  }

  function focusOn(page) {
    const heading = page.root.querySelector("h1");
    if (heading && !page.root.contains(document.activeElement)) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
  }

  function crumbs(items) {
    const made = items.map(([words, to], at) => h("li", null,
      to ? h("a", { href: to }, line(words)) : h("span", { "aria-current": at === items.length - 1 ? "page" : null }, line(words))));
    document.getElementById("crumbs").replaceChildren(...(made.length ? [h("ol", null, made)] : []));
  }

  /* Goes to an address that `href` made; `replace` leaves no entry in the history. */
  function go(to, { replace = false } = {}) {
    if (!to.startsWith("#/")) throw new Error("only our own pages");
    if (replace) {
      history.replaceState(null, "", to);
      if (current) current.query = (resolved(to.slice(1)) || current).query;
    } else {
      location.hash = to;
    }
  }

  /* ---- small things -------------------------------------------------------------------------------------------- */

  /* Tells a screen reader. */
  function say(words) {
    document.getElementById("said").textContent = plain(words);
  }

  /* Offers a file that the page made: save("plot.svg", "image/svg+xml", text or Blob). */
  function save(name, type, content) {
    const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 100);
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  const counted = new Intl.NumberFormat("en");
  const format = {
    count: (n) => counted.format(n),
    share: (n, of) => (of ? `${((100 * n) / of).toFixed(n && n !== of && (n / of < 0.1 || n / of > 0.9) ? 1 : 0)}%` : "–"),
    number: (n, digits = 2) => (n === null || n === undefined ? "–" : Number(n).toFixed(digits)),
    seconds: (n) => (n === null || n === undefined ? "–"
      : n === 0 ? "0 s" : n < 1 ? `${Math.round(n * 1000)} ms` : n < 90 ? `${n.toFixed(1)} s` : n < 5400 ? `${(n / 60).toFixed(1)} min`
        : `${(n / 3600).toFixed(1)} h`),
    bytes: (n) => (n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`),
    tokens: (n) => (n === null || n === undefined ? "–" : n < 10000 ? counted.format(n) : n < 1e6 ? `${(n / 1e3).toFixed(1)}k`
      : `${(n / 1e6).toFixed(2)}M`),
    money: (n) => (n === null || n === undefined ? "–" : n === 0 ? "$0" : n < 1 ? `$${Number(n.toPrecision(2))}` : `$${n.toFixed(2)}`),
    moment: (at) => (at && Math.abs(at) < 1e11 ? new Date(at * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "–"),
    digest: (d) => (d ? String(d).replace(/^blake3:/, "").slice(0, 12) : "–"),
  };

  function start() {
    window.addEventListener("hashchange", follow);
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      document.getElementById("main").focus();
    });
    follow();
  }

  document.addEventListener("DOMContentLoaded", start);

  return {
    h, svg, text, line, plain, unmasked, escaped, fill, size, path, href, load, send, provide, fileOf, live, route, go, say, save, format, exported, Failure,
    page: () => current,
  };
})();
