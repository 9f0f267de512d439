// Reads and restores what a document holds beside its markup: contents of forms, what is open, scroll, focus, storage. It
// runs in the isolated world of `walker.js`. Setting a control fires no event, as scripts of the page saw it before.
(() => {
  const MOST = 1e6, MOST_OPEN = 1e4;
  const scrolled = new WeakSet();
  let hasScrolled = false;
  addEventListener('scroll', (event) => {
    if (!(event.target instanceof Element)) return;
    scrolled.add(event.target);
    hasScrolled = true;
  }, {capture: true, passive: true});

  let outside = null;  // has the focus again when a dialog is closed
  addEventListener('focusin', (event) => {
    if (event.target instanceof Element && !event.target.closest('dialog')) outside = event.target;
  }, {capture: true, passive: true});

  const controls = () => [...document.querySelectorAll('input,select,textarea')];
  const focusable = () => [...document.querySelectorAll('a[href],button,input,select,textarea,summary,dialog,[tabindex]')];
  const everything = () => [...document.querySelectorAll('*')];

  function contentOf(el) {
    if (el.tagName === 'SELECT') {
      const chosen = [...el.options].map((option, at) => option.selected ? at : -1).filter((at) => at >= 0);
      const first = [...el.options].map((option, at) => option.defaultSelected ? at : -1).filter((at) => at >= 0);
      return String(chosen) === String(first) || (!first.length && String(chosen) === '0') ? null : chosen;
    }
    if (el.type === 'checkbox' || el.type === 'radio') return el.checked === el.defaultChecked ? null : el.checked;
    if (el.type === 'file') return null;
    return el.value === el.defaultValue ? null : el.value;
  }

  const given = new WeakMap();  // names, sizes and digests of the files that were chosen by `setFiles`
  const chosenIn = (el) => [...el.files].map((file) => [file.name, file.size]);

  // Files are made here, from bytes: the browser is given no path.
  function setFiles(el, files) {
    const transfer = new DataTransfer();
    for (const [name, type, encoded] of files) {
      const bytes = Uint8Array.from(atob(encoded), (letter) => letter.charCodeAt(0));
      transfer.items.add(new File([bytes], name, {type, lastModified: 0}));
    }
    el.files = transfer.files;
    given.set(el, chosenIn(el).map(([name, size], at) => [name, size, files[at][3]]));
  }

  function upload(number, files) {
    const el = globalThis.assayWalker.find(number);
    if (!el) return {error: 'gone'};
    if (el.type !== 'file' || !el.files) return {error: 'not a file field', kind: el.tagName.toLowerCase()};
    if (el.disabled) return {error: 'disabled'};
    if (files.length > 1 && !el.multiple) return {error: 'one file'};
    setFiles(el, files);
    el.dispatchEvent(new Event('input', {bubbles: true}));
    el.dispatchEvent(new Event('change', {bubbles: true}));
    return {};
  }

  function restoreFiles(at, name, files) {
    const el = controls()[at];
    if (!el || el.name !== name || el.type !== 'file') return false;
    setFiles(el, files);
    return true;
  }

  function entriesOf(name) {
    try {
      const storage = window[name];  // whose keys may be called as its methods are
      return Array.from({length: storage.length}, (_, at) => [storage.key(at), storage.getItem(storage.key(at))]);
    } catch {
      return [];
    }
  }

  function capture() {
    const filled = [], lost = [];
    controls().forEach((el, at) => {
      const content = contentOf(el);
      if (content !== null) filled.push([at, el.name, content]);
    });
    const kept = {filled, scroll: [scrollX, scrollY]};
    const active = document.activeElement;
    if (active && active !== document.body) {
      kept.focus = focusable().indexOf(active);
      kept.ring = active.matches(':focus-visible');
      try {
        kept.selection = [active.selectionStart, active.selectionEnd];
      } catch {
        kept.selection = null;
      }
      if (kept.focus < 0) lost.push('focus');
    }
    const dialogs = [...document.querySelectorAll('dialog')];
    kept.modal = dialogs.map((el, at) => el.matches(':modal') ? at : -1).filter((at) => at >= 0);
    if (kept.modal.length && outside) kept.outside = focusable().indexOf(outside);
    const details = [...document.querySelectorAll('details')];
    kept.open = details.map((el, at) => el.open ? at : -1).filter((at) => at >= 0);
    kept.inner = [];
    if (hasScrolled) {
      everything().forEach((el, at) => {
        if (scrolled.has(el) && (el.scrollTop || el.scrollLeft)) kept.inner.push([at, el.scrollLeft, el.scrollTop]);
      });
    }
    kept.local = entriesOf('localStorage');
    kept.session = entriesOf('sessionStorage');
    if (JSON.stringify(kept).length > MOST) {
      kept.local = kept.session = kept.filled = kept.inner = [];
      lost.push('forms and storage that are too large');
    }
    if (kept.open.length > MOST_OPEN) {
      kept.open = null;  // is left as the markup says
      lost.push('what is open, because it is too much');
    }
    kept.modal.length = Math.min(kept.modal.length, MOST_OPEN);
    if (document.scripts.length) lost.push('state of scripts');
    if (document.querySelector('[contenteditable]')) lost.push('texts in editable elements');
    if (frames.length) lost.push('content of frames');
    kept.files = [];
    controls().forEach((el, at) => {
      if (!el.files || !el.files.length) return;
      const known = given.get(el) || [];
      if (JSON.stringify(known.map(([name, size]) => [name, size])) === JSON.stringify(chosenIn(el))) {
        kept.files.push([at, el.name, known.map(([name, , digest]) => [name, digest])]);
      } else lost.push('chosen files');
    });
    kept.lost = lost;
    return kept;
  }

  function restoreStorage(local, session) {
    for (const [name, value] of local) localStorage.setItem(name, value);
    for (const [name, value] of session) sessionStorage.setItem(name, value);
    return true;
  }

  // Returns what could not be put back.
  function restore(kept) {
    const lost = [], found = controls();
    for (const [at, name, content] of kept.filled) {
      const el = found[at];
      if (!el || el.name !== name) {
        lost.push('a control of a form');
      } else if (Array.isArray(content)) {
        [...el.options].forEach((option, number) => { option.selected = content.includes(number); });
      } else if (typeof content === 'boolean') {
        el.checked = content;
      } else {
        el.value = content;
      }
    }
    if (kept.open) {
      const open = new Set(kept.open);
      [...document.querySelectorAll('details')].forEach((el, at) => { el.open = open.has(at); });
    }
    const dialogs = [...document.querySelectorAll('dialog')];
    if (kept.outside >= 0 && focusable()[kept.outside]) focusable()[kept.outside].focus({preventScroll: true});
    for (const at of kept.modal) {
      if (dialogs[at]) dialogs[at].showModal();
      else lost.push('an open dialog');
    }
    if (kept.focus >= 0) {
      const el = focusable()[kept.focus];
      if (el) {
        if (document.activeElement) document.activeElement.blur();
        el.focus({preventScroll: true, focusVisible: kept.ring});
        try {
          if (kept.selection && kept.selection[0] !== null) el.setSelectionRange(...kept.selection);
        } catch {
          // of a control without a selection
        }
      }
    }
    if (kept.inner.length) {
      const all = everything();
      for (const [at, left, top] of kept.inner) {
        if (all[at]) all[at].scrollTo({left, top, behavior: 'instant'});
      }
    }
    scrollTo({left: kept.scroll[0], top: kept.scroll[1], behavior: 'instant'});
    return lost;
  }

  // Sends an empty form, so that the history holds an entry that was the answer to one.
  function post(address) {
    const form = document.createElement('form');
    form.method = 'post';
    form.action = address;
    document.body.append(form);
    form.submit();
    return true;
  }

  Object.assign(globalThis.assayWalker, {capture, restore, restoreStorage, restoreFiles, upload, post});
})();
