"use strict";
/* Elements, figures for people, and charts. Whatever comes from the report becomes text, never markup. */

function make(tag, attributes, ...children) {
  const drawing = /^(svg|g|path|rect|line|text|title|clipPath)$/.test(tag);
  const element = drawing ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "of") element.style.setProperty("--of", `var(--${value})`);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit++; }
  return `${count.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}
const number = (count) => count.toLocaleString("en-US");
const percent = (part, whole) => (whole ? `${(100 * part / whole).toFixed(1)}%` : "\u2013");
const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

function seconds(time) {
  const places = time === 0 ? 0 : time < 0.01 ? 4 : time < 1 ? 3 : time < 100 ? 1 : 0;
  return `${time.toFixed(places)} s`;
}

/* A time in the unit that a person can grasp. */
function span(ns) {
  const units = ["ns", "\u00b5s", "ms", "s"];
  let unit = 0;
  while (ns >= 1000 && unit < units.length - 1) { ns /= 1000; unit++; }
  return `${ns.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

/* A time or duration as a person would say it: seconds of long ones are left out. */
function clock(time) {
  const whole = Math.floor(time), hours = Math.floor(whole / 3600), minutes = Math.floor(whole / 60) % 60;
  if (whole < 180) return seconds(time);
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/* The axis of times up to `end`: [time, label]. */
function timeTicks(end) {
  const [unit, name] = end < 180 ? [1, "s"] : end < 3 * 3600 ? [60, "min"] : [3600, "h"];
  return ticks(end / unit, false).map((value) => [value * unit, unit === 1 ? seconds(value) : `${+value.toFixed(2)} ${name}`]);
}

/* Some three to six round values from 0 to at most `top`. */
function ticks(top, binary) {
  if (!(top > 0)) return [0];
  let step = binary ? 2 ** Math.floor(Math.log2(top / 3)) : 10 ** Math.floor(Math.log10(top / 3));
  const factors = binary ? [1, 2] : [1, 2, 5];
  step *= factors.find((factor) => top / (step * factor) <= 6) || 10;
  const values = [];
  for (let value = 0; value <= top * 1.0001; value += step) values.push(value);
  return values;
}

/* A box beside the pointer, within its chart. */
function tip(chart) {
  const box = make("div", { class: "tip", role: "status", hidden: true });
  chart.append(box);
  return {
    show(x, y, ...content) {
      box.replaceChildren(...content);
      box.hidden = false;
      const room = chart.clientWidth - box.offsetWidth;
      box.style.left = `${Math.max(0, Math.min(x + 14 > room ? x - box.offsetWidth - 14 : x + 14, room))}px`;
      box.style.top = `${Math.max(0, y)}px`;
    },
    hide() { box.hidden = true; },
  };
}

const swatch = (of, kind) => make("i", { of, class: kind });
const legend = (entries) => make("ul", { class: "legend" },
  entries.map(([of, label, kind]) => make("li", {}, swatch(of, kind), label)));

/* Series over time, in steps. areas are stacked; each of them and of the lines is {of, label, values, dash}. The
 * values of a time hold until the next. Arrow keys move the cursor as a pointer does. */
function timeChart(place, { times, end, areas = [], lines = [], top, tickValues, format, label, height = 220 }) {
  const width = Math.max(280, place.clientWidth), left = 62, bottom = 24, right = 10, above = 8;
  const x = (time) => left + (width - left - right) * (end > 0 ? time / end : 0);
  const y = (value) => height - bottom - (height - bottom - above) * (top > 0 ? Math.min(value / top, 1) : 0);
  const chart = make("div", { class: "chart" });
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img", "aria-label": label });
  for (const value of tickValues) {
    svg.append(make("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
      make("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, format(value)));
  }
  const axis = timeTicks(end), each = Math.ceil(axis.length * 72 / (width - left - right));
  axis.filter((_, i) => i % each === 0).forEach(([value, text]) => svg.append(
    make("text", { x: x(value), y: height - 6, "text-anchor": value === 0 ? "start" : x(value) > width - 40 ? "end" : "middle" }, text)));
  const steps = (values) => values.map((value, i) =>
    `${i ? "H" + x(times[i]).toFixed(1) + "V" : "M" + x(times[i]).toFixed(1) + " "}${y(value).toFixed(1)}`).join("") + `H${x(end).toFixed(1)}`;
  const sums = times.map(() => 0);
  for (const area of areas) {
    const base = sums.slice();
    area.values.forEach((value, i) => { sums[i] += value; });
    let back = "";
    for (let i = base.length - 1; i >= 0; i--)
      back += `V${y(base[i]).toFixed(1)}H${x(times[i]).toFixed(1)}`;
    if (times.length) svg.append(make("path", { d: steps(sums) + back + "Z", fill: `var(--${area.of})`, "fill-opacity": 0.85 }));
  }
  for (const line of lines)
    if (times.length) svg.append(make("path", { d: steps(line.values), fill: "none", stroke: `var(--${line.of})`, "stroke-width": line.dash ? 1.5 : 2, "stroke-dasharray": line.dash ? "5 4" : null }));
  const cursor = make("line", { class: "cursor", y1: above, y2: height - bottom, visibility: "hidden" });
  svg.append(cursor);
  chart.append(svg);
  place.append(chart);
  const box = tip(chart);
  let at = -1;
  const point = (index) => {
    if (!times.length) return;
    at = Math.max(0, Math.min(times.length - 1, index));
    cursor.setAttribute("x1", x(times[at]));
    cursor.setAttribute("x2", x(times[at]));
    cursor.setAttribute("visibility", "visible");
    const rows = [...lines, ...areas.slice().reverse()].map((series) => make("tr", {},
      make("td", {}, swatch(series.of), series.label), make("td", {}, format(series.values[at]))));
    box.show(x(times[at]) * chart.clientWidth / width, above, make("b", {}, `at ${clock(times[at])}`), make("table", {}, rows));
  };
  const leave = () => { box.hide(); cursor.setAttribute("visibility", "hidden"); };
  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    const time = ((event.clientX - bounds.left) / bounds.width * width - left) / (width - left - right) * end;
    let index = times.findIndex((one) => one > time);
    point((index < 0 ? times.length : index) - 1);
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") leave();
    if (move === undefined) return;
    event.preventDefault();
    point(at + move);
  });
}

/* A line as small as a word. */
function sparkline(values, top, label) {
  const width = 110, height = 22;
  const path = values.map((value, i) =>
    `${i ? "L" : "M"}${(i / Math.max(1, values.length - 1) * width).toFixed(1)} ${(height - 1 - (top ? value / top : 0) * (height - 2)).toFixed(1)}`).join("");
  return make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    make("path", { d: path, fill: "none", stroke: "var(--accent)", "stroke-width": 1.5 }));
}

/* Boxes of callers above those that they call. node: {label, title, value, children}. */
function flameGraph(place, root, format, status, zoomOut) {
  const height = 24, total = root.value || 1;
  const chart = make("div", { class: "chart flame" });
  let focus = root, active = root, box = null;
  const depthOf = (node) => 1 + Math.max(0, ...node.children.map(depthOf));
  const depth = depthOf(root);
  const link = (node) => node.children.forEach((child) => { child.parent = node; link(child); });
  link(root);
  place.append(chart);
  const zoom = (node) => { focus = active = node; draw(true); };
  const say = (node) => {
    status.textContent = `${node.label}: ${format(node.value)}, ${percent(node.value, total)}`;
  };
  const move = (node, key) => {
    const siblings = node.parent ? node.parent.children : [node], at = siblings.indexOf(node);
    return { ArrowUp: node.parent, ArrowDown: node.children[0], ArrowLeft: siblings[at - 1], ArrowRight: siblings[at + 1] }[key];
  };
  function draw(refocus) {
    const width = Math.max(280, place.clientWidth);
    const svg = make("svg", { viewBox: `0 0 ${width} ${depth * height}`, role: "group", "aria-label": "Flame graph; arrow keys move, Enter zooms" });
    chart.replaceChildren(svg);
    box = tip(chart);
    const add = (node, x, size, level, muted) => {
      if (size < 0.4) return;
      const room = Math.floor((size - 10) / 6.9);
      const text = room < 3 ? "" : node.label.length > room ? `${node.label.slice(0, room - 1)}\u2026` : node.label;
      const tint = muted ? 0.12 : 0.3 + 0.08 * (node.label.length % 4);
      const group = make("g", { role: "button", tabindex: node === active ? 0 : -1, "aria-label": `${node.label}, ${format(node.value)}, ${percent(node.value, total)}` },
        make("rect", { x, y: level * height, width: size, height, rx: 2, "fill-opacity": tint }),
        text && make("text", { x: x + 6, y: level * height + 16 }, text));
      group.addEventListener("click", () => zoom(node));
      group.addEventListener("focus", () => { active = node; say(node); });
      group.addEventListener("pointermove", (event) => {
        const bounds = chart.getBoundingClientRect();
        box.show(event.clientX - bounds.left, (level + 1) * height + 4, make("b", {}, node.label), make("div", {}, `${format(node.value)}, ${percent(node.value, total)}`),
          node.title ? make("div", { class: "quiet" }, node.title) : "");
      });
      group.addEventListener("pointerleave", () => box.hide());
      group.addEventListener("keydown", (event) => {
        const next = move(node, event.key);
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(node); }
        else if (event.key === "Escape") zoom(root);
        else if (next) { event.preventDefault(); active = next; if (next.group && next.group.isConnected) next.group.focus(); else zoom(next); }
      });
      node.group = group;
      svg.append(group);
      if (node === active && refocus) group.focus({ preventScroll: true });
    };
    const below = (node, x, size, level) => {
      add(node, x, size, level, false);
      let from = x;
      for (const child of node.children) {
        const part = node.value ? size * child.value / node.value : 0;
        if (part >= 0.4) below(child, from, part, level + 1);
        from += part;
      }
    };
    const callers = [];
    for (let node = focus.parent; node; node = node.parent) callers.unshift(node);
    callers.forEach((node, level) => add(node, 0, width, level, true));
    below(focus, 0, width, callers.length);
    zoomOut.hidden = focus === root;
  }
  zoomOut.onclick = () => zoom(root);
  status.textContent = "";
  draw(false);
}

/* Blocks by address, as lines of text are: a row goes on in the next. blocks: {address, bytes, idle, title}. */
function stripMap(place, blocks) {
  const width = Math.max(280, place.clientWidth), row = 26, gap = 6;
  const total = blocks.reduce((sum, block) => sum + block.bytes, 0) || 1;
  const rows = Math.max(1, Math.min(8, Math.ceil(blocks.length / (width / 14))));
  const scale = width * rows / total;
  const chart = make("div", { class: "chart strip" });
  const svg = make("svg", { viewBox: `0 0 ${width} ${rows * (row + gap)}`, tabindex: 0, role: "img",
    "aria-label": `${plural(blocks.length, "block")} by address, ${blocks.filter((block) => block.idle).length} of them idle` });
  chart.append(svg);
  place.append(chart);
  const box = tip(chart);
  let shown = -1, from = 0;
  const pieces = blocks.map((block) => {
    const list = [], end = Math.min(from + block.bytes * scale, width * rows);
    for (let at = from; at < end - 0.01;) {
      const line = Math.min(rows - 1, Math.floor(at / width + 1e-9)), stop = Math.min(end, (line + 1) * width);
      list.push(make("rect", { x: at - line * width, y: line * (row + gap), width: Math.max(0.5, stop - at), height: row, fill: `var(--${block.idle ? "idle" : "live"})`, class: stop - at < 3 ? "small" : null }));
      if (stop <= at) break;
      at = stop;
    }
    from = end;
    svg.append(...list);
    return list;
  });
  const leave = () => { if (shown >= 0) pieces[shown].forEach((piece) => piece.classList.remove("on")); shown = -1; box.hide(); };
  const point = (index) => {
    leave();
    if (!pieces[index] || !pieces[index].length) return;
    shown = index;
    pieces[index].forEach((piece) => { piece.classList.add("on"); svg.append(piece); });
    const piece = pieces[index][0], ratio = chart.clientWidth / width;
    box.show(+piece.getAttribute("x") * ratio, (+piece.getAttribute("y") + row + 4) * ratio, make("b", {}, `${bytes(blocks[index].bytes)} ${blocks[index].idle ? "idle" : "live"}`),
      make("div", { class: "code" }, `0x${blocks[index].address.toString(16)}`), make("div", {}, blocks[index].title));
  };
  pieces.forEach((list, index) => list.forEach((piece) => piece.addEventListener("pointerenter", () => point(index))));
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") leave();
    if (!move) return;
    event.preventDefault();
    point(Math.max(0, Math.min(pieces.length - 1, shown + move)));
  });
}
