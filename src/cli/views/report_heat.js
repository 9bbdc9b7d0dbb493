/* What each run held over time: a row for each, or for several where there are more than rows. The history of a run is a
 * letter for each part of its time: how much of the run's own top was held. */
const heatLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
const heatRows = 256, heatColumns = 128;

/* Runs in the order of their ranks, in a time that they share. Where they lie further apart than side by side, as those of
 * a benchmark, each begins at 0. */
function heatMap(runs) {
  const kept = runs.map((run, i) => ({ run, i, start: run.start_wall_ns / 1e9 })).filter(({ run }) => run.history_top_bytes > 0);
  kept.sort((a, b) => (a.run.rank >= 0 && b.run.rank >= 0 ? a.run.rank - b.run.rank : 0) || a.i - b.i);
  const first = Math.min(...kept.map(({ start }) => start)), longest = Math.max(...kept.map(({ run }) => run.seconds));
  const last = Math.max(...kept.map(({ run, start }) => start + run.seconds));
  const apart = last - first > 3 * longest, end = apart ? longest : last - first;
  const each = Math.ceil(kept.length / heatRows), rows = [];
  for (let at = 0; at < kept.length; at += each) {
    const group = kept.slice(at, at + each), cells = new Array(heatColumns).fill(null);
    for (const one of group) {
      const begin = apart ? 0 : one.start - first;
      for (let column = 0; column < heatColumns; column++) {
        const part = one.run.seconds > 0 ? ((column + 0.5) / heatColumns * end - begin) / one.run.seconds : 0;
        if (part < 0 || part >= 1) continue;
        const level = heatLetters.indexOf(one.run.history[Math.floor(part * one.run.history.length)]);
        const held = level / (heatLetters.length - 1) * one.run.history_top_bytes;
        if (!cells[column] || held > cells[column].held) cells[column] = { held, run: one.run, index: one.i };
      }
    }
    rows.push({ group, cells });
  }
  return { rows, end, each, apart, top: Math.max(1, ...kept.map(({ run }) => run.history_top_bytes)) };
}

function drawHeat() {
  at("ranks").hidden = about.runs.filter((run) => run.history_top_bytes > 0).length < 2;
  if (at("ranks").hidden) return;
  const place = at("ranks").querySelector(".body"), { rows, end, each, apart, top } = heatMap(about.runs);
  const canvas = make("canvas", { width: heatColumns, height: rows.length, tabindex: 0, role: "img",
    "aria-label": `What each of ${about.runs.length} runs held over ${clock(end)}: at most ${bytes(top)}. Arrow keys move the cursor.` });
  canvas.style.height = `${Math.max(64, Math.min(512, rows.length * 18))}px`;
  const chart = make("div", { class: "chart heat" }, canvas), box = tip(chart), pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--live").trim();
  rows.forEach(({ cells }, row) => cells.forEach((cell, column) => {
    if (!cell) return;
    pen.globalAlpha = 0.1 + 0.9 * cell.held / top;
    pen.fillRect(column, row, 1, 1);
  }));
  place.replaceChildren(chart, make("p", { class: "axis quiet" }, make("span", {}, apart ? "each run\u2019s beginning" : "0 s"), make("span", {}, clock(end))),
    make("p", { class: "quiet" }, `${each > 1 ? `A row is ${each} runs, of which it shows the one that held most` : "A row is a run"}, by rank from the top. Full colour is ${bytes(top)} held.`));
  let row = 0, column = -1;
  const point = (newRow, newColumn) => {
    row = Math.max(0, Math.min(rows.length - 1, newRow));
    column = Math.max(0, Math.min(heatColumns - 1, newColumn));
    const cell = rows[row].cells[column], names = rows[row].group.map(({ run }) => runName(run));
    box.show((column + 0.5) / heatColumns * chart.clientWidth, (row + 1) / rows.length * canvas.clientHeight,
      make("b", {}, `at ${clock(column / heatColumns * end)}`),
      make("div", {}, cell ? `${runName(cell.run)}: ${bytes(cell.held)} held` : `${names[0]}${names.length > 1 ? ` and ${names.length - 1} more` : ""}: not running`));
  };
  const chosen = () => {
    const cell = column >= 0 && rows[row].cells[column], choice = cell && choices.find((one) => one.run === cell.index);
    if (choice) choose(choice);
  };
  canvas.addEventListener("pointermove", (event) => {
    const bounds = canvas.getBoundingClientRect();
    point(Math.floor((event.clientY - bounds.top) / bounds.height * rows.length), Math.floor((event.clientX - bounds.left) / bounds.width * heatColumns));
  });
  canvas.addEventListener("pointerleave", () => box.hide());
  canvas.addEventListener("blur", () => box.hide());
  canvas.addEventListener("click", chosen);
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.key === "Escape") box.hide();
    if (event.key === "Enter") chosen();
    if (!move) return;
    event.preventDefault();
    point(row + move[0], column + move[1]);
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawHeat());
