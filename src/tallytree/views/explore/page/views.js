// The parts of a view, from its state: { places, by, cols, order, count, log, cumulative, page }.

const PAGE = 50,
  BESIDE = 20,
  MOST_COLUMNS = 30;
const ORDERS = ["number", "label"],
  usualOrder = about.statistic === "tables" ? "label" : "number";

// An address names places, levels and sides by their labels and names: it is right for the next release, too.
function hashOf(state, changes) {
  const next = { ...state, count: PAGE, page: "", ...changes };
  const query = new URLSearchParams();
  if (next.page) query.set("page", next.page);
  sides.forEach((side, number) => {
    pathOf(number, next.places[number]).forEach((text) => query.append(`at.${side.name}`, text));
    if (next.by) query.set(`by.${side.name}`, side.columns[next.by[number] - 1] ?? "");
  });
  if (next.cols !== undefined) query.set("cols", sides[next.cols]?.name ?? "");
  if (next.order !== usualOrder) query.set("order", next.order);
  if (next.count !== PAGE) query.set("count", next.count);
  if (next.log) query.set("log", 1);
  if (next.cumulative !== undefined) query.set("cumulative", Number(next.cumulative));
  return `#${query}`;
}

// The view of other places: by the same columns where these are finer, else by those of the first finer table.
function into(state, places) {
  const named = namedOf(places),
    by =
      state.by && state.by.every((each, side) => each >= named[side]) && !sameNamed(state.by, named)
        ? state.by
        : undefined;
  return hashOf(state, { places, by, cols: by ? state.cols : undefined });
}

function crumbs(state) {
  return el(
    "nav",
    { "aria-label": "Where you are" },
    sides.map((side, number) => {
      const place = state.places[number],
        path = shownPath(number, place),
        root = sides[number].root;
      const links = Array.from({ length: place[0] - root + 1 }, (_, i) => {
        const named = root + i,
          name = named ? path[named - 1] : about.statistic === "flows" ? "everywhere" : "all";
        if (named === place[0]) return el("li", { "aria-current": "location" }, label(name));
        return el("li", null, link(name, into(state, replaced(state.places, number, above(number, place, named)))));
      });
      return el(
        "ol",
        { class: "crumbs" },
        sides.length > 1 ? el("li", { class: "side" }, `${side.title}:`) : null,
        links,
      );
    }),
  );
}

const replaced = (places, side, place) => places.map((each, i) => (i === side ? place : each));

// What share of the place above, or of the area, the number is.
function shareOf(state, found, row) {
  const [share, lower, upper] = ["share", "share_lower", "share_upper"].map((name) => value(found, name, row));
  if (share === null || lower === null || upper === null) return null;
  const whole = state.places.map((place, side) => above(side, place, Math.max(found.table.within[side], sides[side].root)));
  const percent = (each) => `${(100 * each).toFixed(1)} %`;
  return el(
    "p",
    { id: "share" },
    `${percent(share)} of ${nameOf(whole)} (probably ${percent(lower)} to ${percent(upper)}).`,
  );
}

// Why the number is off, and how much that is here.
function why(found, row) {
  const { number, reach } = said(found, row);
  if (!about.why || !reach) return null;
  const here = number > 0 ? ` Here ± ${amount(reach)} is ${((100 * reach) / number).toFixed(1)} % of the number.` : "";
  return el("details", { id: "why" }, el("summary", null, `Why ± ${amount(reach)}?`), el("p", null, about.why + here));
}

