// Pictures: the sizes of groups on an axis of numbers, and maps. Both have the numbers of a table beside them.

function niceTicks(least, greatest, count, whole) {
  const rough = (greatest - least || 1) / count,
    power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  if (whole) step = Math.max(1, Math.round(step));
  const ticks = [];
  for (let at = Math.ceil(least / step) * step; at <= greatest + step / 1e6; at += step) ticks.push(at);
  return ticks;
}

function logTicks(least, greatest) {
  const ticks = [];
  for (let power = 1; power <= greatest; power *= 10) {
    for (const each of [1, 2, 5]) if (each * power >= least && each * power <= greatest) ticks.push(each * power);
  }
  return ticks.length ? ticks : [least];
}

// The rows of a node's sizes as they are drawn: of each size, or, `cumulative`, of a size or more.
function sizeRows(part, rows, cumulative) {
  if (!cumulative) {
    return rows.map((row) => ({
      size: part.size[row],
      groups: part.number[row],
      lower: part.lower?.[row],
      upper: part.upper?.[row],
      exact: part.quality?.[row] === 0,
    }));
  }
  let sum = 0;
  return [...rows]
    .reverse()
    .map((row) => {
      sum += part.number[row];
      return { size: part.size[row], groups: sum, lower: part.tail_lower?.[row], upper: part.tail_upper?.[row] };
    })
    .reverse();
}

