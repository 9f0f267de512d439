"use strict";
/* Long lists of which only what is seen is built; rows may have any height, which is known once they were shown. */

/* Assay.virtual({count, row, estimate, scroller, role, label}) -> list
     row(index)        makes the element of a row; called again whenever it scrolls into sight
     estimate          its height in pixels until it was seen
     scroller          what scrolls; the page by default
   list.element        put it into the page
   list.reset(count)   other rows now; heights are forgotten (`keep: true`: only the end grew or shrank)
   list.changed(index) makes that row again, if it is in sight
   list.show(index, {align: "start" | "center" | "nearest"}) scrolls there and returns the row's element
   list.range()        the first and last row in sight
   list.stop()         lets go of the page */
Assay.virtual = (options) => {
  const { row, estimate = 32, role = null, label = null } = options;
  const scroller = options.scroller || document.getElementById("main");
  const window_ = Assay.h("div", { class: "virtual-window", role: role ? "presentation" : null });
  const element = Assay.h("div", { class: "virtual", role, "aria-label": label }, window_);
  const beyond = 400;
  let count = 0;
  let heights = new Float64Array(0);
  let sums = new Float64Array(1); /* Fenwick tree over heights */
  let shown = new Map();
  let first = 0;
  let last = -1;
  let queued = false;

  function build(number, kept) {
    const before = heights;
    count = number;
    heights = new Float64Array(count).fill(estimate);
    if (kept) heights.set(before.subarray(0, Math.min(count, before.length)));
    sums = new Float64Array(count + 1);
    for (let at = 1; at <= count; at += 1) {
      sums[at] += heights[at - 1];
      const up = at + (at & -at);
      if (up <= count) sums[up] += sums[at];
    }
  }

  function grow(index, by) {
    for (let at = index + 1; at <= count; at += at & -at) sums[at] += by;
  }

  function offset(index) {
    let total = 0;
    for (let at = index; at > 0; at -= at & -at) total += sums[at];
    return total;
  }

  function rowAt(place) {
    let at = 0;
    let step = 1;
    while (step * 2 <= count) step *= 2;
    for (let left = place; step > 0; step >>= 1) {
      if (at + step <= count && sums[at + step] <= left) {
        at += step;
        left -= sums[at];
      }
    }
    return Math.min(at, Math.max(count - 1, 0));
  }

  function place() {
    return scroller.getBoundingClientRect().top - element.getBoundingClientRect().top;
  }

  const observer = new ResizeObserver((entries) => {
    let above = 0;
    const top = place();
    for (const entry of entries) {
      const index = Number(entry.target.dataset.index);
      if (shown.get(index) !== entry.target) continue;
      const height = entry.target.offsetHeight;
      const by = height - heights[index];
      if (Math.abs(by) < 0.5) continue;
      if (offset(index) + heights[index] <= top) above += by;
      heights[index] = height;
      grow(index, by);
    }
    Assay.size(element, { height: offset(count) });
    Assay.size(window_, { top: offset(first) });
    if (above) scroller.scrollTop += above;
    later();
  });

  function built(index) {
    const made = row(index);
    made.dataset.index = String(index);
    observer.observe(made);
    return made;
  }

  /* What is in sight. Reading it after a change lays the whole page out, so it is read before one. */
  function sight() {
    return { top: place(), height: scroller.clientHeight };
  }

  function draw({ top, height } = sight()) {
    queued = false;
    if (!element.isConnected) return;
    Assay.size(element, { height: offset(count) });
    const from = count ? rowAt(Math.max(0, top - beyond)) : 0;
    const until = count ? rowAt(Math.max(0, top + height + beyond)) : -1;
    if (from === first && until === last && shown.size === until - from + 1) return;
    const next = new Map();
    const focused = document.activeElement && window_.contains(document.activeElement)
      ? Number(document.activeElement.closest("[data-index]").dataset.index) : null;
    for (let index = from; index <= until; index += 1) next.set(index, shown.get(index) || built(index));
    for (const [index, old] of shown) {
      if (next.get(index) === old) continue;
      if (index === focused && index < count) continue; /* what has the focus stays, below */
      observer.unobserve(old);
      old.remove();
    }
    if (focused !== null && !next.has(focused) && shown.has(focused)) {
      observer.unobserve(shown.get(focused));
      shown.get(focused).remove();
      scroller.focus({ preventScroll: true });
    }
    shown = next;
    [first, last] = [from, until];
    let before = null;
    for (const made of next.values()) {
      const should = before ? before.nextSibling : window_.firstChild;
      if (should !== made) window_.insertBefore(made, should);
      before = made;
    }
    Assay.size(window_, { top: offset(first) });
  }

  function later() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => draw());
  }

  function forget() {
    for (const old of shown.values()) observer.unobserve(old);
    window_.replaceChildren();
    shown = new Map();
    [first, last] = [0, -1];
  }

  const list = {
    element,
    reset(number, { keep = false } = {}) {
      const seen = sight();
      forget();
      build(number, keep);
      draw(seen);
      later();
    },
    changed(index) {
      const old = shown.get(index);
      if (!old) return;
      observer.unobserve(old);
      const made = built(index);
      shown.set(index, made);
      old.replaceWith(made);
    },
    show(index, { align = "nearest" } = {}) {
      if (index < 0 || index >= count) return null;
      for (let tries = 0; tries < 4; tries += 1) {
        const at = offset(index) - place();
        const sticky = options.inset ? options.inset() : 0;
        const room = scroller.clientHeight - heights[index];
        const by = align === "start" ? at - sticky : align === "center" ? at - Math.max(sticky, room / 2)
          : at < sticky ? at - sticky : at > room ? Math.min(at - room, at - sticky) : 0;
        if (Math.abs(by) < 1 && shown.has(index)) break;
        scroller.scrollTop += by;
        draw();
        for (const [number, made] of shown) {
          const height = made.offsetHeight;
          if (Math.abs(height - heights[number]) >= 0.5) {
            grow(number, height - heights[number]);
            heights[number] = height;
          }
        }
        Assay.size(element, { height: offset(count) });
        Assay.size(window_, { top: offset(first) });
      }
      return shown.get(index) || null;
    },
    range() {
      const top = place();
      return count ? [rowAt(Math.max(0, top)), rowAt(Math.max(0, top + scroller.clientHeight))] : [0, -1];
    },
    at: (index) => shown.get(index) || null,
    refresh: later,
    stop() {
      scroller.removeEventListener("scroll", later);
      resized.disconnect();
      observer.disconnect();
    },
  };
  const resized = new ResizeObserver(later);
  resized.observe(scroller);
  resized.observe(element);
  scroller.addEventListener("scroll", later, { passive: true });
  const page = Assay.page();
  if (page) page.signal.addEventListener("abort", list.stop);
  build(options.count || 0, false);
  later();
  return list;
};