function headline(state) {
  const { found, row } = ownRow(state.places);
  if (row !== null && found.table) {
    const { words } = said(found, row);
    const members = value(found, "members", row);
    const with_members =
      members === null ? "" : `, ${found.part.open.has(row) ? "at least " : ""}${amount(members)} members in all`;
    return el(
      "div",
      { id: "headline" },
      el("p", { class: "big" }, numberOf(found, row, { id: "number" }), ` ${about.unit}${with_members}`),
      el("p", { class: "verdict" }, words),
      shareOf(state, found, row),
      why(found, row),
    );
  }
  if (row !== null) {
    return el(
      "div",
      { id: "headline" },
      el("p", { class: "big" }, el("span", { id: "number" }, amount(found.part.number[row])), ` ${about.unit}`),
      el(
        "p",
        { class: "verdict" },
        "The sum of listed numbers: this number was not published on its own. The error of a " +
          "sum does not follow from its parts; tallytree total computes it.",
      ),
    );
  }
  return el(
    "div",
    { id: "headline" },
    el("p", { class: "big" }, "Not listed"),
    el(
      "p",
      { class: "verdict" },
      about.partly ? "Its own number was not published, and is not known to be 0." : `It has no row. ${about.unlisted}`,
    ),
  );
}

// Selects of what rows are by: of each side a level, and of tables which side makes the columns.
function chooser(state, by, cols) {
  if (!sides.length) return null;
  const names = about.statistic === "flows" ? ["Origins by", "Destinations by"] : null;
  const selects = sides.map((side, number) => {
    const root = side.root,
      levels = [...Array(side.columns.length + 1).keys()].filter(
        (each) => each >= Math.max(state.places[number][0], root),
      );
    if (levels.length < 2) return null;
    const change = (event) => {
      location.hash = hashOf(state, {
        by: by.map((each, i) => (i === number ? Number(event.target.value) : each)),
        cols: undefined,
      });
    };
    return el(
      "label",
      null,
      names ? names[number] : sides.length > 1 ? `By ${side.title}` : "Rows by",
      el(
        "select",
        { change, name: `by-${number}` },
        levels.map((each) => {
          const known = tableOf(by.map((other, i) => (i === number ? each : other)));
          const name =
            each === state.places[number][0]
              ? each
                ? shownPath(number, state.places[number]).at(-1)
                : about.statistic === "flows"
                  ? "everywhere"
                  : "all together"
              : levelName(number, each);
          return el("option", { value: each, selected: each === by[number] }, known ? name : `${name} (sums)`);
        }),
      ),
    );
  });
  const varying = sides.map((_, i) => i).filter((i) => by[i] > state.places[i][0]);
  const columns =
    varying.length < 2
      ? null
      : el(
          "label",
          null,
          "Columns",
          el(
            "select",
            {
              name: "cols",
              change: (event) => {
                location.hash = hashOf(state, { by, cols: Number(event.target.value) });
              },
            },
            el("option", { value: -1, selected: cols < 0 }, "none: a list"),
            varying.map((i) => el("option", { value: i, selected: i === cols }, sides[i].title)),
          ),
        );
  return el(
    "form",
    { class: "choose", submit: (event) => event.preventDefault(), "aria-label": "What is shown" },
    selects,
    filters(state, by),
    columns,
    el(
      "label",
      null,
      "Order",
      el(
        "select",
        {
          name: "order",
          change: (event) => {
            location.hash = hashOf(state, { order: event.target.value });
          },
        },
        [
          ["number", "largest first"],
          ["label", "as in the hierarchy"],
        ].map(([key, text]) => el("option", { value: key, selected: key === state.order }, text)),
      ),
    ),
  );
}

// Of tables: one label of an attribute, for those that have few.
function filters(state, by) {
  if (about.statistic !== "tables") return [];
  return sides.map((side, number) => {
    const last = side.columns.length;
    if (side.sizes[last - 1] > 200 || last > 1) return null;
    const here = state.places[number];
    return el(
      "label",
      null,
      `Only ${side.title}`,
      el(
        "select",
        {
          name: `only-${number}`,
          change: (event) => {
            const node = Number(event.target.value),
              place = node < 0 ? [side.root, 0] : [last, node];
            const next = by.map((each, i) => (i === number ? (node < 0 ? last : place[0]) : each));
            const places = replaced(state.places, number, place);
            location.hash = hashOf(state, { places, by: sameNamed(next, namedOf(places)) ? undefined : next });
          },
        },
        el("option", { value: -1, selected: here[0] < last }, "all"),
        textsOf(labels(number, last)).map((text, node) =>
          el("option", { value: node, selected: here[0] === last && here[1] === node }, text),
        ),
      ),
    );
  });
}

