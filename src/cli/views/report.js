/* The page: what of the report goes where. */
const data = JSON.parse(document.getElementById("data").textContent);
const about = data.about;
const at = (id) => document.getElementById(id);
/* What can be shown: the sum of all runs, if there are several, and the first runs by themselves. */
const choices = data.pages.map((report, i) => ({ report, stacks: about.stacks[i], run: i }));
if (data.merged) choices.unshift({ report: data.merged, stacks: about.stacks[data.pages.length], run: -1 });
let shown = choices[0];
let order = { column: 3, down: true };
let everySite = false;

const programOf = (path) => path.split("/").pop() || "(unknown program)";
const runName = (run) => `${programOf(run.command)}, process ${run.pid}${run.host ? ` on ${run.host}` : ""}${run.rank >= 0 ? `, rank ${run.rank}` : ""}`;

function drawHead() {
  const { report } = shown, process = report.process;
  const title = programOf(process.command) + (shown.run < 0 ? `, ${report.runs} runs` : "");
  document.title = `${title} \u2013 poolcuda report`;
  at("title").textContent = title;
  const parts = [process.command];
  if (shown.run >= 0) {
    parts.push(`process ${process.pid}`, clock(process.last_ns / 1e9), new Date(process.start_wall_ns / 1e6).toISOString().slice(0, 19).replace("T", " ") + " UTC");
    if (process.rank !== null) parts.splice(2, 0, `rank ${process.rank}`);
    if (!process.finished) parts.push("running or killed");
  }
  if (process.host) parts.push(`on ${process.host}`);
  at("subtitle").textContent = parts.join(" \u00b7 ");
  at("options").replaceChildren(...(process.options ? [make("code", {}, process.options)] : []));
  at("footer").textContent = `Written by poolcuda ${report.poolcuda}. Bytes are in powers of 1024.`;
  at("notes").replaceChildren(...about.notes.map((note) => make("p", { class: "note" }, note)));
  at("shortage").hidden = !process.shortage;
  at("shortage").lastElementChild.textContent = process.shortage;
}

/* What was gained: the time, where calls of this run tell what a call takes, and the counts. */
function drawGain() {
  const c = shown.report.counters, saved = shown.report.time_saved;
  const kinds = [["allocation", c.driver_allocs], ["free", c.driver_frees]].map(([name, made]) => {
    const { avoided, priced, timed, device_ns, host_ns, managed_ns } = saved[name];
    return { name, made, avoided, priced, timed, ns: device_ns + host_ns + managed_ns };
  });
  const ns = kinds.reduce((sum, kind) => sum + kind.ns, 0), avoided = kinds.reduce((sum, kind) => sum + kind.avoided, 0);
  const priced = kinds.reduce((sum, kind) => sum + kind.priced, 0), rest = Math.max(0, avoided - priced);
  const basis = (kind) => (!kind.avoided ? "none avoided" : kind.priced
    ? `at least ${span(kind.ns)}${kind.priced < kind.avoided ? ` for ${number(kind.priced)} of them` : ""}, judging by ${number(kind.timed)} that ${kind.timed === 1 ? "was" : "were"} made`
    : `time not measured: ${!kind.made ? "the run made none" : kind.name === "free" && !kind.timed ? "those made may have waited" : !kind.timed ? "none was timed"
      : kind.timed === 1 ? "the only one timed tells too little" : "those timed were too few, larger, or of other memory"}`);
  const made = c.free_waited + c.waits_paid + c.fences_waited;
  const spared = Math.max(0, c.waits_owed - c.waits_paid) + Math.max(0, c.free_deferred - c.async_frees);
  const cards = kinds.map((kind) => [`Driver ${kind.name}s avoided`, number(kind.avoided), basis(kind)]);
  cards.push(["Hit rate", percent(c.malloc_hits, c.malloc_calls), `${number(c.malloc_hits)} of ${plural(c.malloc_calls, "allocation")}`]);
  if (made || spared) cards.push(["Waits for the device spared", number(spared), `${number(made)} made${c.wait_ns ? `, ${span(c.wait_ns)} in all` : ""}; not counted as time saved`]);
  at("gain").replaceChildren(
    make("div", { class: "saved" }, make("b", {}, priced ? `\u2265 ${span(ns)}` : avoided ? number(avoided) : "Nothing"),
      make("span", {}, priced ? `saved by ${plural(priced, "driver call")} avoided${rest ? `; ${number(rest)} more avoided calls are not in it, as their time was not measured` : ""}`
        : avoided ? "driver calls avoided; the time saved was not measured" : "saved: no driver call was avoided")),
    make("dl", { class: "facts" }, cards.map(([name, value, more]) => make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, more))))));
}

