// What is shown of one table: a panel for each tab. A panel asks for its own documents, and shows them.

import { add, bar, chip, el, fill, Grid, Pager, problem, say, when } from "./dom.js";
import { draw } from "./graph.js";
import { ask, Refused } from "./live.js";
import { EVERY_MS, PAGE, Paged, Panel } from "./panel.js";
import { Rows, Search } from "./rows.js";
import { bytes, clock, counted, number, share, short } from "./text.js";

// -- history -------------------------------------------------------------------------------------

const SIGNS = { "+": "added", "-": "removed", "~": "changed" };

function changes(document) {
  const groups = document.changes.map((group) =>
    el("section", { class: "change" },
      el("h4", {}, group.kind, " ", el("span", { class: "quiet" }, number(group.total))),
      el("ul", {}, group.items.map((item) =>
        el("li", { class: SIGNS[item.sign] },
          el("span", { class: "sign", title: SIGNS[item.sign] }, item.sign === "-" ? "−" : item.sign),
          el("span", { class: "mono", title: item.name }, short(item.name)),
          el("span", { class: "quiet" }, item.detail)))),
      group.total > group.items.length ? el("p", { class: "quiet" }, `and ${number(group.total - group.items.length)} more`) : null));
  return el("div", { class: "diff" },
    document.message ? el("p", { class: "message" }, document.message) : null,
    document.note ? el("p", { class: "quiet" }, document.note) : null,
    (document.flags ?? []).map((one) => chip(one)),
    groups.length ? el("div", { class: "changes" }, groups) : el("p", { class: "quiet" }, "This version changed nothing."),
    el("dl", { class: "facts" },
      el("dt", {}, "recorded"), el("dd", {}, `${clock(document.recorded)} UTC`),
      el("dt", {}, "operation id"), el("dd", { class: "mono" }, document.op),
      el("dt", {}, "digest"), el("dd", { class: "mono" }, document.digest)));
}

const signed = (sign, count) => (count ? el("span", { class: SIGNS[sign] }, `${sign === "-" ? "−" : sign}${number(count)} `) : null);

export class History extends Panel {
  constructor(app, path) {
    super(app, path);
    this.before = [];
    this.grid = new Grid({
      caption: "Versions, the newest first", key: (one) => one.version, empty: "There are no versions.",
      columns: [
        { title: "Version", right: true, show: (one) => number(one.version), class: "strong" },
        { title: "When", show: (one) => when(one.time) },
        { title: "Operation", show: (one) => chip(one.operation, `op-${one.operation}`) },
        { title: "Rows", show: (one) => [signed("+", one.inserted), signed("~", one.updated), signed("-", one.deleted)] },
        { title: "Fragments", show: (one) => [signed("+", one.fragments_added), signed("-", one.fragments_removed)] },
        { title: "Shards", show: (one) => (one.shards.length ? counted(one.shards.length, "shard") : "") },
        { title: "Names", show: (one) => [(one.tags ?? []).map((name) => chip(name, "tag")), (one.checkpoints ?? []).map((name) => chip(name, "kept")), one.pins ? chip(`kept for ${counted(one.pins, "clone")}`, "kept") : null] },
        { title: "Message", show: (one) => (one.message || one.once.length ? el("span", { title: one.message || one.once.join(", ") }, one.message || one.once.join(", ")) : ""), class: "brief" },
      ],
      detail: (cell, one) => this.more(cell, one.version),
    });
    this.pager = new Pager("Pages of versions", (way) => {
      if (way > 0) this.before.push(this.next);
      else this.before.pop();
      this.grid.turn();
      this.page.now({ anew: true });
    });
    add(this.node, [this.grid.node, this.pager.node]);
    this.page = this.poll("history", () => ({ before: this.before.at(-1), limit: PAGE }), (document) => {
      this.next = document.before;
      this.grid.show(document.versions);
      const text = `versions ${number(document.oldest)} to ${number(document.newest)}`;
      this.pager.show({ text, back: this.before.length > 0, next: document.before !== null });
    });
  }

  async more(cell, version) {
    add(cell, [el("p", { class: "quiet" }, "reading …")]);
    try {
      const { document } = await ask("version", { table: this.path, version });
      cell.replaceChildren(changes(document));
    } catch (failed) {
      cell.replaceChildren(problem(failed instanceof Refused ? failed.error : { kind: "internal", message: String(failed) }));
    }
  }
}

// -- columns, tags, settings ---------------------------------------------------------------------

