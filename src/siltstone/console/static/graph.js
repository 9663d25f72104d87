// Tables and their clones, drawn from left to right: parents before children.

import { counted, visible } from "./text.js";

const WIDTH = 210, HEIGHT = 50, GAP_X = 120, GAP_Y = 18, EDGE = 12;

function svg(tag, facts, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(facts)) made.setAttribute(name, value);
  for (const one of children) made.append(one instanceof Node ? one : document.createTextNode(visible(one)));
  return made;
}

const cut = (text, most) => (text.length > most ? `…${text.slice(-most + 1)}` : text);

// How far from a table that comes from no other; edges that lead back are passed over.
function depths(nodes, edges) {
  const found = new Map(nodes.map((one) => [one.uri, 0]));
  for (let turn = 0; turn < nodes.length; turn += 1) {
    let moved = false;
    for (const { parent, child } of edges) {
      const depth = found.get(parent) + 1;
      if (depth > found.get(child) && depth < nodes.length) {
        found.set(child, depth);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return found;
}

function places(nodes, edges) {
  const depth = depths(nodes, edges);
  const columns = [];
  for (const one of nodes) (columns[depth.get(one.uri)] ??= []).push(one);
  const at = new Map();
  let tallest = 0;
  columns.filter(Boolean).forEach((column, number) => {
    // Near their parents, so that lines cross little.
    const want = (one) => {
      const ys = edges.filter((edge) => edge.child === one.uri && at.has(edge.parent)).map((edge) => at.get(edge.parent).y);
      return ys.length ? ys.reduce((sum, y) => sum + y, 0) / ys.length : 0;
    };
    column.sort((a, b) => want(a) - want(b) || (a.uri < b.uri ? -1 : 1));
    column.forEach((one, row) => at.set(one.uri, { x: EDGE + number * (WIDTH + GAP_X), y: EDGE + row * (HEIGHT + GAP_Y) }));
    tallest = Math.max(tallest, column.length);
  });
  const wide = columns.filter(Boolean).length;
  return { at, width: 2 * EDGE + wide * (WIDTH + GAP_X) - GAP_X, height: 2 * EDGE + GAP_Y + tallest * (HEIGHT + GAP_Y) - GAP_Y };
}

export function draw({ nodes, edges }, linkTo) {
  const { at, width, height } = places(nodes, edges);
  const made = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "graph", role: "group", "aria-label": "Clones" });
  for (const edge of edges) {
    const from = at.get(edge.parent), to = at.get(edge.child);
    const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
    const middle = (x1 + x2) / 2;
    if (!edge.clone) {
      // Below the boxes that lie between.
      const low = Math.max(y1, y2) + HEIGHT / 2 + GAP_Y;
      made.append(svg("path", { d: `M${x1} ${y1 + 8}C${x1 + GAP_X} ${low} ${x2 - GAP_X} ${low} ${x2} ${y2 + 8}`, class: "edge past" }));
      continue;
    }
    made.append(svg("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, class: "edge" }));
    made.append(svg("circle", { cx: x2, cy: y2, r: 3, class: "dot" }));
    made.append(svg("text", { x: x2 - 8, y: y2 - 6, class: "edge-text" }, `at version ${edge.version}`));
  }
  for (const one of nodes) {
    const { x, y } = at.get(one.uri);
    const state = one.state === "unreadable" ? "unreadable" : one.path === null ? "not below this root"
      : `version ${one.version}, ${counted(one.rows, "row")}`;
    const box = svg("g", { transform: `translate(${x} ${y})`, class: `node ${one.self ? "self" : ""} ${one.state}` },
      svg("title", {}, one.uri),
      svg("rect", { width: WIDTH, height: HEIGHT, rx: 6 }),
      svg("text", { x: 12, y: 21, class: "name" }, cut(one.path || one.uri.split("/").pop() || one.uri, 28)),
      svg("text", { x: 12, y: 38, class: "state" }, state));
    if (one.path === null || one.self) made.append(box);
    else {
      const link = svg("a", { href: linkTo(one.path) }, box);
      made.append(link);
    }
  }
  return made;
}
