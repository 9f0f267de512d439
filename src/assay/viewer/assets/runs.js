"use strict";
Assay.route("/", async (page) => {
  page.title("Runs");
  const data = await Assay.load("runs");
  Assay.fill(page.root, Assay.h("h1", null, "Runs"), Assay.h("ul", null, data.runs.map((one) =>
    Assay.h("li", null, Assay.h("a", { href: Assay.href("run", one.run) }, Assay.line(one.run))))));
});