function drawEquation() {
  const c = shown.report.counters;
  const terms = [["live", "in_use_bytes", "in use by the program"], ["idle", "idle_bytes", "idle, kept for reuse"],
    ["waste", "waste_bytes", "waste: beyond what was asked"], ["ink", "held_bytes", "held from the driver"]];
  const row = terms.flatMap(([of, name, label], i) => [
    i ? make("div", { class: "sign", "aria-hidden": "true" }, i === 3 ? "=" : "+") : null,
    make("div", { class: "term", of }, make("b", {}, bytes(c[name])), make("span", {}, label), make("span", { class: "exact" }, `${number(c[name])} bytes`))]);
  const whole = Math.max(c.peak_held_bytes, c.held_bytes, 1);
  const bar = make("div", { class: "bar", role: "img", "aria-label": `${percent(c.held_bytes, whole)} of the peak is held` },
    terms.slice(0, 3).map(([of, name]) => { const part = make("i", { of }); part.style.width = `${100 * c[name] / whole}%`; return part; }));
  const facts = [
    ["Peak live", bytes(c.peak_live_bytes), data.merged && shown.run < 0 ? "each run's by itself" : "in use and waste"],
    ["Peak held", bytes(c.peak_held_bytes), c.peak_live_bytes ? `${(c.peak_held_bytes / c.peak_live_bytes).toFixed(2)} \u00d7 peak live` : ""],
    ["Driver calls made", number(c.driver_allocs + c.driver_frees), `${number(c.driver_allocs)} allocations, ${number(c.driver_frees)} frees`],
    ["Frees that waited", number(c.free_waited), `of ${number(c.free_calls)}`],
    ["Fragmented", c.idle_bytes && c.largest_idle_bytes && c.largest_idle_bytes <= c.idle_bytes ? percent(c.idle_bytes - c.largest_idle_bytes, c.idle_bytes) : "\u2013",
      c.idle_blocks ? plural(c.idle_blocks, "idle block") : "nothing idle"],
  ];
  const ended = shown.run < 0 ? about.runs : [about.runs[shown.run]];
  const leaked = ended.reduce((sum, run) => sum + run.leaked_bytes, 0), leakedBlocks = ended.reduce((sum, run) => sum + run.leaked_blocks, 0);
  if (leakedBlocks) facts.push(["Leaked at exit", make("span", { class: "bad" }, bytes(leaked)), plural(leakedBlocks, "block")]);
  at("equation").replaceChildren(make("div", { class: "terms" }, row), bar,
    make("p", { class: "quiet" }, `The bar's whole width is the peak held, ${bytes(whole)}.`),
    make("dl", { class: "facts" }, facts.map(([name, value, more]) => make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, more))))));
}

const heldOf = (sample) => sample[1] + sample[2] + sample[3];

function drawMemory() {
  const place = at("memory").querySelector(".body");
  place.replaceChildren();
  const devices = shown.report.devices.filter((device) => device.samples.length);
  if (!devices.length) place.append(make("p", { class: "quiet" }, shown.run < 0 ? "Histories are not added up: choose a run above." : "Nothing was allocated."));
  for (const device of devices) {
    const samples = device.samples, peak = Math.max(...samples.map(heldOf), 1);
    const near = device.capacity_bytes < 3 * peak, top = (near ? Math.max(device.capacity_bytes, peak) : peak) * 1.05;
    const column = (i) => samples.map((sample) => sample[i]);
    const lines = [{ of: "ink", label: "held", values: samples.map(heldOf) }];
    if (near) lines.push({ of: "quiet", label: "capacity", values: samples.map(() => device.capacity_bytes), dash: true });
    if (shown.report.devices.length > 1) place.append(make("h3", {}, `Device ${device.device}`));
    timeChart(place, {
      times: samples.map((sample) => sample[0] / 1e9), end: Math.max(shown.report.process.last_ns, samples[samples.length - 1][0]) / 1e9, top, lines,
      areas: [{ of: "live", label: "in use", values: column(1) }, { of: "waste", label: "waste", values: column(3) }, { of: "idle", label: "idle", values: column(2) }],
      tickValues: ticks(top, true), format: bytes, height: 260,
      label: `Memory of device ${device.device} over time: at most ${bytes(peak)} held of ${bytes(device.capacity_bytes)}. Arrow keys move the cursor.`,
    });
    place.append(legend([["live", "in use"], ["waste", "waste"], ["idle", "idle"], ["ink", "held", "stroke"], ["quiet", `capacity, ${bytes(device.capacity_bytes)}${near ? "" : ": above this chart"}`, "dashed"]]));
  }
}

