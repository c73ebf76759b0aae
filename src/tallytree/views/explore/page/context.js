// What stands beside the rows of a place: the other direction of flows, siblings, sizes of groups, maps, the statement.

function ends(state) {
  if (about.statistic !== "flows" || sides.length !== 2) return null;
  const root = all(),
    lines = [];
  const add = (places, text) => {
    if (
      JSON.stringify(places) === JSON.stringify(state.places) ||
      lines.some((each) => each.key === JSON.stringify(places))
    )
      return;
    lines.push({
      key: JSON.stringify(places),
      line: el("li", null, link(text, into(state, places)), " ", endNumber(places)),
    });
  };
  state.places.forEach((place, side) => {
    if (place[0] <= root[side][0]) return;
    const other = placeAt(1 - side, pathOf(side, place)),
      name = shownPath(side, place).at(-1);
    const out = replaced(root, side, place),
      back = other && replaced(root, 1 - side, other);
    const [from, to] = side === 0 ? [out, back] : [back, out];
    if (from) add(from, `All from ${name}`);
    if (to) add(to, `All to ${name}`);
    if (other)
      add(
        [0, 1].map((each) => (each === side ? place : other)),
        `Within ${name}`,
      );
  });
  const [from, to] = state.places.map((place, side) => placeAt(1 - side, pathOf(side, place)));
  if (from && to && (state.places[0][0] > root[0][0] || state.places[1][0] > root[1][0]))
    add([to, from], "The other direction");
  return lines.length
    ? el(
        "section",
        null,
        el("h2", null, "In and out"),
        el(
          "ul",
          { id: "ends", class: "pairs" },
          lines.map((each) => each.line),
        ),
      )
    : null;
}

function endNumber(places) {
  const { found, row } = ownRow(places);
  if (row === null) return el("span", { class: "none" }, "not listed");
  return found.table ? numberOf(found, row) : `${amount(found.part.number[row])} (sum of listed numbers)`;
}

// The difference to another place. Nothing is known here of what both errors have in common, so its ends are those of
// both intervals together: they hold whatever that is.
function comparing(found, own, near, nameAt) {
  const known = near.filter((row) => row !== own && said(found, row).reach !== null && nameAt(row) !== "not listed");
  if (own === null || said(found, own).reach === null || !known.length) return null;
  const told = el("p", { id: "difference", "aria-live": "polite" });
  const change = (event) => {
    const row = Number(event.target.value),
      [one, other] = [own, row].map((each) => said(found, each));
    const by = one.number - other.number,
      low = one.lower - other.upper,
      high = one.upper - other.lower;
    const verdict = low > 0 ? "more" : high < 0 ? "fewer" : "no difference can be told";
    told.textContent =
      `${nameAt(own)} has ${amount(Math.abs(by))} ${by < 0 ? "fewer" : "more"} than ${nameAt(row)}, probably between ` +
      `${amount(low)} and ${amount(high)} (at least ${about.sure} sure): ${verdict}. The command "tallytree derive ` +
      `difference" knows what the errors of both have in common, and may tell more.`;
  };
  const options = known.map((row) => el("option", { value: row }, nameAt(row)));
  const choice = el("select", { name: "compare", change }, el("option", { value: "", disabled: true, selected: true }, "…"), options);
  return [el("label", null, "Difference to ", choice), told];
}

