// Finds where elements are seen, and paints on a picture of the page. The picture is a canvas that belongs to no
// document, in the isolated world: the page holds no trace of it and cannot reach it.
(() => {
  // Returns the box of each element that is seen in the viewport: its number, left, top, width and height.
  function seen(wanted) {
    const boxes = [];
    for (const number of wanted) {
      const el = assayWalker.find(number);
      if (!el) continue;
      const box = el.getBoundingClientRect();
      const left = Math.max(box.left, 0), top = Math.max(box.top, 0);
      const right = Math.min(box.right, innerWidth), bottom = Math.min(box.bottom, innerHeight);
      if (right - left < 1 || bottom - top < 1) continue;
      const places = [[0.5, 0.5], [0.1, 0.2], [0.9, 0.2], [0.1, 0.8], [0.9, 0.8]];
      const isSeen = places.some(([x, y]) => assayWalker.covers(
        document.elementFromPoint(left + x * (right - left), top + y * (bottom - top)), el));
      if (isSeen) boxes.push([number, ...[left, top, right - left, bottom - top].map(Math.round)]);
    }
    return boxes;
  }

  // Paints rectangles (colour, left, top, width, height) on a PNG and returns it without loss in a form
  // (`webp` or `png`), both in base64.
  async function paint(png, rectangles, form) {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], {type: 'image/png'}));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const pen = canvas.getContext('2d', {willReadFrequently: true});  // drawn by the processor, the same each time
    pen.drawImage(image, 0, 0);
    for (const [colour, ...place] of rectangles) {
      pen.fillStyle = colour;
      pen.fillRect(...place);
    }
    image.close();
    const blob = await canvas.convertToBlob({type: `image/${form}`, quality: 1});
    const painted = new Uint8Array(await blob.arrayBuffer());
    let text = '';
    for (let at = 0; at < painted.length; at += 8192) text += String.fromCharCode(...painted.subarray(at, at + 8192));
    return btoa(text);
  }

  Object.assign(assayWalker, {seen, paint});
})();
