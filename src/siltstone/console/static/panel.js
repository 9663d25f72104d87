// What the panels of a table have in common: they ask for their own documents again and again, and show them.

import { el, fill, Pager, problem } from "./dom.js";
import { Poll } from "./live.js";
import { number } from "./text.js";

export const EVERY_MS = 2000;
export const PAGE = 50;

export class Panel {
  constructor(app, path) {
    Object.assign(this, { app, path });
    this.polls = [];
    this.trouble = el("div");
    this.node = el("div", {}, this.trouble);
  }

  poll(call, params, got, every = EVERY_MS) {
    const made = new Poll(call, () => ({ table: this.path, ...params() }), {
      every,
      got: (document) => {
        fill(this.trouble, null, () => null);
        got(document);
      },
      failed: (error) => fill(this.trouble, error, () => problem(error)),
      state: this.app.state,
    });
    this.polls.push(made);
    return made;
  }

  stop() {
    for (const one of this.polls) one.stop();
  }

  told() {}
}

// Pages of a list by an offset.
export class Paged extends Panel {
  pages(call, more, got) {
    this.offset = 0;
    this.pager = new Pager("Pages", (way) => {
      this.offset = Math.max(0, this.offset + way * PAGE);
      this.grid.turn();
      this.pages_.now({ anew: true });
    });
    this.pages_ = this.poll(call, () => ({ offset: this.offset, limit: PAGE, ...more() }), (document) => {
      const last = Math.min(document.total, this.offset + PAGE);
      if (this.offset >= document.total && this.offset > 0) this.offset = 0;
      const text = `${number(this.offset + 1)} to ${number(last)} of ${number(document.total)}`;
      this.pager.show({ text, back: this.offset > 0, next: last < document.total });
      got(document);
    });
  }
}
