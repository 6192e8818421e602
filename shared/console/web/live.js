// The page that lives: asks for what has changed, puts words into their places, draws the curves.
"use strict";

const PLAIN = "http://www.w3.org/2000/svg";
const asked = new URLSearchParams(location.search);
const part = id => document.getElementById(id);
let versions = "", byTime = false, charts = [], heardAt = Date.now();

async function ask(what) {
  const query = asked.toString();
  const answer = await fetch(what + (query ? "?" + query : ""), {cache: "no-store"});
  if (!answer.ok) throw new Error(answer.status);
  return answer.json();
}

function element(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

function drawn(name, attributes, words) {
  const made = document.createElementNS(PLAIN, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (words !== undefined) made.textContent = words;
  return made;
}

// Words come as HTML that the server has made safe. What did not change is left alone, and what a
// reader has opened stays open.
const placed = {};
function place(fragments) {
  for (const [id, html] of Object.entries(fragments)) {
    if (placed[id] === html || !part(id)) continue;
    placed[id] = html;
    const open = [...part(id).querySelectorAll("details")].map(each => each.open);
    const ticked = id === "list" ? chosen() : [];
    part(id).innerHTML = html;
    part(id).querySelectorAll("details").forEach((each, n) => { if (n in open) each.open = open[n]; });
    for (const box of part(id).querySelectorAll("input[data-run]"))
      box.checked = ticked.includes(box.dataset.run);
  }
}

function chosen() {
  return [...document.querySelectorAll("input[data-run]:checked")].map(box => box.dataset.run);
}

function niceStep(range, wanted) {
  const rough = range / wanted, power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(n => n * power).find(step => step >= rough);
}

function ticksOf(low, high, log) {
  const found = [];
  if (log) {
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const n of [1, 2, 5]) found.push(n * 10 ** power);
    const inside = found.filter(value => value >= low && value <= high);
    if (inside.length > 1) return inside;
    found.length = 0;
  }
  const step = niceStep(high - low, 4);
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(at);
  return found;
}

function inWords(value, percent) {
  if (percent) return Math.round(100 * value) + "%";
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Number(value.toPrecision(Math.abs(value) >= 1000 ? 6 : 3)).toLocaleString("en");
}

function drawCurves(chart, box) {
  const wide = Math.max(280, box.clientWidth), high = 230;
  const left = 48, right = 8, top = 8, bottom = 34;
  const xs = chart.curves.flatMap(curve => curve.x);
  const ys = chart.curves.flatMap(curve => curve.y).filter(value => value !== null);
  if (chart.bound) ys.push(chart.bound);
  const svg = drawn("svg", {viewBox: `0 0 ${wide} ${high}`, role: "img",
    "aria-label": chart.title + " over " + chart.x});
  if (!ys.length) return box.replaceChildren(element("p", {class: "soft"}, "Nothing yet."));
  let [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const log = chart.log && y0 > 0 && y1 > 20 * y0;
  if (chart.percent) [y0, y1] = [0, Math.max(1, y1)];
  else if (!chart.log) [y0, y1] = [Math.min(0, y0), y1 * 1.05];
  if (x1 === x0) [x0, x1] = [x0 - 1, x1 + 1];
  if (y1 === y0) [y0, y1] = log ? [y0 / 2, y1 * 2] : [y0 - 1, y1 + 1];
  if (!log && chart.log) { const room = 0.05 * (y1 - y0); y0 -= room; y1 += room; }
  const across = x => left + (x - x0) / (x1 - x0) * (wide - left - right);
  const scale = log ? Math.log10 : value => value;
  const up = y => high - bottom - (scale(y) - scale(y0)) / (scale(y1) - scale(y0)) * (high - top - bottom);
  for (const y of ticksOf(y0, y1, log)) {
    svg.append(drawn("path", {d: `M${left} ${up(y)}H${wide - right}`, stroke: "var(--grid)"}));
    svg.append(drawn("text", {x: left - 6, y: up(y) + 4, "text-anchor": "end"}, inWords(y, chart.percent)));
  }
  for (const x of ticksOf(x0, x1, false)) {
    svg.append(drawn("path", {d: `M${across(x)} ${top}V${high - bottom}`, stroke: "var(--grid)"}));
    const anchor = across(x) > wide - 30 ? "end" : "middle";
    svg.append(drawn("text", {x: across(x), y: high - bottom + 15, "text-anchor": anchor}, inWords(x)));
  }
  svg.append(drawn("text", {x: wide - right, y: high - 4, "text-anchor": "end"}, chart.x));
  for (const x of chart.marks || [])
    svg.append(drawn("path", {d: `M${across(x)} ${top}V${high - bottom}`, stroke: "var(--bad)", "stroke-dasharray": "2 2"}));
  if (chart.bound)
    svg.append(drawn("path", {d: `M${left} ${up(chart.bound)}H${wide - right}`, stroke: "var(--soft)", "stroke-dasharray": "4 3"}));
  for (const curve of chart.curves) {
    let d = "", pen = "M";
    curve.x.forEach((x, n) => {
      if (curve.y[n] === null || (log && curve.y[n] <= 0)) { pen = "M"; return; }
      d += `${pen}${across(x).toFixed(1)} ${up(curve.y[n]).toFixed(1)}`;
      pen = "L";
    });
    svg.append(drawn("path", {d, fill: "none", stroke: `var(--${curve.colour})`, "stroke-width": 1.6, "stroke-linejoin": "round"}));
    if (curve.x.length < 30)
      curve.x.forEach((x, n) => curve.y[n] !== null && svg.append(
        drawn("circle", {cx: across(x), cy: up(curve.y[n]), r: 2.4, fill: `var(--${curve.colour})`})));
  }
  const pointer = drawn("path", {stroke: "var(--soft)", d: ""});
  svg.append(pointer);
  const legend = element("div", {class: "legend"});
  const values = chart.curves.map(curve => {
    const value = element("span");
    legend.append(element("span", {}, element("i", {style: `background:var(--${curve.colour})`}), curve.name, " ", value));
    return value;
  });
  const say = at => chart.curves.forEach((curve, n) => {
    let near = curve.x.length - 1;
    if (at !== null) curve.x.forEach((x, k) => { if (Math.abs(x - at) < Math.abs(curve.x[near] - at)) near = k; });
    const value = curve.y[near];
    values[n].textContent = value === null || value === undefined ? "" : inWords(value, chart.percent);
  });
  svg.addEventListener("pointermove", event => {
    const seen = svg.getBoundingClientRect();
    const at = x0 + ((event.clientX - seen.left) / seen.width * wide - left) / (wide - left - right) * (x1 - x0);
    const held = Math.min(x1, Math.max(x0, at));
    pointer.setAttribute("d", `M${across(held)} ${top}V${high - bottom}`);
    say(held);
  });
  svg.addEventListener("pointerleave", () => { pointer.setAttribute("d", ""); say(null); });
  say(null);
  box.replaceChildren(legend, svg);
}

function drawBars(chart, box) {
  const most = Math.max(...chart.bars.map(bar => bar[1]), 1e-9);
  const bars = element("div", {class: "bars"});
  for (const [name, value, colour] of chart.bars)
    bars.append(element("span", {}, name),
      element("i", {style: `width:${100 * value / most}%;background:var(--${colour})`}),
      element("span", {class: "number"}, inWords(value) + " ms"));
  box.replaceChildren(bars);
}

function drawAll() {
  const shown = part("charts");
  part("along").hidden = !charts.some(chart => chart.over_time);
  const known = [...shown.children].map(section => section.dataset.chart).join();
  if (known !== charts.map(chart => chart.id).join())
    shown.replaceChildren(...charts.map(chart => element("section", {"data-chart": chart.id},
      element("h2", {}, chart.title), element("div", {class: "panel chart"}),
      element("div", {class: "about"}))));
  charts.forEach((chart, n) => {
    const [, box, about] = shown.children[n].children;
    if (chart.bars) drawBars(chart, box);
    else drawCurves(byTime && chart.over_time ? chart.over_time : chart, box);
    if (about.dataset.words !== (chart.words || "")) about.innerHTML = about.dataset.words = chart.words || "";
  });
}

// A step's samples are added once and then left alone: someone may be listening.
function placeSamples(runs) {
  const many = runs.length > 1;
  const holder = part("sample-groups");
  holder.className = many ? "side-by-side" : "";
  part("samples").hidden = !runs.some(run => run.groups.length);
  for (const run of runs) {
    let column = holder.querySelector(`[data-of="${run.run}"]`);
    if (!column) {
      column = element("div", {"data-of": run.run});
      if (many) column.append(element("h3", {}, run.name));
      holder.append(column);
    }
    const groups = many ? run.groups.slice(0, 2) : run.groups;
    let before = null;
    for (const {group, samples} of [...groups].reverse()) {
      let made = column.querySelector(`[data-group="${group}"]`);
      if (!made || Number(made.dataset.count) !== samples.length) {
        const fresh = sampleGroup(run.run, group, samples);
        if (made) made.replaceWith(fresh);
        else if (before) before.before(fresh);
        else column.append(fresh);
        made = fresh;
      }
      before = made;
    }
    column.querySelectorAll("details").forEach((each, n) => { if (!each.dataset.seen) { each.open = n < 3; each.dataset.seen = "1"; } });
    column.querySelectorAll("[data-group]").forEach(each => {
      if (!groups.some(({group}) => group === each.dataset.group)) each.remove();
    });
  }
  for (const column of [...holder.children])
    if (!runs.some(run => String(run.run) === column.dataset.of)) column.remove();
}

function sampleGroup(run, group, samples) {
  const step = group.replace(/^step-0*/, "");
  const name = group.startsWith("step-") ? "Step " + (step || "0") : "As recorded";
  const grid = element("div", {class: "samples"});
  for (const {name: sample, picture, sound} of samples) {
    const box = element("div", {class: "panel"});
    const from = file => `sample/${run}/${group}/${file}`;
    if (picture) box.append(element("img", {src: from(picture), alt: "picture of sample " + sample, loading: "lazy"}));
    if (sound) box.append(element("audio", {src: from(sound), controls: "", preload: "metadata"}));
    grid.append(box);
  }
  return element("details", {"data-group": group, "data-count": samples.length},
    element("summary", {}, name), grid);
}

async function look() {
  try {
    const now = await ask("now");
    document.title = now.title;
    part("title").textContent = now.title;
    place(now.fragments);
    const seen = now.chosen + ":" + now.versions;
    if (now.chosen.length && seen !== versions) {
      const story = await ask("story");
      place(story.fragments);
      charts = story.charts;
      drawAll();
      placeSamples(story.samples);
      versions = seen;
    }
    heardAt = Date.now();
    part("told").textContent = "";
    part("told").className = "soft";
    document.documentElement.dataset.ready = "1";
  } catch (problem) {
    const since = Math.round((Date.now() - heardAt) / 1000);
    part("told").textContent = `Nobody answers (for ${since} s). Is 'watch --web' still running?`;
    part("told").className = "late";
  }
  setTimeout(look, document.hidden ? 10000 : 1000);
}

document.addEventListener("change", event => {
  if (!event.target.matches("input[data-run]")) return;
  const runs = chosen();
  if (runs.length) asked.set("runs", runs.join(",")); else asked.delete("runs");
  history.replaceState(null, "", asked.toString() ? "?" + asked : location.pathname);
});
for (const [id, wanted] of [["by-step", false], ["by-time", true]])
  part(id).addEventListener("click", () => {
    byTime = wanted;
    part("by-step").setAttribute("aria-pressed", String(!byTime));
    part("by-time").setAttribute("aria-pressed", String(byTime));
    drawAll();
  });
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(drawAll, 200); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) drawAll(); });
look();