function sorted(found, order) {
  if (order !== "number") return found.rows;
  return [...found.rows].sort((a, b) => found.part.number[b] - found.part.number[a] || a - b);
}

// Whether a cell of a place has no row; of sums, cells that were summed may have none.
function lacksRows(found, places) {
  if (!about.unlisted || !found.table) return Boolean(about.unlisted);
  return found.rows.filter((row) => placesOf(found, row).listed).length < cells(found.table, places);
}

function caption(found, shown, places) {
  const unit = found.table ? "" : " They are sums of listed numbers, whose errors this page does not have.";
  const more = found.more
    ? ` Up to ${amount(found.more)} more ${about.unit} may lie here, which are not listed of larger cells.`
    : "";
  const unlisted = lacksRows(found, places) ? ` ${about.unlisted}` : "";
  return `${amount(shown)} of ${amount(found.rows.length)} rows.${unit}${unlisted}${more}`;
}

function rowLink(state, found, row, common) {
  const { text, own, listed } = shortName(found, row, common || state.places);
  return listed && sides.length ? link(text, into(state, own)) : label(text);
}

function list(state, found) {
  const rows = sorted(found, state.order),
    greatest = most(found, rows),
    members = found.part.members;
  const shown = rows.slice(0, state.count);
  const groups = about.statistic === "flows" ? byParent(found, shown) : [{ rows: shown }];
  const columns = members ? 4 : 3;
  return [
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" },
      el(
        "table",
        { id: "rows", class: members ? "sizes" : null },
        el("caption", null, el("span", null, caption(found, shown.length, state.places))),
        el(
          "thead",
          null,
          el(
            "tr",
            null,
            el("th", { scope: "col" }, heading(state, found)),
            el("th", { scope: "col", class: "bars" }, el("span", { class: "unseen" }, "Bar")),
            el("th", { scope: "col", class: "numbers" }, about.unit),
            members ? el("th", { scope: "col", class: "numbers" }, "members") : null,
          ),
        ),
        groups.map((group) =>
          el(
            "tbody",
            null,
            group.places
              ? el(
                  "tr",
                  { class: "group" },
                  el(
                    "th",
                    { scope: "rowgroup", colspan: columns - 1 },
                    link(nameOf(group.places), into(state, group.places)),
                  ),
                  el("td", { class: "numbers" }, groupNumber(group.places)),
                )
              : null,
            group.rows.map((row) =>
              el(
                "tr",
                { "data-row": row },
                el("th", { scope: "row" }, rowLink(state, found, row, group.places)),
                el("td", { class: "bars" }, bar(found, row, greatest)),
                el("td", { class: "numbers" }, numberOf(found, row)),
                members ? el("td", { class: "numbers" }, amount(members[row])) : null,
              ),
            ),
          ),
        ),
      ),
    ),
    el(
      "p",
      { class: "buttons" },
      shown.length < rows.length
        ? el("a", { id: "more", href: hashOf(state, { count: state.count + 4 * PAGE }) }, "More rows")
        : null,
      el(
        "button",
        { type: "button", click: () => save("rows.csv", "text/csv", csvOf(found, rows)) },
        `Save all ${amount(rows.length)} rows as CSV`,
      ),
    ),
  ];
}

// What rows are by: of flows both ends, else what the place that is shown does not say.
function heading(state, found, cols) {
  if (!sides.length) return "Records of a person";
  const flows = about.statistic === "flows";
  const names = found.named.map((named, side) => {
    if (side === cols || (!flows && named <= state.places[side][0])) return "";
    return named > sides[side].root ? levelName(side, named) : flows ? "everywhere" : "";
  });
  return names.filter(Boolean).join(flows ? " → " : ", ") || "All";
}