/* Of windows of time, so that few allocations make no noise. */
function hitRates(samples, end) {
  const windows = Math.min(48, samples.length), times = [], rates = [], soFar = [];
  let allocations = 0, hits = 0, next = 0;
  for (let i = 0; i < windows; i++) {
    let last = null;
    while (next < samples.length && (samples[next][0] <= end * (i + 1) / windows || i === windows - 1)) last = samples[next++];
    if (!last || last[4] <= allocations) continue;
    times.push(end * i / windows / 1e9);
    rates.push(Math.min(100, 100 * Math.max(0, last[5] - hits) / (last[4] - allocations)));
    soFar.push(100 * last[5] / last[4]);
    allocations = last[4]; hits = last[5];
  }
  return { times, rates, soFar };
}

function drawHits() {
  const place = at("hits").querySelector(".body");
  const devices = shown.report.devices.filter((device) => device.samples.length);
  at("hits").hidden = !devices.length;
  place.replaceChildren();
  for (const device of devices) {
    const end = Math.max(shown.report.process.last_ns, device.samples[device.samples.length - 1][0]);
    const { times, rates, soFar } = hitRates(device.samples, end);
    if (shown.report.devices.length > 1) place.append(make("h3", {}, `Device ${device.device}`));
    timeChart(place, {
      times, end: end / 1e9, top: 100, tickValues: [0, 25, 50, 75, 100], height: 150, format: (value) => `${value % 1 ? value.toFixed(1) : value}%`,
      lines: [{ of: "hit", label: "at the time", values: rates }, { of: "quiet", label: "so far", values: soFar, dash: true }],
      label: `Hit rate of device ${device.device} over time, ${percent(device.hits, device.allocations)} in all. Arrow keys move the cursor.`,
    });
    place.append(legend([["hit", "hit rate at the time", "stroke"], ["quiet", "of all allocations so far", "dashed"]]));
  }
}

const stackOf = (id) => shown.stacks[id] || [["(unknown)", "(unknown)", null, 0]];
const labelOf = (id) => { const stack = stackOf(id); return stack[stack.length - 1][0]; };

function siteCell(site) {
  const stack = stackOf(site.id), [, name, file, line] = stack[stack.length - 1];
  const callers = stack.slice(0, -1).reverse().map((frame) => frame[0]);
  return make("td", { class: "place", title: file ? `${file}:${line}` : null }, make("b", { class: "code" }, name),
    file ? make("span", { class: "quiet code" }, ` ${programOf(file)}:${line}`) : null,
    callers.length ? make("span", { class: "callers" }, `called from ${callers.join(" \u2039 ")}`) : null);
}

const siteColumns = [
  ["Site", (site) => stackOf(site.id).map((frame) => frame[0]).reverse().join(" "), null], ["Allocations", (site) => site.allocations, number],
  ["Hit rate", (site) => (site.allocations ? site.hits / site.allocations : 0), (rate) => percent(rate, 1)],
  ["Peak", (site) => site.peak_live_bytes, bytes], ["Live", (site) => site.live_bytes, bytes], ["Idle", (site) => site.idle_bytes, bytes],
  ["Allocated", (site) => site.allocated_bytes, bytes],
  ["Leaked", (site) => (shown.report.process.finished ? site.live_blocks : 0), (count) => (count ? plural(count, "block") : "\u2013")],
];