export class Columns extends Panel {
  constructor(app, path) {
    super(app, path);
    this.grid = new Grid({
      caption: "Columns", key: (one) => one.id, empty: "There are no columns.",
      columns: [
        { title: "Column", show: (one) => one.name, class: "strong mono long" },
        { title: "Type", show: (one) => one.type, class: "mono long" },
        { title: "Key", show: (one) => (one.key ? chip("key", "tag") : "") },
        { title: "Nulls", show: (one) => (one.nullable ? "allowed" : "none") },
        { title: "In earlier rows", show: (one) => one.default ?? "" },
        { title: "Text index", show: (one) => one.indexes.map((name) => chip(name)) },
      ],
    });
    this.cut = el("p", { class: "quiet" });
    this.tags = new Grid({
      caption: "Tags", key: (one) => one.name, empty: "There are no tags.",
      columns: [{ title: "Tag", show: (one) => chip(one.name, "tag") }, { title: "Version", right: true, show: (one) => number(one.version) }],
    });
    this.settings = new Grid({
      caption: "Settings", key: (one) => one.name, empty: "Nothing was set.",
      columns: [{ title: "Setting", show: (one) => one.name, class: "mono" }, { title: "Value", show: (one) => one.value, class: "mono long" }],
    });
    add(this.node, [this.grid.node, this.cut,
      el("div", { class: "columns" },
        el("section", {}, el("h3", {}, "Tags"), this.tags.node), el("section", {}, el("h3", {}, "Settings"), this.settings.node))]);
    if (this.app.table) this.told(this.app.table);
  }

  told(table) {
    this.grid.show(table.columns);
    this.tags.show(table.tags);
    this.settings.show(table.settings);
    say(this.cut, table.columns_total > table.columns.length ? `the first ${number(table.columns.length)} of ${number(table.columns_total)} columns` : "");
  }
}

// -- fragments -----------------------------------------------------------------------------------

export class Fragments extends Paged {
  constructor(app, path) {
    super(app, path);
    this.sort = "-name";
    this.total = el("p", { class: "quiet" });
    this.grid = new Grid({
      caption: "Fragments", key: (one) => one.name, empty: "There are no fragments: the table has no rows.",
      sorted: () => this.sort,
      sort: (name) => {
        this.sort = this.sort === `-${name}` ? name : `-${name}`;
        this.offset = 0;
        this.grid.turn();
        this.pages_.now({ anew: true });
      },
      columns: [
        { title: "Fragment", sort: "name", show: (one) => el("span", { title: one.name }, short(one.name)), class: "mono" },
        { title: "Since version", right: true, show: (one) => number(one.since) },
        { title: "Rows", sort: "rows", right: true, show: (one) => number(one.rows) },
        { title: "Size", sort: "bytes", right: true, show: (one) => el("span", { title: `${number(one.bytes)} bytes` }, bytes(one.bytes)) },
        { title: "Deleted", sort: "deleted", show: (one) => [bar(one.deleted, one.rows, `${number(one.deleted)} of ${counted(one.rows, "row")} deleted`, "bad"), ` ${share(one.deleted, one.rows)}`] },
        { title: "Keys from", show: (one) => one.low ?? "", class: "mono long" },
        { title: "to", show: (one) => one.high ?? "", class: "mono long" },
        { title: "In table", show: (one) => one.origin ?? "", class: "long" },
      ],
    });
    this.pages("fragments", () => ({ sort: this.sort }), (document) => {
      this.grid.show(document.fragments);
      say(this.total, `${counted(document.total, "fragment")}, ${bytes(document.bytes)}, ${counted(document.rows, "row")}, ${share(document.deleted, document.rows)} of them deleted`);
    });
    add(this.node, [this.total, this.grid.node, this.pager.node]);
  }
}

// -- shards --------------------------------------------------------------------------------------

