// Rows of a table, and those that match a search: asked for by a person, and shown as they were then.

import { add, chip, el, fill, problem } from "./dom.js";
import { ask, Refused } from "./live.js";
import { Panel } from "./panel.js";
import { counted, number } from "./text.js";

function cellOf(value) {
  if (value === null) return el("span", { class: "null" }, "null");
  if (typeof value === "string") return value;
  return [value.text, el("span", { class: "cut" }, `… cut: ${number(value.characters)} characters`)];
}

class Asking extends Panel {
  asking(call, fields, label) {
    this.result = el("div", { class: "result", "aria-live": "polite" });
    this.button = el("button", { type: "submit", class: "main" }, label);
    const form = el("form", { class: "ask", autocomplete: "off" }, fields, this.button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.go(call);
    });
    add(this.node, [form, this.result]);
  }

  fresh() {
    this.freshly = el("input", { type: "checkbox" });
    this.freshBox = el("label", { class: "check", hidden: true }, this.freshly, "with rows not merged yet");
    return this.freshBox;
  }

  told(table) {
    this.freshBox.hidden = table.shards === 0;
  }

  async go(call) {
    this.abort?.abort();
    const { signal } = (this.abort = new AbortController());
    this.button.disabled = true;
    try {
      const { document } = await ask(call, { table: this.path, ...this.wanted() }, { signal });
      this.result.replaceChildren();
      add(this.result, [this.shown(document)]);
    } catch (failed) {
      if (!signal.aborted) this.result.replaceChildren(problem(failed instanceof Refused ? failed.error : { kind: "internal", message: String(failed) }));
    } finally {
      if (this.abort.signal === signal) this.button.disabled = false;
    }
  }

  stop() {
    super.stop();
    this.abort?.abort();
  }
}

function labelled(text, input) {
  return el("label", { class: "field" }, el("span", {}, text), input);
}

export class Rows extends Asking {
  constructor(app, path) {
    super(app, path);
    this.where = el("input", { type: "text", placeholder: "a condition: stars >= 4", spellcheck: "false", class: "mono" });
    this.version = el("input", { type: "text", inputmode: "numeric", placeholder: "newest", class: "small" });
    this.limit = el("select", {}, [20, 50, 100, 200].map((count) => el("option", { value: count, selected: count === 50 }, number(count))));
    this.asking("rows", [labelled("Where", this.where), labelled("Version", this.version), labelled("At most", this.limit), this.fresh()], "Show rows");
    if (app.table) this.told(app.table);
    this.go("rows");
  }

  wanted() {
    return { where: this.where.value, version: this.version.value.trim(), limit: this.limit.value, fresh: this.freshly.checked ? 1 : "" };
  }

  shown(document) {
    const rows = document.rows.map((row) => el("tr", {}, row.map((value) => el("td", { class: "mono cell" }, cellOf(value)))));
    const heads = document.columns.map((one) => el("th", { scope: "col", title: one.type }, one.name, el("small", {}, one.type)));
    return [
      el("p", { class: "quiet" }, `${counted(document.rows.length, "row")} of version ${number(document.version)}, in ${number(document.took_ms)} ms`,
        document.notes.map((note) => `; ${note}`)),
      document.rows.length
        ? el("div", { class: "grid wide", tabindex: "0", role: "region", "aria-label": "Rows" },
          el("table", {}, el("caption", { class: "unseen" }, "Rows"), el("thead", {}, el("tr", {}, heads)), el("tbody", {}, rows)))
        : el("p", { class: "nothing" }, "No row matches."),
    ];
  }
}

export class Search extends Asking {
  constructor(app, path) {
    super(app, path);
    this.index = el("select", {});
    this.query = el("input", { type: "search", placeholder: "words, \"a phrase\", +must, -without, begin*, fuzzy~", spellcheck: "false" });
    this.where = el("input", { type: "text", placeholder: "optional condition", spellcheck: "false", class: "mono" });
    this.asking("search", [labelled("Index", this.index), labelled("Words", this.query), labelled("Where", this.where), this.fresh()], "Search");
    this.none = el("p", { class: "nothing", hidden: true }, "This table has no text index. `siltstone index create` makes one.");
    this.node.append(this.none);
    this.told(app.table ?? { shards: 0, columns: [] });
  }

  told(table) {
    super.told(table);
    const found = table.columns.flatMap((column) => column.indexes.map((name) => ({ name, column: column.name })));
    const chosen = this.index.value;
    fill(this.index, found, () => found.map((one) => el("option", { value: one.name }, one.name === one.column ? one.name : `${one.name} (${one.column})`)));
    if (found.some((one) => one.name === chosen)) this.index.value = chosen;
    this.none.hidden = found.length > 0;
    this.index.form.hidden = found.length === 0;
  }

  wanted() {
    return { index: this.index.value, query: this.query.value, where: this.where.value, fresh: this.freshly.checked ? 1 : "", limit: 20 };
  }

  shown(document) {
    const hits = document.hits.map((hit, place) =>
      el("li", {},
        el("div", { class: "hit-head" }, el("span", { class: "quiet" }, `${place + 1}`), chip(hit.score.toFixed(3)),
          document.facts.map((name, at) => el("span", { class: "mono" }, el("span", { class: "quiet" }, `${name}=`), cellOf(hit.facts[at])))),
        el("p", { class: "snippet" }, hit.snippet.map((piece) => (piece.match ? el("mark", {}, piece.text) : piece.text)))));
    return [
      el("p", { class: "quiet" }, `${hits.length === 20 ? "the best " : ""}${counted(hits.length, "row")} of version ${number(document.version)}, in ${number(document.took_ms)} ms`),
      document.not_indexed ? el("p", { class: "quiet" }, document.not_indexed) : [],
      hits.length ? el("ol", { class: "hits" }, hits) : el("p", { class: "nothing" }, "Nothing matches."),
    ];
  }
}
