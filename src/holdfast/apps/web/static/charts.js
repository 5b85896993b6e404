// Tokens and cost over time. The same figures are in a table on the page.
(() => {
  "use strict";
  const short = (n) => n >= 1e9 ? `${(n / 1e9).toFixed(1)}G` : n >= 1e6 ? `${(n / 1e6).toFixed(1)}M` : n >= 1e3 ? `${(n / 1e3).toFixed(n >= 1e4 ? 0 : 1)}k` : `${n}`;
  const dollars = (n) => n == null ? "–" : n === 0 ? "$0" : `$${n < 1 ? n.toFixed(n < 0.1 ? 3 : 2) : n.toFixed(n < 100 ? 2 : 0)}`;
  const drawn = [];
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bars = uPlot.paths.bars({ size: [0.7, 28], radius: 0.25 });

  const draw = (place) => {
    const found = JSON.parse(place.dataset.chart);
    const isCost = place.dataset.kind === "cost";
    const say = isCost ? dollars : short;
    const one = (label, stroke, fill) => ({ label, stroke, fill, paths: bars, points: { show: false }, value: (_, v) => v == null ? "–" : say(v) });
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const both = found.input.map((n, i) => n + found.output[i]);
    place.replaceChildren();
    drawn.push(new uPlot({
      width: place.clientWidth,
      height: 188,
      tzDate: (time) => uPlot.tzDate(new Date(time * 1e3), "UTC"),
      scales: { x: { time: true, range: (_, from, to) => { if (found.times.length === 1) return [found.times[0] - 259200, found.times[0] + 259200]; const gap = Math.max((to - from) / Math.max(found.times.length, 1), 43200); return [from - gap, to + gap]; } }, y: { range: (_, _from, to) => [0, to > 0 ? to * 1.1 : 1] } },
      axes: [axis, { ...axis, size: 56, values: (_, values) => values.map(say) }],
      cursor: { y: false, drag: { x: false, y: false } },
      series: isCost
        ? [{ value: "{YYYY}-{MM}-{DD}" }, one("Cost", colour("--c4"), colour("--c3"))]
        : [{ value: "{YYYY}-{MM}-{DD}" }, one("In and out", colour("--c2"), colour("--c2")), one("Out", colour("--c4"), colour("--c4"))],
    }, isCost ? [found.times, found.cost] : [found.times, both, found.output], place));
  };
  const renew = () => {
    for (const chart of drawn.splice(0)) chart.destroy();
    for (const place of document.querySelectorAll(".chart")) draw(place);
  };
  let due = 0;
  addEventListener("resize", () => { clearTimeout(due); due = setTimeout(renew, 150); });
  document.addEventListener("holdfast:theme", renew);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", renew);
  renew();
})();