// The places beside a place, by each side in which it is not all.
function beside(state) {
  return sides.map((side, number) => {
    const place = state.places[number];
    if (place[0] <= side.root) return null;
    const places = replaced(state.places, number, above(number, place, Math.max(place[0] - 1, side.root)));
    const found = rowsBy(namedOf(state.places), places),
      rows = sorted(found, usualOrder);
    if (!found.table || rows.length < 2) return null;
    const own = ownRow(state.places).row,
      near = rows.slice(0, BESIDE);
    if (own !== null && !near.includes(own)) near.push(own);
    const nameAt = (row) => {
      const { places, listed } = placesOf(found, row);
      return listed ? shownPath(number, places[number]).at(-1) : "not listed";
    };
    const name = sides.length > 1 ? `By ${side.title}: ${nameOf(places)}` : `In ${nameOf(places)}`;
    return el(
      "section",
      { class: "beside" },
      el("h2", null, label(name)),
      el(
        "ul",
        { class: "pairs" },
        near.map((row) => {
          const text = nameAt(row);
          return el(
            "li",
            row === own ? { "aria-current": "true" } : null,
            row === own || text === "not listed" ? label(text) : link(text, into(state, placesOf(found, row).places)),
            " ",
            numberOf(found, row),
          );
        }),
      ),
      rows.length > near.length
        ? el("p", { class: "note" }, `${amount(rows.length)} in all; ${amount(near.length)} are shown.`)
        : null,
      comparing(found, own, near, nameAt),
    );
  });
}

function sizesFigure(state, width) {
  if (about.statistic !== "group_sizes") return null;
  const table = tableOf(namedOf(state.places));
  if (!table) return null;
  const part = kept.get(partOf(table)),
    places = groupsOf(table),
    node = state.places[0][0] ? state.places[0][1] : 0;
  if (places.first[node] === null)
    return el("section", null, el("h2", null, "Sizes of the groups"), el("p", null, "No groups are listed here."));
  const rows = Array.from({ length: places.rows[node] }, (_, i) => places.first[node] + i);
  const tails = Boolean(part.tail_lower),
    single = Boolean(part.lower);
  const cumulative = state.cumulative ?? (tails && !single);
  const listed = sizeRows(part, rows, cumulative),
    found = { part, named: table.named, table };
  const known = cumulative ? tails : single;
  const note = known
    ? `The ${cumulative ? "band" : "line at the end of each bar"} is where the true number probably is (${about.sure} sure).`
    : `The errors of these numbers are not known.${tails ? " Those of groups of a size or more are." : ""}`;
  const last = (each) => `${amount(each)}${each === about.last_size ? "+" : ""}`;
  return el(
    "section",
    { id: "sizes" },
    el("h2", null, "Sizes of the groups"),
    el(
      "p",
      { class: "buttons" },
      el(
        "a",
        { href: hashOf(state, { cumulative: !cumulative }) },
        cumulative ? "groups of each size" : "groups of a size or more",
      ),
      el("a", { href: hashOf(state, { log: !state.log }) }, state.log ? "even axis" : "logarithmic axis"),
    ),
    el("figure", null, sizesChart(listed, { width, log: state.log, cumulative }), el("figcaption", null, note)),
    el(
      "details",
      null,
      el("summary", null, `${amount(rows.length)} sizes as a table`),
      el(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sizes" },
        el(
          "table",
          { id: "size-rows" },
          el(
            "thead",
            null,
            el(
              "tr",
              null,
              el("th", { scope: "col" }, "members"),
              el("th", { scope: "col", class: "numbers" }, about.unit),
              tails ? el("th", { scope: "col", class: "numbers" }, "of this size or more") : null,
            ),
          ),
          el(
            "tbody",
            null,
            rows.map((row) =>
              el(
                "tr",
                null,
                el("th", { scope: "row" }, last(part.size[row])),
                el("td", { class: "numbers" }, numberOf(found, row)),
                tails ? el("td", { class: "numbers" }, numberOf(tailsOf(part), row)) : null,
              ),
            ),
          ),
        ),
      ),
    ),
    el("p", { class: "note" }, "Sizes without a row are published as 0 groups."),
  );
}

const tailsOf = (part) => ({ part: { number: part.tail, lower: part.tail_lower, upper: part.tail_upper } });

// The level of a side whose shapes are known: boundaries are of the first tree with a level of that name.
function mapLevel(side, named) {
  const level = sides[side].levels[named - 1],
    owner = sides.find((each) => each.levels.includes(level));
  return about.maps.includes(level) && owner.alike === sides[side].alike ? level : undefined;
}