// Flows under the pair of areas that both ends lie in.
function byParent(found, rows) {
  const groups = new Map();
  for (const row of rows) {
    const { places } = placesOf(found, row);
    const upper = places.map((place, side) => above(side, place, Math.max(found.named[side] - 1, sides[side].root)));
    const key = JSON.stringify(upper);
    if (!groups.has(key)) groups.set(key, { places: upper, rows: [] });
    groups.get(key).rows.push(row);
  }
  const made = [...groups.values()];
  return made.every(({ places }) => places.every(([named], side) => named === sides[side].root)) ? [{ rows }] : made;
}

function groupNumber(places) {
  if (!tableOf(namedOf(places)) || load(partOf(tableOf(namedOf(places))))) return null;
  const { found, row } = ownRow(places);
  return row === null ? null : numberOf(found, row);
}

function pivot(state, found, cols) {
  const places = found.rows.map((row) => placesOf(found, row));
  const lines = new Map(),
    nodes = new Map();
  found.rows.forEach((row, i) => {
    const own = places[i].places,
      others = own.filter((_, side) => side !== cols),
      key = JSON.stringify(others);
    if (!lines.has(key)) lines.set(key, { row, own, sum: 0, cells: new Map() });
    const column = JSON.stringify(own[cols]);
    lines.get(key).cells.set(column, row);
    lines.get(key).sum += found.part.number[row];
    nodes.set(column, own[cols]);
  });
  const heads = [...nodes.entries()].sort(([, a], [, b]) => a[1] - b[1]).slice(0, MOST_COLUMNS);
  const left = nodes.size - heads.length,
    every = [...lines.values()];
  if (state.order === "number") every.sort((a, b) => b.sum - a.sum);
  const shown = every.slice(0, state.count);
  const rowName = (line) =>
    line.own
      .map((place, side) => (side === cols ? "" : shownPath(side, place).slice(state.places[side][0]).join(" / ")))
      .filter(Boolean)
      .join(about.statistic === "flows" ? " → " : ", ") || "All";
  return [
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" },
      el(
        "table",
        { id: "rows", class: "pivot" },
        el(
          "caption",
          null,
          el(
            "span",
            null,
            caption(found, found.rows.length, state.places),
            left ? ` ${amount(left)} further columns are not shown; choose a list.` : null,
          ),
        ),
        el(
          "thead",
          null,
          el(
            "tr",
            null,
            el("th", { scope: "col" }, heading(state, found, cols)),
            heads.map(([, place]) =>
              el(
                "th",
                { scope: "col", class: "numbers" },
                label(shownPath(cols, place).slice(state.places[cols][0]).join(" / ")),
              ),
            ),
          ),
        ),
        el(
          "tbody",
          null,
          shown.map((line) =>
            el(
              "tr",
              null,
              el(
                "th",
                { scope: "row" },
                link(rowName(line), into({ ...state, by: undefined }, replaced(line.own, cols, state.places[cols]))),
              ),
              heads.map(([column]) => {
                const row = line.cells.get(column);
                return el(
                  "td",
                  { class: "numbers" },
                  row === undefined ? el("span", { class: "none" }, "not listed") : cell(state, found, row),
                );
              }),
            ),
          ),
        ),
      ),
    ),
    el(
      "p",
      { class: "buttons" },
      shown.length < every.length
        ? el("a", { id: "more", href: hashOf(state, { count: state.count + 4 * PAGE }) }, "More rows")
        : null,
      el(
        "button",
        { type: "button", click: () => save("rows.csv", "text/csv", csvOf(found, found.rows)) },
        `Save all ${amount(found.rows.length)} cells as CSV`,
      ),
    ),
  ];
}

// A number of a pivot is a link to the cell.
function cell(state, found, row) {
  const { places, listed } = placesOf(found, row),
    { quality, number, words } = said(found, row);
  const off = offText(said(found, row));
  const content = [
    dot(quality),
    amount(number),
    off ? el("span", { class: off.includes("(") ? "off long" : "off" }, off) : null,
    el("span", { class: "unseen" }, ` ${words}`),
  ];
  return listed
    ? el("a", { class: "number", href: into({ ...state, by: undefined }, places), "data-tip": words }, content)
    : el("span", { class: "number", tabindex: "0", "data-tip": words }, content);
}