function sizesChart(listed, { width, log, cumulative }) {
  const height = 280,
    left = 64,
    right = 16,
    top = 12,
    bottom = 44;
  const first = Math.min(listed[0].size, 1),
    last = Math.max(listed.at(-1).size, first + 1),
    shift = log ? 1 - first : 0;
  const place = log ? (each) => Math.log(each + shift) : (each) => each;
  const lowest = place(first) - (log ? 0.05 : 0.6),
    highest = place(last) + (log ? 0.05 : 0.6);
  const x = (each) => left + ((width - left - right) * (place(each) - lowest)) / (highest - lowest);
  const greatest = listed.reduce((so, each) => Math.max(so, each.groups, each.upper ?? 0), 1);
  const y = (each) => height - bottom - ((height - top - bottom) * each) / greatest;
  const thick = Math.max(1.5, Math.min(24, ((width - left - right) / (highest - lowest)) * (log ? 0.05 : 0.7)));
  const banded = listed.filter((each) => each.lower !== null && each.lower !== undefined);
  const marks = cumulative
    ? steps(listed, banded, x, y)
    : listed.flatMap((each) => [
        svg(
          "rect",
          {
            class: "mark",
            x: x(each.size) - thick / 2,
            y: y(each.groups),
            width: thick,
            height: Math.max(y(0) - y(each.groups), 0),
          },
          svg("title", null, sizeWords(each, cumulative)),
        ),
        each.lower !== null && each.lower !== undefined && !each.exact && each.upper > each.lower
          ? svg("path", { class: "interval", d: `M${x(each.size)},${y(each.lower)}V${y(each.upper)}` })
          : null,
      ]);
  const ticks = (
    log
      ? logTicks(first + shift, last + shift).map((each) => each - shift)
      : niceTicks(first, last, Math.max(3, width / 90), true)
  ).filter((each) => each >= first && each <= last);
  const open = about.last_size !== null && last >= about.last_size;
  const axis = ticks.map((each) => [
    svg("path", { class: "grid", d: `M${x(each)},${y(0)}v4` }),
    svg(
      "text",
      { x: x(each), y: y(0) + 18, "text-anchor": "middle" },
      open && each === about.last_size ? `${amount(each)}+` : amount(each),
    ),
  ]);
  const levels = niceTicks(0, greatest, 4, true).map((each) => [
    svg("path", { class: "grid", d: `M${left},${y(each)}H${width - right}` }),
    svg("text", { x: left - 8, y: y(each) + 4, "text-anchor": "end" }, amount(each)),
  ]);
  const title = cumulative ? "groups of a size or more" : "groups of each size";
  return svg(
    "svg",
    {
      class: "sizes",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": `${title}; the table below has the numbers`,
    },
    levels,
    marks,
    axis,
    svg(
      "text",
      { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" },
      `members of a group${open ? ` (${amount(about.last_size)}+: that many or more)` : ""}`,
    ),
  );
}

function steps(listed, banded, x, y) {
  const line = (rows, name) =>
    rows.map((each, i) => {
      const from = i ? x(rows[i - 1].size) : x(each.size) - 4;
      return `${from},${y(each[name])}L${x(each.size)},${y(each[name])}`;
    });
  const band =
    banded.length > 0 &&
    [
      `M${line(banded, "upper").join("L")}`,
      ...[...line(banded, "lower")].reverse().map((each) => `L${each.split("L").reverse().join("L")}`),
      "Z",
    ].join("");
  return [
    band ? svg("path", { class: "band", d: band }) : null,
    svg("path", { class: "line", d: `M${line(listed, "groups").join("L")}` }),
    listed.map((each) =>
      svg(
        "circle",
        { class: "mark", cx: x(each.size), cy: y(each.groups), r: 2.5 },
        svg("title", null, sizeWords(each, true)),
      ),
    ),
  ];
}

function sizeWords(each, cumulative) {
  const open = cumulative || each.size === about.last_size ? " or more" : "";
  const known = each.lower !== null && each.lower !== undefined && !each.exact;
  return (
    `${amount(each.size)}${open}: ${amount(each.groups)}${each.exact ? " exact" : ""}` +
    (known ? `, probably ${amount(each.lower)} to ${amount(each.upper)}` : "")
  );
}

// The ends of up to six classes with about as many areas in each, rounded to two digits.
function classesOf(numbers) {
  const known = numbers.filter((each) => each > 0).sort((a, b) => a - b);
  const ends = [];
  for (let part = 1; part < 6 && known.length; part++) {
    const end = Number(known[Math.floor((part * known.length) / 6)].toPrecision(2));
    if (end > (ends.at(-1) ?? 0)) ends.push(end);
  }
  return ends;
}

// A map of the areas of a level: `numbers` by node has the number, its words and where it leads.
function mapOf(part, side, named, numbers, inside) {
  const shown = part.node.map((node) => numbers.get(node)?.number).filter((each) => each !== undefined);
  const ends = classesOf(shown),
    step = (number) => ends.filter((end) => number >= end).length + 1;
  const absent = part.node.some((node) => node >= inside[0] && node < inside[1] && !numbers.has(node));
  const shapes = part.node.map((node, i) => {
    const each = numbers.get(node),
      name = textsOf(labels(side, named))[node];
    const within = node >= inside[0] && node < inside[1];
    if (!within) return svg("path", { class: "outside", d: part.path[i] });
    const text = each ? `${name}: ${each.words}` : `${name}: not listed`;
    const shape = svg(
      "path",
      { class: each ? `step-${step(each.number)}` : "unknown", d: part.path[i] },
      svg("title", null, text),
    );
    return each ? svg("a", { href: each.hash, "aria-label": text }, shape) : shape;
  });
  const bounds = [0, ...ends];
  const key = bounds.map((end, i) =>
    el(
      "li",
      null,
      el("span", { class: `key step-${i + 1}` }),
      i + 1 < bounds.length ? `${amount(end)} to less than ${amount(bounds[i + 1])}` : `${amount(end)} or more`,
    ),
  );
  return [
    svg(
      "svg",
      {
        class: "map",
        viewBox: `-4 -4 ${part.width + 8} ${part.height + 8}`,
        role: "group",
        "aria-label": "Map; the table has the same numbers",
      },
      shapes,
    ),
    el(
      "ul",
      { class: "keys" },
      key,
      absent ? el("li", null, el("span", { class: "key unknown" }), "not listed") : null,
    ),
  ];
}
