// The console's page: the list of tables, the table that is looked at, and its tabs. Where one is, is in the address.

import { add, bar, chip, el, fill, Grid, Pager, problem, reconcile, say, when } from "./dom.js";
import { Poll } from "./live.js";
import { TABS } from "./panels.js";
import { ago, bytes, counted, number, share } from "./text.js";

const LIST_MS = 3000;
const TABLE_MS = 2000;
const PAGE = 50;

const byId = (name) => document.getElementById(name);
// The token was for the first request; the browser has a cookie from now on.
if (location.search) history.replaceState(null, "", location.pathname + location.hash);

const app = {
  table: null, // what is known of the table that is looked at
  panel: null,
  linkTo: (path, tab = "history") => `#${new URLSearchParams({ table: path, tab })}`,
  state: (answers) => {
    const live = byId("live");
    live.classList.toggle("off", !answers);
    say(live, answers ? "live" : "not connected");
  },
};

function where() {
  const found = new URLSearchParams(location.hash.slice(1));
  const tab = found.get("tab");
  return { path: found.get("table"), tab: TABS.some(([name]) => name === tab) ? tab : "history" };
}

// -- the list of tables --------------------------------------------------------------------------

class List {
  constructor() {
    this.offset = 0;
    this.match = byId("match");
    this.match.addEventListener("input", () => {
      this.offset = 0;
      this.poll.now({ anew: true });
    });
    this.pager = new Pager("Pages of tables", (way) => {
      this.offset = Math.max(0, this.offset + way * PAGE);
      this.poll.now({ anew: true });
    });
    byId("side-pager").append(this.pager.node);
    byId("tables").addEventListener("keydown", (event) => this.move(event));
    this.poll = new Poll("tables", () => ({ offset: this.offset, limit: PAGE, match: this.match.value }), {
      every: LIST_MS, state: app.state,
      got: (found) => this.got(found),
      failed: (error) => fill(byId("side-problem"), error, () => problem(error)),
    });
  }

  got(found) {
    this.found = found;
    say(byId("root"), found.root);
    const said = [...found.refused, ...found.notes.map((note) => ({ kind: "note", message: note }))];
    fill(byId("side-problem"), said, () => said.map(problem));
    this.show();
    const last = Math.min(found.matching, this.offset + PAGE);
    this.pager.show({ text: `${number(this.offset + 1)}–${number(last)} of ${number(found.matching)}`, back: this.offset > 0, next: last < found.matching });
    if (where().path === null && found.total === 1 && !this.match.value) location.replace(app.linkTo(found.tables[0]?.path ?? ""));
    else view.listed(found);
  }

  show() {
    const { path } = where();
    reconcile(byId("tables"), this.found?.tables ?? [], {
      key: (one) => `t ${one.path}`,
      make: () => el("li", {}, el("a", {}, el("span", { class: "name" }), el("span", { class: "sub" }))),
      update: (node, one) => {
        const link = node.firstElementChild;
        link.setAttribute("href", app.linkTo(one.path, where().path === null ? "history" : where().tab));
        if (one.path === path) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
        link.classList.toggle("bad", one.error !== null);
        const name = one.path || this.found.root.split("/").pop();
        link.title = name;
        say(link.children[0], name);
        say(link.children[1], one.error ? one.error.kind : `v${number(one.version)} · ${counted(one.rows, "row")} · ${bytes(one.bytes)}`);
      },
    });
  }

  move(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    const links = [...byId("tables").querySelectorAll("a")];
    const next = links[links.indexOf(document.activeElement) + way];
    if (next) {
      event.preventDefault();
      next.focus();
    }
  }
}

// -- what is in the middle -----------------------------------------------------------------------

class Home {
  constructor() {
    this.grid = new Grid({
      caption: "Tables", key: (one) => `t ${one.path}`, empty: "There is no table here.",
      columns: [
        { title: "Table", show: (one) => [el("a", { href: app.linkTo(one.path) }, one.path || "this root"), " ", one.clone ? chip("clone") : null, one.error ? el("small", { class: "bad-text" }, one.error.message) : null], class: "strong name" },
        { title: "Version", right: true, show: (one) => (one.error ? chip(one.error.kind, "bad") : number(one.version)) },
        { title: "Last change", show: (one) => (one.error ? "" : when(one.time)) },
        { title: "Rows", right: true, show: (one) => (one.error ? "" : number(one.rows)) },
        { title: "Deleted", show: (one) => (one.error ? "" : [bar(one.deleted, one.rows + one.deleted, `${number(one.deleted)} rows are deleted and still in files`, "bad"), ` ${share(one.deleted, one.rows + one.deleted)}`]) },
        { title: "Fragments", right: true, show: (one) => (one.error ? "" : number(one.fragments)) },
        { title: "Size", right: true, show: (one) => (one.error ? "" : bytes(one.bytes)) },
        { title: "Shards", right: true, show: (one) => (one.error ? "" : number(one.shards)) },
        { title: "Indexes", right: true, show: (one) => (one.error ? "" : number(one.indexes)) },
      ],
    });
    this.title = el("h1", {}, "Tables");
    this.node = el("div", {}, el("div", { class: "title" }, this.title), this.grid.node);
  }

