"use strict";
/* A run's attempts in columns: filtered, counted and sorted here, 20,000 of them in some milliseconds. */

/* Assay.columns(view) -> table
     table.count, table.text(name, row), table.value(name, row), table.attempt(row)
     table.select({chosen: {facet: Set of texts}, words, every}) -> {rows: Int32Array in order, facets: {name: Map text -> count}}
     table.order(name, down)     sorts by a column from now on; null: as they began
     table.known(name)          whether any attempt has something there
     table.tag(Map)             the tags of people by chain; the words `tag:NAME` find them
     table.merge(view)           rows that are new or not what they were */
Assay.columns = (view) => {
  const FACETS = ["outcome", "separation", "integrity", "process", "safety", "again", "agent", "model", "how", "task"];
  const NONE = "–";
  const columns = view.columns;
  const names = view.names;
  const places = new Map();
  const codes = Object.fromEntries(Object.entries(names).map(([name, texts]) => [name, new Map(texts.map((t, at) => [t, at]))]));
  let count = view.count;
  let haystack = null;
  let tags = new Map(); /* chain to the tags that people gave */
  let searched = { words: null, mask: null };
  let orders = new Map();
  let lacks = new Map();
  let sorting = { name: null, down: false };
  columns.chain.forEach((chain, row) => places.set(chain, row));

  function text(name, row) {
    const code = columns[name][row];
    return code < 0 ? null : names[name][code];
  }

  function attempt(row) {
    const given = columns.attempt[row];
    return given === null ? columns.chain[row].replace(/\.\d+$/, "") : given;
  }

  function hay(row) {
    const repeated = ["task", "agent", "model", "headline", "how"].map((name) => text(name, row) || "");
    const own = (tags.get(columns.chain[row]) || []).map((tag) => `tag:${tag.replace(/ /g, "-")}`);
    return [attempt(row), ...repeated, columns.error[row] || "", ...own].join("\n").toLowerCase();
  }

  function matching(words) {
    if (!words.length) return null;
    const wanted = words.join(" ");
    if (searched.words === wanted && searched.mask.length === count) return searched.mask;
    haystack = haystack || Array.from({ length: count }, (_, row) => hay(row));
    const mask = new Uint8Array(count);
    for (let row = 0; row < count; row += 1) mask[row] = words.every((word) => haystack[row].includes(word)) ? 1 : 0;
    searched = { words: wanted, mask };
    return mask;
  }

  function select({ chosen, words, every }) {
    const mask = matching(words);
    const filters = FACETS.map((name) => {
      const wanted = chosen[name];
      if (!wanted || !wanted.size) return null;
      const allowed = new Uint8Array(names[name].length + 1);
      for (const value of wanted) {
        const code = value === NONE ? 0 : (codes[name].has(value) ? codes[name].get(value) + 1 : null);
        if (code !== null) allowed[code] = 1;
      }
      return allowed;
    });
    const tallies = FACETS.map((name) => new Int32Array(names[name].length + 1));
    const picked = FACETS.map((name) => columns[name]);
    const inside = new Uint8Array(count);
    let found = 0;
    let all = 0;
    for (let row = 0; row < count; row += 1) {
      if (!every && !columns.final[row]) continue;
      all += 1;
      if (mask && !mask[row]) continue;
      let missed = -1;
      let misses = 0;
      for (let at = 0; at < FACETS.length && misses < 2; at += 1) {
        if (filters[at] && !filters[at][picked[at][row] + 1]) {
          misses += 1;
          missed = at;
        }
      }
      if (misses === 0) {
        inside[row] = 1;
        found += 1;
        for (let at = 0; at < FACETS.length; at += 1) tallies[at][picked[at][row] + 1] += 1;
      } else if (misses === 1) {
        tallies[missed][picked[missed][row] + 1] += 1;
      }
    }
    return { rows: arranged(inside, found), all, facets: counted(tallies) };
  }

  function counted(tallies) {
    const facets = {};
    FACETS.forEach((name, at) => {
      facets[name] = new Map();
      names[name].forEach((value, code) => facets[name].set(value, tallies[at][code + 1]));
      if (lacking(name)) facets[name].set(NONE, tallies[at][0]);
    });
    return facets;
  }

  /* Whether some attempt has no text in a column. */
  function lacking(name) {
    if (!lacks.has(name)) lacks.set(name, columns[name].includes(-1));
    return lacks.get(name);
  }

  /* Whether some attempt has a value in a column. */
  function known(name) {
    return columns[name].some((value) => value !== null && value !== -1);
  }

  function arranged(inside, found) {
    const rows = new Int32Array(found);
    const order = sorting.name ? sorted(sorting.name) : null;
    let at = 0;
    for (let place = 0; place < count; place += 1) {
      const row = order ? order[place] : place;
      if (inside[row]) rows[at++] = row;
    }
    if (sorting.name && sorting.down) {
      /* What is unknown stays last either way. */
      const known = rows.filter((row) => key(sorting.name)(row) !== null);
      const unknown = rows.filter((row) => key(sorting.name)(row) === null);
      rows.set(known.reverse());
      rows.set(unknown, known.length);
    }
    return rows;
  }

  function key(name) {
    if (name === "attempt") return attempt;
    if (names[name]) return (row) => text(name, row);
    return (row) => columns[name][row];
  }

  function sorted(name) {
    if (orders.has(name)) return orders.get(name);
    let ranks;
    if (names[name]) {
      const byText = names[name].map((_, code) => code).sort((a, b) => compare(names[name][a], names[name][b]));
      const rank = new Float64Array(byText.length + 1);
      byText.forEach((code, at) => { rank[code + 1] = at; });
      rank[0] = Infinity;
      ranks = Float64Array.from(columns[name], (code) => rank[code + 1]);
    } else if (name === "attempt") {
      const texts = Array.from({ length: count }, (_, row) => attempt(row));
      const order = texts.map((_, row) => row).sort((a, b) => compare(texts[a], texts[b]) || a - b);
      orders.set(name, order);
      return order;
    } else {
      ranks = Float64Array.from(columns[name], (value) => (value === null ? Infinity : value));
    }
    const order = Array.from({ length: count }, (_, row) => row).sort((a, b) => {
      const [first, second] = [ranks[a], ranks[b]];
      return first < second ? -1 : first > second ? 1 : a - b;
    });
    orders.set(name, order);
    return order;
  }

  function compare(a, b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function code(name, value) {
    if (!codes[name].has(value)) {
      codes[name].set(value, names[name].length);
      names[name].push(value);
    }
    return codes[name].get(value);
  }

  function merge(other) {
    for (let at = 0; at < other.count; at += 1) {
      const chain = other.columns.chain[at];
      let row = places.get(chain);
      if (row === undefined) {
        row = count;
        count += 1;
        places.set(chain, row);
      }
      for (const name of Object.keys(columns)) {
        const given = other.columns[name][at];
        columns[name][row] = names[name] ? (given < 0 ? -1 : code(name, other.names[name][given])) : given;
      }
    }
    [haystack, orders, lacks, searched] = [null, new Map(), new Map(), { words: null, mask: null }];
  }

  return {
    facets: FACETS,
    none: NONE,
    text,
    attempt,
    select,
    merge,
    known,
    tags: (row) => tags.get(columns.chain[row]) || [],
    tag(found) {
      tags = found;
      [haystack, searched] = [null, { words: null, mask: null }];
    },
    get count() { return count; },
    value: (name, row) => columns[name][row],
    row: (chain) => places.get(chain),
    order(name, down) {
      sorting = { name, down };
    },
  };
};