export class Shards extends Paged {
  constructor(app, path) {
    super(app, path);
    this.total = el("p", { class: "quiet" });
    this.grid = new Grid({
      caption: "Shards", key: (one) => one.name, empty: "This table has no shards.",
      columns: [
        { title: "Shard", show: (one) => one.name, class: "mono strong" },
        { title: "State", show: (one) => chip(one.state, one.error ? "bad" : "") },
        { title: "Epoch", right: true, show: (one) => number(one.epoch) },
        { title: "Writer", show: (one) => [one.writer ?? "", one.claimed ? [" ", when(one.claimed)] : ""] },
        { title: "WAL lag", right: true, show: (one) => number(one.lag) },
        { title: "In the WAL alone", right: true, show: (one) => (one.tail_rows === null ? "many" : one.tail_rows === undefined ? "–" : `${counted(one.tail_rows, "row")}, ${bytes(one.tail_bytes)}`) },
        { title: "Flushed", right: true, show: (one) => (one.flushed_files === undefined ? "–" : `${counted(one.flushed_rows, "row")}, ${bytes(one.flushed_bytes)}`) },
        { title: "Merged of WAL", right: true, show: (one) => (one.wal_end === undefined ? number(one.merged_until) : `${number(one.merged_until)} of ${number(one.wal_end)}`) },
      ],
      follows: true,
      detail: (_, one) => this.more(one),
    });
    this.pages("shards", () => ({}), (document) => {
      this.grid.show(document.shards);
      say(this.total, document.total ? `${counted(document.total, "shard")}; not in the table yet: ${counted(document.waiting_rows, "row")}, ${counted(document.waiting_entries, "entry")} of WALs not flushed` : "");
    });
    add(this.node, [this.total, this.grid.node, this.pager.node]);
  }

  more(one) {
    if (one.error) return problem(one.error);
    return el("div", { class: "diff" },
      one.last_error ? el("p", { class: "bad-text" }, `last error: ${one.last_error}`) : null,
      el("dl", { class: "facts" },
        el("dt", {}, "next generation"), el("dd", {}, number(one.generation)),
        el("dt", {}, "replayed from"), el("dd", {}, number(one.replay_from)),
        el("dt", {}, "kept for checkpoints"), el("dd", {}, number(one.pins)),
        el("dt", {}, "WAL store"), el("dd", {}, one.wal ?? "the table's own")),
      el("h4", {}, "Flushed generations that wait to be merged"),
      one.generations?.length
        ? el("ul", { class: "plain" }, one.generations.map((made) =>
          el("li", {}, `generation ${number(made.generation)}: ${counted(made.rows, "row")}, ${bytes(made.bytes)}, positions ${number(made.first)} to ${number(made.until - 1)}`)))
        : el("p", { class: "quiet" }, "none"));
  }
}

// -- indexes -------------------------------------------------------------------------------------

function words(analyzer) {
  const said = [analyzer.tokenizer === "ngram" ? `ngram ${analyzer.ngram_min} to ${analyzer.ngram_max}` : analyzer.tokenizer];
  if (analyzer.stem || analyzer.stop_words) said.push(analyzer.language);
  if (!analyzer.positions) said.push("no positions");
  return said.join(", ");
}

export class Indexes extends Panel {
  constructor(app, path) {
    super(app, path);
    this.grid = new Grid({
      caption: "Text indexes", key: (one) => one.name, empty: "This table has no text index.",
      columns: [
        { title: "Index", show: (one) => one.name, class: "strong mono" },
        { title: "Column", show: (one) => one.column, class: "mono long" },
        { title: "Words", show: (one) => words(one.analyzer) },
        { title: "Coverage", show: (one) => {
          const all = one.indexed_rows + one.unindexed_rows;
          return [bar(one.indexed_rows, all, `${number(one.indexed_rows)} of ${counted(all, "row")} indexed`, "good"), ` ${all ? share(one.indexed_rows, all) : "no rows"}`];
        } },
        { title: "Indexed", right: true, show: (one) => number(one.indexed_rows) },
        { title: "Not yet", right: true, show: (one) => (one.unindexed_rows ? `${counted(one.unindexed_rows, "row")} in ${counted(one.unindexed_fragments, "fragment")}` : "0") },
        { title: "Segments", right: true, show: (one) => number(one.segments) },
        { title: "Parts", right: true, show: (one) => number(one.parts) },
        { title: "Size", right: true, show: (one) => bytes(one.bytes) },
      ],
    });
    add(this.node, [this.grid.node, el("p", { class: "quiet" }, "Rows that are not indexed yet are found too, by reading their texts.")]);
    this.poll("indexes", () => ({}), (document) => this.grid.show(document.indexes));
  }
}

// -- checkpoints and clones ----------------------------------------------------------------------

