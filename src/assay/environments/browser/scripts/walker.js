// Reads a page as an accessibility tree and finds elements again. It runs in an isolated world of the page: scripts of
// the page can neither see nor change it, and they share the document alone.
(() => {
  const MOST_NODES = 6000, MOST_TEXT = 2000, MOST_COPIED = 50000, MOST_TOTAL = 1e6;
  const byNumber = new Map(), numbers = new WeakMap();
  let count = 0;

  const INPUTS = {
    checkbox: 'checkbox', radio: 'radio', button: 'button', submit: 'button', reset: 'button', image: 'button',
    range: 'slider', number: 'spinbutton', search: 'searchbox', file: 'button',
  };
  const TAGS = {
    BUTTON: 'button', SUMMARY: 'button', TEXTAREA: 'textbox', H1: 'heading', H2: 'heading', H3: 'heading',
    H4: 'heading', H5: 'heading', H6: 'heading', IMG: 'img', UL: 'list', OL: 'list', LI: 'listitem', TABLE: 'table',
    TR: 'row', TD: 'cell', TH: 'columnheader', NAV: 'navigation', MAIN: 'main', HEADER: 'banner', CAPTION: 'caption',
    FOOTER: 'contentinfo', ASIDE: 'complementary', DIALOG: 'dialog', FIELDSET: 'group', P: 'paragraph', DT: 'term',
    DD: 'definition', DETAILS: 'group', PROGRESS: 'progressbar', METER: 'meter', OUTPUT: 'status', IFRAME: 'iframe',
    ARTICLE: 'article', LABEL: 'label', LEGEND: 'legend', FORM: 'form', SECTION: 'region', SVG: 'img', svg: 'img',
  };
  const WIDGETS = new Set(['link', 'button', 'textbox', 'searchbox', 'combobox', 'listbox', 'checkbox', 'radio',
    'slider', 'spinbutton', 'switch', 'tab', 'menuitem', 'menuitemcheckbox', 'menuitemradio', 'option', 'treeitem']);
  const FROM_CONTENT = new Set(['link', 'button', 'heading', 'cell', 'columnheader', 'rowheader', 'option', 'term',
    'tab', 'menuitem', 'switch', 'caption', 'legend', 'checkbox', 'radio', 'treeitem']);
  const UNNAMED = new Set(['label', 'legend', 'caption', 'paragraph']);
  const NAMED_ONLY = new Set(['form', 'region', 'article', 'group']);
  const OMITTED = new Set(['SCRIPT', 'STYLE', 'TEMPLATE', 'NOSCRIPT', 'HEAD', 'META', 'LINK', 'OPTION', 'OPTGROUP']);

  const squeeze = (text) => text.replace(/\s+/g, ' ').trim().slice(0, MOST_TEXT);
  const cut = (text) => String(text).slice(0, MOST_TEXT);

  // A blinking caret and moving parts would make two pictures of one page differ.
  const still = new CSSStyleSheet();
  still.replaceSync('*, *::before, *::after { caret-color: transparent !important; transition: none !important; ' +
    'animation: none !important; scroll-behavior: auto !important; }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];

  // The browser has one clipboard for all attempts, so pages never reach it: what is copied is kept by the attempt, which
  // gives it to the page before a key is pressed and takes it after.
  let clipboard = '';
  function selectedText() {
    const el = document.activeElement;
    if (el && typeof el.selectionStart === 'number' && typeof el.value === 'string') {
      return el.type === 'password' ? '' : el.value.slice(el.selectionStart, el.selectionEnd);
    }
    return String(getSelection());
  }
  for (const kind of ['copy', 'cut', 'paste']) {
    addEventListener(kind, (event) => {
      event.preventDefault();
      event.stopImmediatePropagation();
      if (kind === 'paste') {
        if (clipboard) document.execCommand('insertText', false, clipboard);
        return;
      }
      const text = selectedText();
      if (!text) return;
      clipboard = text.slice(0, MOST_COPIED);
      if (kind === 'cut') document.execCommand('delete');
    }, true);
  }
  function giveClipboard(text) {
    clipboard = text;
    return true;
  }
  function takeClipboard() {
    const text = clipboard;
    clipboard = '';  // so that the middle button pastes nothing
    return text;
  }

  function roleOf(el) {
    const given = (el.getAttribute('role') || '').trim().split(/\s+/)[0];
    if (given && given !== 'text') return given === 'none' || given === 'presentation' ? '' : given.slice(0, 40);
    const tag = el.tagName;
    if (tag === 'A') return el.hasAttribute('href') ? 'link' : '';
    if (tag === 'INPUT') return INPUTS[el.type] || 'textbox';
    if (tag === 'SELECT') return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    if (tag === 'TH') return el.scope === 'row' ? 'rowheader' : 'columnheader';
    if (el.isContentEditable && el.getAttribute('contenteditable') !== null) return 'textbox';
    return TAGS[tag] || '';
  }

  function isShown(el) {
    if (el.getAttribute('aria-hidden') === 'true' || el.hasAttribute('inert')) return false;  // parents were asked before
    if (el.checkVisibility({visibilityProperty: true, contentVisibilityAuto: true})) return true;
    return getComputedStyle(el).display === 'contents';  // it has no box of its own, and its children have
  }

  function textOf(el) {
    let text = '';
    for (let child = el.firstChild; child; child = child.nextSibling) {
      if (child.nodeType === 3) text += child.data;
      else if (child.nodeType === 1 && !OMITTED.has(child.tagName) && isShown(child)) {
        text += child.tagName === 'IMG' ? ' ' + child.alt + ' ' : ' ' + textOf(child) + ' ';
      }
      if (text.length > 4 * MOST_TEXT) break;
    }
    return text;
  }

  function labelText(label) {
    let text = '';
    for (let child = label.firstChild; child; child = child.nextSibling) {
      if (child.nodeType === 3) text += child.data;
      else if (child.nodeType === 1 && !child.matches('input,select,textarea,button')) text += ' ' + textOf(child);
    }
    return text;
  }

  function nameOf(el, role) {
    const ids = (el.getAttribute('aria-labelledby') || '').trim();
    if (ids) {
      const found = ids.split(/\s+/).map((id) => document.getElementById(id)).filter(Boolean).map(textOf).join(' ');
      if (found.trim()) return squeeze(found);
    }
    const label = el.getAttribute('aria-label');
    if (label && label.trim()) return squeeze(label);
    if (el.labels && el.labels.length) return squeeze([...el.labels].map(labelText).join(' '));
    if (el.tagName === 'IMG') return squeeze(el.alt || el.title || '');
    if (el.tagName === 'INPUT' && ['submit', 'button', 'reset'].includes(el.type)) {
      return squeeze(el.value || (el.type === 'reset' ? 'Reset' : 'Submit'));
    }
    if (el.tagName === 'FIELDSET') {
      const legend = el.querySelector(':scope > legend');
      if (legend) return squeeze(textOf(legend));
    }
    if (el.tagName === 'TABLE' && el.caption) return squeeze(textOf(el.caption));
    if (FROM_CONTENT.has(role)) {
      const text = squeeze(textOf(el));
      if (text) return text;
    }
    return squeeze(el.title || el.getAttribute('placeholder') || '');
  }

  function statesOf(el, role) {
    const states = [];
    if (('disabled' in el && el.matches(':disabled')) || el.getAttribute('aria-disabled') === 'true') states.push('disabled');
    if (el.checked === true || el.getAttribute('aria-checked') === 'true') states.push('checked');
    if (el.getAttribute('aria-selected') === 'true') states.push('selected');
    if (el.required) states.push('required');
    if (el.readOnly) states.push('readonly');
    if (el.getAttribute('aria-invalid') === 'true') states.push('invalid');
    const expanded = el.getAttribute('aria-expanded');
    if (expanded) states.push(expanded === 'true' ? 'expanded' : 'collapsed');
    if (el.tagName === 'SUMMARY') states.push(el.parentElement.open ? 'expanded' : 'collapsed');
    if (el.getAttribute('aria-pressed') === 'true') states.push('pressed');
    if (el === document.activeElement && el !== document.body) states.push('focused');
    if (role === 'heading') states.push('level ' + (el.getAttribute('aria-level') || el.tagName.slice(1)));
    return states;
  }

  function valueOf(el, role) {
    if (el.tagName === 'SELECT') return squeeze([...el.selectedOptions].map((option) => option.label).join(', '));
    if (el.tagName === 'TEXTAREA') return cut(el.value);
    if (el.type === 'file' && el.files) return cut([...el.files].map((file) => file.name).join(', '));
    if (el.tagName === 'INPUT' && !['checkbox', 'radio', 'submit', 'button', 'reset', 'image'].includes(el.type)) {
      return el.type === 'password' ? '*'.repeat(Math.min(el.value.length, 40)) : cut(el.value);
    }
    if (role === 'textbox' && el.isContentEditable) return squeeze(el.innerText);
    return null;
  }

  function numberOf(el) {
    let number = numbers.get(el);
    if (number === undefined) {
      number = ++count;
      numbers.set(el, number);
      byNumber.set(number, new WeakRef(el));
    }
    return number;
  }

  function isWidget(el, role) {
    return WIDGETS.has(role) || el.hasAttribute('onclick') || el.tabIndex >= 0 || el.draggable === true;
  }

  function boxOf(el) {
    const box = el.getBoundingClientRect();
    return [Math.round(box.x), Math.round(box.y), Math.round(box.width), Math.round(box.height)];
  }

  async function walk(withBoxes, frames) {
    if (frames) await settled(frames);
    const nodes = [];
    let isCut = false, total = 0;
    function push(node) {
      total += 50 + node.t.length + [node.v || '', ...(node.f || []), ...(node.o || [])].join('').length;
      if (nodes.length >= MOST_NODES || total > MOST_TOTAL) isCut = true;
      else nodes.push(node);
    }
    function flush(text, depth) {
      const squeezed = squeeze(text);
      if (squeezed) push({d: depth, r: 'text', t: squeezed});
    }
    function visit(el, depth) {
      if (isCut || OMITTED.has(el.tagName) || !isShown(el)) return;
      const role = roleOf(el);
      const name = role ? nameOf(el, role) : '';
      const widget = isWidget(el, role) && el.id !== 'main';
      const isNode = widget || (role && !UNNAMED.has(role) &&
        (name || !NAMED_ONLY.has(role)));
      if (isNode) {
        const node = {d: depth, r: role || 'generic', t: name}, states = statesOf(el, role);
        if (states.length) node.s = states;
        const value = valueOf(el, role);
        if (value !== null) node.v = value;
        if (widget) {
          node.n = numberOf(el);
          node.f = [el.getAttribute('name') || '', el.getAttribute('href') || '', el.type || '',
            el.getAttribute('value') || '', el.form ? el.form.getAttribute('action') || '' : ''].map(cut);
        }
        if (el.tagName === 'SELECT') node.o = [...el.options].slice(0, 300).map((option) => cut(option.label));
        if (withBoxes) node.b = boxOf(el);
        push(node);
      }
      const isLeaf = isNode && name && (FROM_CONTENT.has(role) || role === 'img') &&
        !(el.firstElementChild && el.querySelector('a[href],button,input,select,textarea,summary,img,table,ul,ol,dl'));
      if (isLeaf || el.tagName === 'SELECT' || el.tagName === 'TEXTAREA' || el.tagName === 'svg') return;
      const isName = role === 'legend' || role === 'caption' || (role === 'label' && el.control !== null);
      const inner = isNode ? depth + 1 : depth;
      let text = '';
      const root = el.shadowRoot || el;
      for (let child = root.firstChild; child; child = child.nextSibling) {
        if (child.nodeType === 3) text += isName ? '' : child.data;
        else if (child.nodeType === 1) {
          flush(text, inner);
          text = '';
          if (!isName || child.matches('input,select,textarea,button') || child.querySelector('input,select,textarea')) {
            visit(child, inner);
          }
        }
      }
      flush(text, inner);
    }
    const modal = [...document.querySelectorAll('dialog:modal')].pop();
    const root = modal || document.body || document.documentElement;
    if (root) visit(root, 0);
    const scroller = document.scrollingElement || document.documentElement;
    return JSON.stringify({  // as a text it takes the browser a third of the time to send
      url: cut(location.href), title: cut(document.title), nodes, cut: isCut, dialog: Boolean(modal),
      scroll: [Math.round(scrollX), Math.round(scrollY)],
      kept: assayWalker.capture(),
      size: [scroller ? scroller.scrollWidth : 0, scroller ? scroller.scrollHeight : 0],
    });
  }

  function find(number) {
    const ref = byNumber.get(number);
    const el = ref && ref.deref();
    return el && el.isConnected ? el : null;
  }

  function covers(top, el) {
    if (!top) return false;
    if (top === el || el.contains(top) || top.contains(el)) return true;
    return Boolean(el.labels && [...el.labels].some((label) => label.contains(top)));
  }

  // Returns where an element can be pointed at, or why it cannot.
  function point(number) {
    const el = find(number);
    if (!el) return {error: 'gone'};
    el.scrollIntoViewIfNeeded();
    const box = [...el.getClientRects()].find((rect) => rect.width > 0 && rect.height > 0);
    if (!box) return {error: 'hidden'};
    const x = Math.min(Math.max(box.x + box.width / 2, 0), innerWidth - 1);
    const y = Math.min(Math.max(box.y + box.height / 2, 0), innerHeight - 1);
    const top = document.elementFromPoint(x, y);
    if (!covers(top, el)) return {error: 'covered', by: top ? top.tagName.toLowerCase() : 'nothing'};
    return {x, y};
  }

  // Returns the number of the innermost element at a point that has one.
  function hit(x, y) {
    let el = document.elementFromPoint(x, y);
    while (el && !numbers.has(el)) el = el.parentElement;
    return el ? numbers.get(el) : null;
  }

  // Focuses a text field and selects what it holds; date and similar fields are set at once.
  function prepare(number, text) {
    const el = find(number);
    if (!el) return {error: 'gone'};
    if (el.disabled || el.readOnly) return {error: 'disabled'};
    el.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
    if (el.isContentEditable) {
      el.focus();
      getSelection().selectAllChildren(el);
      return {type: true};
    }
    const isInput = el.tagName === 'INPUT';
    if (isInput && ['date', 'time', 'datetime-local', 'month', 'week', 'color', 'range'].includes(el.type)) {
      el.focus();
      el.value = text;
      if (text && el.value !== text) return {error: 'invalid', kind: el.type};
      el.dispatchEvent(new Event('input', {bubbles: true}));
      el.dispatchEvent(new Event('change', {bubbles: true}));
      return {type: false};
    }
    if (isInput && ['checkbox', 'radio', 'button', 'submit', 'reset', 'image', 'file', 'hidden'].includes(el.type)) {
      return {error: 'not text', kind: el.type};
    }
    if (!isInput && el.tagName !== 'TEXTAREA') return {error: 'not text', kind: el.tagName.toLowerCase()};
    el.focus();
    el.select();
    return {type: true};
  }

  function choose(number, wanted) {
    const el = find(number);
    if (!el) return {error: 'gone'};
    if (el.tagName !== 'SELECT') return {error: 'not a list', kind: el.tagName.toLowerCase()};
    if (el.disabled) return {error: 'disabled'};
    if (wanted.length !== 1 && !el.multiple) return {error: 'one'};
    const options = [...el.options], chosen = [];
    for (const text of wanted) {
      const option = options.find((one) => one.label === text) || options.find((one) => one.value === text);
      if (!option || option.disabled) return {error: 'no option', options: options.slice(0, 100).map((one) => cut(one.label))};
      chosen.push(option);
    }
    for (const option of options) option.selected = chosen.includes(option);
    el.dispatchEvent(new Event('input', {bubbles: true}));
    el.dispatchEvent(new Event('change', {bubbles: true}));
    return {};
  }

  function focus(number) {
    const el = find(number);
    if (!el) return {error: 'gone'};
    el.focus();
    return {};
  }

  function text() {
    const root = [...document.querySelectorAll('dialog:modal')].pop() || document.body;
    return root ? root.innerText.slice(0, 200000) : '';
  }

  // When the second frame after this call begins, everything that the last input led to has been drawn.
  function settled(frames) {
    return new Promise((resolve) => {
      const next = (left) => left ? requestAnimationFrame(() => next(left - 1)) : resolve(true);
      next(frames);
    });
  }

  // Clears what outlives a document in its tab.
  function forget() {
    sessionStorage.clear();
    localStorage.clear();
    window.name = '';
    return true;
  }

  globalThis.assayWalker = {walk, point, hit, prepare, choose, focus, text, settled, giveClipboard, takeClipboard, forget, find,
    covers};
})();