  listed(found) {
    say(this.title, counted(found.total, "table"));
    this.grid.show(found.tables);
  }

  stop() {}
}

class TableView {
  constructor(path, tab) {
    this.path = path;
    app.table = null;
    this.heading = el("h1", {}, path || "this root");
    this.uri = el("span", { class: "mono quiet uri" });
    this.origin = el("span", {});
    this.stats = el("dl", { class: "stats", hidden: true });
    this.trouble = el("div");
    this.tabs = TABS.map(([name, label]) =>
      el("a", { role: "tab", id: `tab-${name}`, href: app.linkTo(path, name), "aria-controls": "panel", tabindex: "-1" }, label));
    this.bar = el("div", { class: "tabs", role: "tablist", "aria-label": "What is shown of the table" }, this.tabs);
    this.bar.addEventListener("keydown", (event) => this.move(event));
    this.box = el("div", { class: "panel", role: "tabpanel", id: "panel" });
    this.node = el("div", {}, el("div", { class: "title" }, this.heading, this.uri, this.origin), this.stats, this.trouble, this.bar, this.box);
    this.poll = new Poll("table", () => ({ table: path }), {
      every: TABLE_MS, state: app.state,
      got: (table) => this.got(table),
      failed: (error) => {
        fill(this.trouble, error, () => problem(error));
        // Of a table that could not be opened, the tabs would say the same again.
        if (!app.table) this.bar.hidden = this.box.hidden = this.stats.hidden = true;
      },
    });
    this.choose(tab);
  }

  choose(tab) {
    this.tabs.forEach((one) => {
      const chosen = one.id === `tab-${tab}`;
      one.setAttribute("aria-selected", String(chosen));
      one.setAttribute("tabindex", chosen ? "0" : "-1");
    });
    if (this.tab === tab) return;
    this.tab = tab;
    this.box.setAttribute("aria-labelledby", `tab-${tab}`);
    app.panel?.stop();
    app.panel = new (TABS.find(([name]) => name === tab)[2])(app, this.path);
    this.box.replaceChildren(app.panel.node);
  }

  move(event) {
    const at = this.tabs.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    const tab = this.tabs[(next + this.tabs.length) % this.tabs.length];
    tab.focus();
    tab.click();
  }

  got(table) {
    app.table = table;
    fill(this.trouble, null, () => null);
    this.bar.hidden = this.box.hidden = this.stats.hidden = false;
    say(this.heading, table.path || table.uri.split("/").pop());
    say(this.uri, table.uri);
    fill(this.origin, table.clone_of, () => (table.clone_of ? chip(`clone of ${table.clone_of}`) : null));
    const facts = [
      ["Version", number(table.version), ago(table.time), table.time],
      ["Rows", number(table.rows), table.deleted ? `${share(table.deleted, table.rows + table.deleted)} deleted` : "none deleted"],
      ["Fragments", number(table.fragments), bytes(table.bytes)],
      ["Shards", number(table.shards), table.sharding ? "by key" : table.shards ? "by name" : ""],
      ["Text indexes", number(table.indexes), table.indexed.join(", ")],
      ["Checkpoints", number(table.checkpoints), counted(table.tags.length, "tag")],
      ["Oldest version", number(table.oldest), ""],
    ];
    reconcile(this.stats, facts, {
      key: ([label]) => label,
      make: ([label]) => el("div", {}, el("dt", {}, label), el("dd", {}, el("strong"), el("span"))),
      update: (node, [, value, more, time]) => {
        const [big, small] = node.lastElementChild.children;
        say(big, value);
        if (time) fill(small, time, () => when(time));
        else say(small, more);
        small.title = small.textContent;
      },
    });
    app.panel?.told(table);
  }

  listed() {}

  stop() {
    this.poll.stop();
    app.panel?.stop();
    app.panel = null;
  }
}

const view = {
  now: null,
  go() {
    const { path, tab } = where();
    if (this.now instanceof TableView && this.now.path === path) this.now.choose(tab);
    else if (!(this.now instanceof Home && path === null)) {
      this.now?.stop();
      this.now = path === null ? new Home() : new TableView(path, tab);
      byId("main").replaceChildren(this.now.node);
      window.scrollTo(0, 0);
    }
    document.title = `${path === null ? "tables" : path || "table"} · siltstone console`;
    list?.show();
    if (list?.found) this.listed(list.found);
  },
  listed(found) {
    this.now?.listed(found);
  },
};

let list = null;
window.addEventListener("hashchange", () => view.go());
window.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    byId("match").focus();
  }
});
list = new List();
view.go();