export class Lineage extends Paged {
  constructor(app, path) {
    super(app, path);
    this.graph = el("div", { class: "grid graph-box", tabindex: "0", role: "region", "aria-label": "Clones" });
    this.grid = new Grid({
      caption: "Checkpoints", key: (one) => one.name, empty: "There are no checkpoints.",
      columns: [
        { title: "Checkpoint", show: (one) => chip(one.name, "kept") },
        { title: "Version", right: true, show: (one) => number(one.version) },
        { title: "Scope", show: (one) => (one.scope === "all" ? "all rows in the version" : `version and ${counted(one.shards, "shard")}`) },
        { title: "Made", show: (one) => when(one.created) },
        { title: "Kept until", show: (one) => (one.expires ? when(one.expires) : "for ever") },
        { title: "State", show: (one) => (one.pending ? chip("not ended", "bad") : one.expires && Date.parse(one.expires) < Date.now() ? chip("over") : chip("kept", "good")) },
        { title: "Held by the clone", show: (one) => one.holder ?? "", class: "long" },
      ],
    });
    this.pages("checkpoints", () => ({}), (document) => this.grid.show(document.checkpoints));
    add(this.node, [el("h3", {}, "Clones"), this.graph, el("h3", {}, "Checkpoints"), this.grid.node, this.pager.node]);
    this.poll("lineage", () => ({}), (document) =>
      fill(this.graph, document, () => [
        document.edges.length ? [draw(document, app.linkTo), el("p", { class: "quiet legend" }, "Lines lead from a table to its clones. Dashed: reads files of it, or is kept for it, without being made from it.")] : el("p", { class: "nothing" }, "Nothing was cloned from this table, and it is no clone."),
        document.cut ? el("p", { class: "quiet" }, `the first ${number(document.nodes.length)} tables`) : null,
      ]), 2 * EVERY_MS);
  }
}

// -- health --------------------------------------------------------------------------------------

export class Health extends Panel {
  constructor(app, path) {
    super(app, path);
    this.cards = el("div", { class: "cards" });
    this.node.append(this.cards);
    this.poll("health", () => ({}), (document) => this.show(document), 2 * EVERY_MS);
  }

  show(document) {
    const { store, commits } = document;
    const requests = Object.entries(store.requests).map(([verb, count]) => `${number(count)} ${verb}`).join(", ");
    this.card("store", "Store", store.ok, store.ok ? "answers" : "does not answer", [
      ["where", store.uri], ["kind", store.kind],
      ["a read takes", store.ok ? `${store.read_ms} ms` : "–"], ["a listing takes", store.ok ? `${store.list_ms} ms` : "–"],
      ["creates an object only once", store.known_good ? "its provider is known for it" : "not known; `siltstone check-store` tries it"],
      ["asked by this console", `${requests}; ${bytes(store.bytes_in)} read`],
    ], store.error);
    this.card("decides", "Who decides versions", true, document.decides, [
      ["guarded by", document.guard_says || document.guard], ["published", document.publish_says || document.publish],
      ["a look at the log counts for", `${number(document.trust_ms / 1000)} s`],
      ...(document.commits_uri ? [["commit store", document.commits_uri]] : []),
    ]);
    if (commits) {
      this.card("commits", "Commit store", commits.ok, commits.ok === null ? "not looked at" : commits.ok ? "answers" : "a problem", [
        ...(commits.uri ? [["where", commits.uri]] : []), ...(commits.read_ms === undefined ? [] : [["a look-up takes", `${commits.read_ms} ms`]]),
        ...(commits.says ? [["says", commits.says]] : []),
      ], commits.error);
    }
  }

  card(name, title, ok, verdict, facts, error) {
    let card = this.cards.querySelector(`[data-card="${name}"]`);
    if (!card) {
      card = el("section", { class: "card", "data-card": name }, el("h3", {}, title), el("div", {}), el("dl", { class: "facts" }), el("div", {}));
      this.cards.append(card);
    }
    const [, verdictBox, list, trouble] = card.children;
    fill(verdictBox, [ok, verdict], () => chip(verdict, ok === null ? "" : ok ? "good" : "bad"));
    fill(trouble, error ?? null, () => (error ? problem(error) : null));
    // Only texts change from time to time: the same elements keep what is selected.
    if (list.children.length !== 2 * facts.length) list.replaceChildren(...facts.flatMap(() => [el("dt"), el("dd")]));
    facts.forEach(([label, value], at) => {
      say(list.children[2 * at], label);
      say(list.children[2 * at + 1], value);
    });
  }
}

export const TABS = [
  ["history", "History", History], ["columns", "Columns", Columns], ["rows", "Rows", Rows], ["search", "Search", Search],
  ["fragments", "Fragments", Fragments], ["shards", "Shards", Shards], ["indexes", "Indexes", Indexes],
  ["lineage", "Checkpoints & clones", Lineage], ["health", "Health", Health],
];