function drawSites() {
  const words = at("filter").value.toLowerCase(), value = siteColumns[order.column][1], most = 300;
  const all = shown.report.sites;
  const sites = all.filter((site) => stackOf(site.id).some((frame) => `${frame[0]} ${frame[2] || ""}`.toLowerCase().includes(words)));
  sites.sort((a, b) => { const x = value(a), y = value(b); return (x < y ? -1 : x > y ? 1 : a.id - b.id) * (order.down ? -1 : 1); });
  const rows = everySite ? sites : sites.slice(0, most), peak = Math.max(1, ...all.map((site) => site.peak_live_bytes));
  at("shown").textContent = sites.length === all.length ? plural(all.length, "site") : `${number(sites.length)} of ${plural(all.length, "site")}`;
  const head = siteColumns.map(([name], i) => make("th", { scope: "col", "aria-sort": i === order.column ? (order.down ? "descending" : "ascending") : null },
    make("button", { type: "button", onclick: () => sortBy(i, i === order.column ? !order.down : i !== 0) }, name)));
  const body = rows.map((site) => make("tr", {}, siteColumns.map(([name, get, format], i) => {
    if (i === 0) return siteCell(site);
    const cell = make("td", { "data-label": name, class: name === "Leaked" && get(site) ? "bad" : null }, format(get(site)));
    if (name === "Peak") { const share = make("i", { class: "share" }); share.style.width = `${100 * get(site) / peak}%`; cell.append(share); }
    return cell;
  })));
  const focused = document.activeElement && document.activeElement.closest("#sites th") ? order.column : -1;
  at("sites").querySelector(".table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, head)), make("tbody", {}, body)),
    rows.length < sites.length ? make("button", { type: "button", class: "link more", onclick: () => { everySite = true; drawSites(); } }, `Show all ${number(sites.length)}`) : "");
  if (focused >= 0) head[focused].firstChild.focus();
  at("sort").value = order.column;
}

function sortBy(column, down) {
  order = { column, down };
  drawSites();
}

const weights = { bytes: ["bytes allocated, in all", (site) => site.allocated_bytes, bytes], allocations: ["allocations", (site) => site.allocations, number],
  peak: ["most bytes live at once", (site) => site.peak_live_bytes, bytes], live: ["bytes live at the end", (site) => site.live_bytes, bytes] };

function drawFlame() {
  const [, weigh, format] = weights[at("weight").value];
  const root = { label: programOf(shown.report.process.command), title: "", value: 0, children: [], known: new Map() };
  for (const site of shown.report.sites) {
    const weight = weigh(site);
    if (!weight) continue;
    let node = root;
    root.value += weight;
    for (const [label, , file, line] of stackOf(site.id)) {
      let child = node.known.get(label);
      if (!child) {
        child = { label, title: file ? `${file}:${line}` : "", value: 0, children: [], known: new Map() };
        node.known.set(label, child);
        node.children.push(child);
      }
      child.value += weight;
      node = child;
    }
  }
  const sort = (node) => { node.children.sort((a, b) => b.value - a.value); node.children.forEach(sort); };
  sort(root);
  const place = at("flame").querySelector(".body");
  place.replaceChildren();
  at("zoom-out").hidden = true;
  if (root.value) flameGraph(place, root, format, at("flame-status"), at("zoom-out"));
  else place.append(make("p", { class: "quiet" }, "No site has any."));
}

function drawMap() {
  const place = at("map").querySelector(".body");
  place.replaceChildren();
  const devices = shown.report.devices.filter((device) => device.map);
  at("map").hidden = !devices.length;
  for (const device of devices) {
    const { time_ns, left_out, blocks } = device.map, idle = blocks.filter((block) => block[2]);
    const sum = (list) => list.reduce((total, block) => total + block[1], 0);
    place.append(make("p", { class: "quiet" }, `${shown.report.devices.length > 1 ? `Device ${device.device}: the` : "The"} blocks by address, as they were when most was held, at ${clock(time_ns / 1e9)}: `
      + `${plural(blocks.length - idle.length, "live block")} of ${bytes(sum(blocks) - sum(idle))}, ${plural(idle.length, "idle block")} of ${bytes(sum(idle))}${left_out ? `; ${plural(left_out, "smaller block")} not shown` : ""}.`));
    stripMap(place, blocks.map(([address, size, isIdle, site]) => ({ address, bytes: size, idle: isIdle, title: labelOf(site) })));
    place.append(legend([["live", "live"], ["idle", "idle"]]));
  }
}

function bars(rows) {
  const most = Math.max(1, ...rows.map((row) => row[1]));
  return make("div", { class: "rows" }, rows.map(([label, count]) => {
    const bar = make("i", { of: "quiet" });
    bar.style.width = `${100 * count / most}%`;
    return make("div", { class: "row" }, make("span", {}, label), make("span", {}, number(count)), bar);
  }));
}

