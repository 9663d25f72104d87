// Building and updating elements. What is there already stays the same element, so that focus, scroll and what is
// expanded survive every update.

import { ago, clock, visible } from "./text.js";

export function el(tag, facts = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : visible(value));
  }
  add(made, children);
  return made;
}

export function add(parent, children) {
  for (const one of children.flat(Infinity)) {
    if (one === null || one === undefined || one === false) continue;
    parent.append(one instanceof Node ? one : document.createTextNode(visible(one)));
  }
}

export function say(node, text) {
  const shown = visible(text);
  if (node.textContent !== shown) node.textContent = shown;
}

export function when(iso) {
  return el("time", { datetime: iso, title: `${clock(iso)} UTC` }, ago(iso));
}

setInterval(() => {
  for (const one of document.querySelectorAll("time[datetime]")) say(one, ago(one.dateTime));
}, 5000);

// Makes the children of a parent those of some items, by keys.
export function reconcile(parent, items, { key, make, update }) {
  const old = new Map();
  for (const node of parent.children) old.set(node.dataset.key, node);
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    let node = old.get(name);
    if (node === undefined) {
      node = make(item);
      node.dataset.key = name;
    }
    old.delete(name);
    if (update) update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  }
  for (const node of old.values()) node.remove();
}

// Fills a node anew where what it shows has changed.
export function fill(node, sign, make) {
  const signed = JSON.stringify(sign);
  if (node.dataset.sign === signed) return;
  node.dataset.sign = signed;
  node.replaceChildren();
  add(node, [make()]);
}

export function problem(error) {
  return el(
    "div",
    { class: "problem", role: "alert" },
    el("strong", {}, error.kind),
    el("p", {}, error.message),
    error.hint ? el("p", { class: "hint" }, error.hint) : null,
  );
}

export function bar(part, all, label, kind = "") {
  const box = el("span", { class: `bar ${kind}`, role: "img", "aria-label": label, title: label });
  const inside = el("span", {});
  inside.style.width = `${all ? Math.min(100, (100 * part) / all) : 0}%`;
  box.append(inside);
  return box;
}

export const chip = (text, kind = "") => el("span", { class: `chip ${kind}` }, text);

// A table of items: columns have a title and what fills a cell; rows may be opened to show more.
export class Grid {
  constructor({ caption, columns, key, detail, follows, empty, sort, sorted }) {
    // What `detail` shows is made once; with `follows` again where the item has changed.
    Object.assign(this, { columns, key, detail, follows });
    this.open = new Set();
    this.known = null;
    this.items = [];
    this.body = el("tbody");
    const heads = columns.map((one) => this.head(one, sort, sorted));
    if (detail) heads.unshift(el("th", { scope: "col", class: "open" }, el("span", { class: "unseen" }, "details")));
    this.nothing = el("p", { class: "nothing", hidden: true }, empty ?? "nothing");
    this.table = el("table", { hidden: true }, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, heads)), this.body);
    this.node = el("div", { class: "grid" }, this.table, this.nothing);
  }

  head(column, sort, sorted) {
    const facts = { scope: "col", class: column.right ? "right" : "" };
    if (!column.sort) return el("th", facts, column.title);
    const button = el("button", { type: "button", class: "sort", onclick: () => sort(column.sort) }, column.title);
    const made = el("th", facts, button);
    this.marks = [...(this.marks ?? []), () => {
      const now = sorted();
      const order = now === column.sort ? "ascending" : now === `-${column.sort}` ? "descending" : "none";
      made.setAttribute("aria-sort", order);
    }];
    return made;
  }

  show(items) {
    this.items = items;
    for (const mark of this.marks ?? []) mark();
    this.nothing.hidden = items.length > 0;
    this.table.hidden = items.length === 0;
    const rows = items.flatMap((item) => {
      const name = String(this.key(item));
      const row = { name, item, more: false };
      return this.open.has(name) ? [row, { name: `${name} more`, item, more: true }] : [row];
    });
    reconcile(this.body, rows, {
      key: (row) => row.name,
      make: (row) => (row.more ? this.more(row) : this.row(row)),
      update: (node, row) => (row.more ? this.follow(node, row) : this.update(node, row)),
    });
    this.known = new Set(items.map((item) => String(this.key(item))));
  }

  row({ name }) {
    const cells = this.columns.map((one) => el("td", { class: `${one.right ? "right" : ""} ${one.class ?? ""}` }));
    if (this.detail) {
      const button = el("button", {
        type: "button", class: "toggle", "aria-expanded": "false", "aria-label": `Details of ${name}`,
        onclick: () => this.toggle(name, button),
      });
      cells.unshift(el("td", { class: "open" }, button));
    }
    return el("tr", { class: this.known !== null && !this.known.has(name) ? "fresh" : "" }, cells);
  }

  more({ name, item }) {
    const cell = el("td", { colspan: this.columns.length + 1 });
    const made = el("tr", { class: "more", id: `more-${name}` }, cell);
    if (!this.follows) this.detail(cell, item);
    return made;
  }

  follow(node, { item }) {
    if (this.follows) fill(node.firstElementChild, item, () => this.detail(null, item));
  }

  // Another page, or another order: what comes next is not new.
  turn() {
    this.known = null;
  }

  toggle(name, button) {
    if (!this.open.delete(name)) this.open.add(name);
    button.setAttribute("aria-expanded", String(this.open.has(name)));
    this.show(this.items);
  }

  update(node, { name, item }) {
    const sign = JSON.stringify(item);
    if (node.dataset.sign === sign) return;
    node.dataset.sign = sign;
    const first = this.detail ? 1 : 0;
    this.columns.forEach((column, number) => {
      const cell = node.children[number + first];
      const shown = column.show(item);
      if (shown instanceof Node || Array.isArray(shown)) {
        cell.replaceChildren();
        add(cell, [shown]);
      } else say(cell, shown ?? "");
    });
    if (this.detail) node.firstElementChild.firstElementChild.setAttribute("aria-expanded", String(this.open.has(name)));
  }
}

// Two buttons and what is shown between them.
export class Pager {
  constructor(label, move) {
    this.back = el("button", { type: "button", onclick: () => move(-1) }, "‹ Back");
    this.next = el("button", { type: "button", onclick: () => move(1) }, "Next ›");
    this.text = el("span", {});
    this.node = el("div", { class: "pager", role: "group", "aria-label": label, hidden: true }, this.back, this.text, this.next);
  }

  show({ text, back, next }) {
    say(this.text, text);
    this.back.disabled = !back;
    this.next.disabled = !next;
    this.node.hidden = !back && !next;
  }
}
