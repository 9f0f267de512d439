"use strict";
/* Terminal output: colours are shown, nothing else of it is done. What moves the cursor, sets a title, hides text or
   writes the clipboard is a visible mark; a terminal hyperlink is its text with its address behind it, and no link.
   Colours are the nearest of the sixteen that both themes can show on their ground, so that no text can hide. */

(() => {
  const { h } = Assay;
  const SEQUENCE = /\u001b\[([0-9;:?<=>!]{0,64})([@-~])|\u001b\]([^\u0007\u001b\u009c]{0,4096})(?:\u0007|\u001b\\|\u009c)|\u001b([()*+][0-9A-Za-z]|[=>cDEHMNOZ78])/g;
  const BASIC = [[0, 0, 0], [205, 49, 49], [13, 188, 121], [229, 229, 16], [36, 114, 200], [188, 63, 188], [17, 168, 205],
    [229, 229, 229], [102, 102, 102], [241, 76, 76], [35, 209, 139], [245, 245, 67], [59, 142, 234], [214, 112, 214],
    [41, 184, 219], [255, 255, 255]];
  const FLAGS = { 1: "bold", 3: "italic", 4: "underlined", 7: "inverse", 9: "struck" };

  function nearest(red, green, blue) {
    let best = 0;
    let least = Infinity;
    BASIC.forEach((colour, at) => {
      const far = (colour[0] - red) ** 2 + (colour[1] - green) ** 2 + (colour[2] - blue) ** 2;
      if (far < least) [best, least] = [at, far];
    });
    return best;
  }

  function indexed(number) {
    if (!(number >= 0 && number < 256)) return null;
    if (number < 16) return number;
    if (number > 231) return nearest(...Array(3).fill(8 + 10 * (number - 232)));
    const level = (n) => (n ? 55 + 40 * n : 0);
    const cube = number - 16;
    return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
  }

  /* One "select graphic rendition"; `state` holds what is on. */
  function select(state, words) {
    const codes = words.split(/[;:]/).slice(0, 40).map((word) => (word === "" ? 0 : Number(word)));
    for (let at = 0; at < codes.length; at += 1) {
      const code = codes[at];
      if (code === 0) for (const key of Object.keys(state)) delete state[key];
      else if (code in FLAGS) state[FLAGS[code]] = true;
      else if (code === 22) delete state.bold;
      else if (code >= 23 && code <= 29) delete state[FLAGS[code - 20]];
      else if (code >= 30 && code <= 37) state.ink = code - 30;
      else if (code >= 90 && code <= 97) state.ink = code - 82;
      else if (code >= 40 && code <= 47) state.ground = code - 40;
      else if (code >= 100 && code <= 107) state.ground = code - 92;
      else if (code === 39) delete state.ink;
      else if (code === 49) delete state.ground;
      else if (code === 38 || code === 48) {
        const [colour, used] = codes[at + 1] === 5 ? [indexed(codes[at + 2]), 2]
          : codes[at + 1] === 2 ? [nearest(codes[at + 2] || 0, codes[at + 3] || 0, codes[at + 4] || 0), 4] : [null, 0];
        if (colour !== null) state[code === 38 ? "ink" : "ground"] = colour;
        at += used;
      }
    }
  }

  function classes(state) {
    const found = Object.values(FLAGS).filter((flag) => state[flag]).map((flag) => `ansi-${flag}`);
    if (state.ink !== undefined) found.push(`ansi-${state.ink}`);
    if (state.ground !== undefined) found.push(`ansi-on-${state.ground}`);
    return found.join(" ");
  }

  function sign(words, means) {
    return h("span", { class: "mark", title: means }, Assay.line(words.slice(0, 200)));
  }

  function other(text, found) {
    if (found[3] === undefined) return sign("ESC", "a terminal command, not executed");
    const [number, ...rest] = found[3].split(";");
    const address = rest.slice(1).join(";");
    if (number === "8") return address ? sign(`link: ${address}`, "a terminal hyperlink, not followed") : null;
    return sign(`OSC ${found[3]}`, "a terminal command, not executed");
  }

  /* Assay.ansi(text, state = {}): a fragment; `state` goes on from one piece of an output to the next. */
  Assay.ansi = (text, state = {}) => {
    const made = document.createDocumentFragment();
    const put = (words) => {
      if (!words) return;
      const named = classes(state);
      made.append(named ? h("span", { class: named }, words) : Assay.text(words));
    };
    if (!text.includes("\u001b")) {
      put(text);
      return made;
    }
    let at = 0;
    let marks = 0;
    for (const found of text.matchAll(SEQUENCE)) {
      put(text.slice(at, found.index));
      at = found.index + found[0].length;
      if (found[2] === "m") {
        select(state, found[1]);
        continue;
      }
      marks += 1;
      const told = marks > 500 ? null : found[2] !== undefined
        ? sign(`CSI ${found[1]}${found[2]}`, "a terminal command, not executed") : other(text, found);
      if (told) made.append(told);
    }
    put(text.slice(at));
    return made;
  };
})();