function drawWaits() {
  const { report } = shown, c = report.counters, place = at("waits").querySelector(".body");
  const spared = c.free_calls - c.free_waited - c.waits_paid;
  const why = Object.entries(report.waited_because_of).sort((a, b) => b[1] - a[1]).map(([key, count]) => [about.reasons[key] || key, count]);
  const before = Object.entries(report.waits_made_before).sort((a, b) => b[1] - a[1]).map(([call, count]) => [call, count]);
  place.replaceChildren(bars([["frees without a wait", Math.max(0, spared)], ["waited at once", c.free_waited], ["waited later, before a call that could tell", c.waits_paid]]),
    ...(why.length ? [make("h3", {}, "Waited at once because"), bars(why)] : []),
    ...(before.length ? [make("h3", {}, "Waited later, before"), bars(before)] : []));
}

function drawEvents() {
  const { report } = shown, c = report.counters, place = at("events").querySelector(".body");
  const usual = new Set(["malloc_calls", "malloc_hits", "free_calls", "free_kept", "free_waited", "waits_owed", "waits_paid", "trace_events"]);
  const rows = Object.entries(about.counters).filter(([name]) => c[name] && !usual.has(name)).map(([name, help]) => make("div", { class: "row" }, make("span", {}, help.replace(/^of (those|the hits), /, "")), make("span", { class: /oom|double|passed_errors/.test(name) ? "bad" : null }, number(c[name]))));
  const routes = Object.entries(report.interception).map(([name, count]) => `${name} ${number(count)}`).join(", ");
  const lines = [["Interception", routes || "none"], ["Bypassed", report.bypassed.map((one) => `${one.name} in ${one.module}`).join(", ")],
    ["Tools in this process", report.process.tools], ["Trace", report.process.trace]].filter((line) => line[1]);
  place.replaceChildren(make("div", { class: "rows" }, rows), ...lines.map(([name, text]) => make("p", { class: "quiet" }, make("b", {}, `${name}: `), text)));
}

function drawRuns() {
  const runs = about.runs;
  at("runs").hidden = runs.length < 2;
  if (runs.length < 2) return;
  const names = ["Run", "Allocations", "Hit rate", "Peak held", "Leaked", "Time", "Held over time"];
  const histories = data.pages.map((page) => page.devices.flatMap((device) => device.samples.map(heldOf)));
  const top = histories.reduce((most, history) => history.reduce((a, b) => Math.max(a, b), most), 1);
  const rows = runs.map((run, i) => {
    const choice = choices.find((one) => one.run === i), name = runName(run);
    const cells = [number(run.allocations), percent(run.hits, run.allocations), bytes(run.peak_held_bytes), run.leaked_blocks ? plural(run.leaked_blocks, "block") : "\u2013", clock(run.seconds),
      choice && histories[i].length ? sparkline(histories[i], top, `held by ${name}`) : "\u2013"];
    return make("tr", { class: choice === shown ? "chosen" : null },
      make("td", { class: "place", title: run.file }, choice ? make("button", { type: "button", class: "link", onclick: () => choose(choice) }, name) : name,
        run.finished ? null : make("span", { class: "quiet" }, " running or killed"), run.oom_events ? make("span", { class: "bad" }, ` out of memory ${run.oom_events}\u00d7`) : null),
      cells.map((cell, c) => make("td", { "data-label": names[c + 1], class: c === 3 && run.leaked_blocks ? "bad" : null }, cell)));
  });
  at("runs").querySelector(".table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, names.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, rows)));
}

function drawAll() {
  [drawHead, drawGain, drawEquation, drawRuns, drawHeat, drawMemory, drawHits, drawSites, drawFlame, drawMap, drawWaits, drawEvents].forEach((draw) => draw());
}

function choose(choice) {
  shown = choice;
  at("run").value = choices.indexOf(choice);
  drawAll();
}

at("run-choice").hidden = choices.length < 2;
at("run").append(...choices.map((choice, i) => make("option", { value: i }, choice.run < 0 ? `all ${choice.report.runs} runs` : runName(about.runs[choice.run]))));
at("run").addEventListener("change", () => choose(choices[at("run").value]));
at("sort").append(...siteColumns.map(([name], i) => make("option", { value: i }, name.toLowerCase())));
at("sort").addEventListener("change", () => sortBy(+at("sort").value, at("sort").value !== "0"));
at("weight").append(...Object.entries(weights).map(([name, [label]]) => make("option", { value: name }, label)));
at("weight").value = about.weight;
at("weight").addEventListener("change", drawFlame);
at("filter").addEventListener("input", drawSites);
drawAll();
let drawnWidth = document.body.clientWidth;
addEventListener("resize", () => {
  if (document.body.clientWidth === drawnWidth) return;
  drawnWidth = document.body.clientWidth;
  [drawMemory, drawHits, drawFlame, drawMap].forEach((draw) => draw());
});