const mapSides = (state, by) =>
  sides.map((_, side) => side).filter((side) => by[side] > state.places[side][0] && mapLevel(side, by[side]));
const mapBy = (state, by, side) => namedOf(state.places).map((each, i) => (i === side ? by[i] : each));

function maps(state, by) {
  return mapSides(state, by).map((side) => {
    const level = mapLevel(side, by[side]),
      part = kept.get(`map-${level}`),
      inside = below(side, state.places[side], by[side]);
    const found = rowsBy(mapBy(state, by, side), state.places),
      numbers = new Map();
    const sum = found.table ? "" : " (sum of listed numbers)";
    for (const row of found.rows) {
      const { places, listed } = placesOf(found, row),
        { number } = said(found, row);
      if (listed)
        numbers.set(places[side][1], {
          number,
          words: `${amount(number)}${offText(said(found, row))}${sum}`,
          hash: into(state, places),
          row,
        });
    }
    const drawn = new Set(part.node),
      without = [];
    for (let node = inside[0]; node < inside[1]; node++) if (!drawn.has(node)) without.push(node);
    const direction = about.statistic === "flows" ? (side ? " by destination" : " by origin") : "";
    return el(
      "section",
      { class: "mapped" },
      el("h2", null, `Map${direction}: ${levelName(side, by[side])}`),
      el("figure", null, mapOf(part, side, by[side], numbers, inside)),
      without.length
        ? el(
            "p",
            { class: "note" },
            "Without a shape: ",
            without.map((node, i) => [
              i ? "; " : "",
              label(textsOf(labels(side, by[side]))[node]),
              " ",
              numbers.has(node) ? numbers.get(node).words : "not listed",
            ]),
          )
        : null,
    );
  });
}

function entry(each) {
  if (each === null) return "none";
  if (Array.isArray(each))
    return el(
      "ul",
      null,
      each.map((one) => el("li", null, entry(one))),
    );
  if (typeof each !== "object") return label(String(each));
  return el(
    "dl",
    null,
    Object.entries(each).map(([name, one]) => [el("dt", null, name.replaceAll("_", " ")), el("dd", null, entry(one))]),
  );
}

function statementView() {
  return [
    el("h1", { tabindex: "-1" }, "Privacy statement"),
    el("p", { class: "big" }, about.statement.guarantee),
    el("p", null, el("a", { href: "#" }, "Back to the numbers"), " "),
    el(
      "p",
      null,
      el(
        "button",
        {
          type: "button",
          click: () => save("statement.json", "application/json", JSON.stringify(about.statement, null, 2)),
        },
        "Save as JSON",
      ),
    ),
    el("div", { id: "statement" }, entry(about.statement)),
  ];
}

// A text without case and accents: é is e. In letters that carry no accents, such as ł and ß, these are looked up.
const LETTERS = { ß: "ss", æ: "ae", œ: "oe", ø: "o", ł: "l", đ: "d", ð: "d", þ: "th", ı: "i" };
const plain = (text) =>
  text
    .normalize("NFD")
    .replace(/\p{M}/gu, "")
    .toLowerCase()
    .replace(/[ßæœøłđðþı]/g, (each) => LETTERS[each]);

// Places whose own name or label contains a text, whatever the case and the accents: whole ones first, higher levels
// first.
function search(text) {
  const wanted = plain(text.trim()),
    whole = [],
    found = [];
  if (!wanted) return [];
  sides.forEach((side, number) =>
    side.columns.forEach((column, i) => {
      const part = labels(number, i + 1);
      part.plain ??= part.label.map((each, node) => [plain(each), ...(part.shown ? [plain(part.shown[node])] : [])]);
      part.plain.forEach((own, node) => {
        if (own.includes(wanted)) whole.push([number, [i + 1, node]]);
        else if (found.length < 30 && own.some((each) => each.includes(wanted))) found.push([number, [i + 1, node]]);
      });
    }),
  );
  return [...whole, ...found].slice(0, 30);
}
