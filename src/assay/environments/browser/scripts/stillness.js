// Makes a page repeatable: time begins at a fixed moment and random numbers have a fixed seed. It runs before any script
// of the page, in its own world.
(() => {
  const START = Date.UTC(2026, 2, 2, 9, 0, 0), began = performance.now();
  const RealDate = Date;
  const now = () => START + Math.round(performance.now() - began);
  globalThis.Date = class Date extends RealDate {
    constructor(...parts) { super(...(parts.length ? parts : [now()])); }
    static now() { return now(); }
  };
  let state = 0x9e3779b9;
  Math.random = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
})();
