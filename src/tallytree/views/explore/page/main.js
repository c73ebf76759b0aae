// The page: what the address asks for is loaded, and then shown. All that a view shows is in its address.

const main = document.getElementById("main");
let turn = 0;

// The labels on the way to the places of an address, by side.
const pathsOf = (query) => sides.map((side) => query.getAll(`at.${side.name}`).slice(0, side.columns.length));

// The state of an address; the labels of the levels that its paths go down to are loaded.
function stateOf(query) {
  const places = pathsOf(query).map((path, side) => (path.length < sides[side].root ? all()[side] : placeAt(side, path)));
  const at = places.includes(null) ? all() : places;
  const by = sides.map((side) => side.columns.indexOf(query.get(`by.${side.name}`)) + 1);
  const fine = by.every((each, side) => each >= at[side][0]) && !sameNamed(by, namedOf(at));
  return {
    places: at,
    by: fine ? by : undefined,
    cols: query.has("cols") ? sides.findIndex((side) => side.name === query.get("cols")) : undefined,
    order: ORDERS.includes(query.get("order")) ? query.get("order") : usualOrder,
    count: /^\d{1,15}$/.test(query.get("count") || "") ? Number(query.get("count")) || PAGE : PAGE,
    log: query.get("log") === "1",
    cumulative: query.has("cumulative") ? query.get("cumulative") === "1" : undefined,
  };
}

// By which columns the rows of a view are, and which side makes the columns of its table (−1 for a list).
function layoutOf(view) {
  const finer = view.by || tableBelow(view.places)?.named || null;
  const by = finer && finer.map((each, side) => Math.max(each, view.places[side][0]));
  if (!by) return { by: namedOf(view.places), cols: -1, rows: false };
  const varying = by.map((_, side) => side).filter((side) => by[side] > view.places[side][0]);
  if (view.cols !== undefined)
    return { by, cols: varying.includes(view.cols) && varying.length > 1 ? view.cols : -1, rows: true };
  const few = varying.filter((side) => size(side, by[side]) <= 12).sort((a, b) => size(a, by[a]) - size(b, by[b]));
  return { by, cols: about.statistic === "tables" && varying.length > 1 && few.length ? few[0] : -1, rows: true };
}

function neededFor(view, { by }) {
  const named = namedOf(view.places),
    needed = new Set([...partsFor(by, view.places), ...partsFor(named, view.places)]);
  sides.forEach((_, side) => labelParts(side, Math.max(by[side], named[side])).forEach((each) => needed.add(each)));
  for (const side of mapSides(view, by)) {
    needed.add(`map-${mapLevel(side, by[side])}`);
    partsFor(mapBy(view, by, side), view.places).forEach((each) => needed.add(each));
  }
  if (about.statistic === "flows") {
    const root = all().map(([each]) => each),
      deep = Math.max(...named);
    const group = by.map((each, side) => Math.max(each - 1, sides[side].root));
    const ways = [
      [named[0], root[1]],
      [root[0], named[1]],
      [named[1], root[1]],
      [root[0], named[0]],
      [deep, deep],
      [named[1], named[0]],
      group,
    ];
    ways.filter(tableOf).forEach((each) => partsFor(each, view.places).forEach((part) => needed.add(part)));
  }
  return [...needed];
}

function top() {
  const kind = {
    counts: "counts",
    flows: "flows",
    tables: "tables",
    group_sizes: "group sizes",
    contributions: "people by their number of records",
  };
  const field = el("input", {
    id: "search",
    type: "search",
    autocomplete: "off",
    placeholder: "Find a place",
    input: () => find(field.value),
    keydown: (event) => {
      if (event.key === "Escape") find((field.value = ""));
    },
  });
  return [
    el(
      "div",
      { class: "brand" },
      el("a", { href: "#" }, label(about.title)),
      el("span", { class: "note" }, kind[about.statistic]),
    ),
    sides.length
      ? el(
          "form",
          {
            role: "search",
            submit: (event) => {
              event.preventDefault();
              find(field.value);
            },
          },
          el("label", { for: "search", class: "unseen" }, "Find a place"),
          field,
          el("ul", { id: "found", "aria-label": "Found places", hidden: true }),
        )
      : null,
    el(
      "nav",
      { "aria-label": "About the release" },
      about.links.map(([text, href]) => el("a", { href }, text)),
      el("a", { href: "#page=statement" }, "Privacy statement"),
    ),
  ];
}

async function find(text) {
  const shown = document.getElementById("found");
  shown.hidden = !text.trim();
  if (shown.hidden) return;
  await loadAll(everyLabel());
  if (document.getElementById("search").value !== text) return;
  const places = search(text);
  shown.replaceChildren(
    ...places.map(([side, place]) => {
      const path = shownPath(side, place),
        where = [
          sides.length > 1 ? `${sides[side].title}:` : "",
          levelName(side, place[0]),
          path.length > 1 ? `in ${path.slice(0, -1).join(" / ")}` : "",
        ];
      return el(
        "li",
        null,
        link(path.at(-1), hashOf({ order: usualOrder }, { places: replaced(all(), side, place) }), {
          click: () => find((document.getElementById("search").value = "")),
        }),
        el("span", { class: "note" }, ` ${where.filter(Boolean).join(" ")}`),
      );
    }),
    ...(places.length ? [] : [el("li", null, "No place has this text in its name or label.")]),
  );
}

function body(view, layout) {
  const found = sides.length && !layout.rows ? null : rowsBy(layout.by, view.places);
  const width = Math.max(280, Math.min(main.clientWidth - 32, 760));
  const near = [maps(view, layout.by), ends(view), beside(view)].flat().filter(Boolean);
  return [
    sides.length ? crumbs(view) : null,
    el("h1", { tabindex: "-1" }, label(sides.length ? nameOf(view.places) : "People by their number of records")),
    sides.length ? headline(view) : null,
    about.bound ? el("p", { class: "note", id: "bound" }, about.bound) : null,
    el(
      "div",
      { class: near.length && (found || about.statistic === "group_sizes") ? "columns" : "single" },
      el(
        "div",
        null,
        sizesFigure(view, width),
        found
          ? el(
              "section",
              null,
              el("h2", null, "Rows"),
              chooser(view, layout.by, layout.cols),
              layout.cols >= 0 ? pivot(view, found, layout.cols) : list(view, found),
              legend(),
            )
          : legend(),
      ),
      near.length ? el("aside", { "aria-label": "Beside it" }, near) : null,
    ),
  ];
}

function warning() {
  const marks = about.marks.map((mark) => el("p", { class: "warning", role: "note" }, mark));
  if (!about.private)
    marks.unshift(
      el(
        "p",
        { class: "warning", role: "note", id: "not-private" },
        "NOT PRIVATE. The noise of this release came from a fixed seed, so anybody can remove it. It is for tests and experiments only.",
      ),
    );
  return marks;
}

function skeleton() {
  return el(
    "div",
    { class: "skeleton", role: "status" },
    el("span", { class: "unseen" }, "Loading"),
    Array.from({ length: 6 }, () => el("div", { class: "bone" })),
  );
}

async function show(moved) {
  const mine = ++turn,
    query = new URLSearchParams(location.hash.replace(/^#/, ""));
  if (query.get("page") === "statement") {
    document.title = `Privacy statement · ${about.title}`;
    main.replaceChildren(...[warning(), statementView()].flat().filter(Boolean));
  } else {
    const waiting = setTimeout(() => {
      if (mine === turn) main.replaceChildren(skeleton());
    }, 150);
    try {
      await loadAll(pathsOf(query).flatMap((path, side) => labelParts(side, path.length)));
      // What is listed of a place depends on how many nodes lie in it, which labels of finer levels say.
      if (sides.length > 1) await loadAll(everyLabel());
      const state = stateOf(query);
      await loadAll(state.places.flatMap(([named], side) => labelParts(side, named)));
      const layout = layoutOf(state);
      await loadAll(sides.length ? neededFor(state, layout) : ["table-0"]);
      if (mine !== turn) return;
      document.title = `${sides.length ? nameOf(state.places) : "People by their number of records"} · ${about.title}`;
      main.replaceChildren(...[warning(), body(state, layout)].flat(3).filter(Boolean));
    } catch (error) {
      if (mine === turn) main.replaceChildren(el("p", { class: "warning", role: "alert" }, error.message));
      return;
    } finally {
      clearTimeout(waiting);
    }
  }
  if (moved) {
    scrollTo(0, 0);
    main.querySelector("h1").focus({ preventScroll: true });
  }
}

document.getElementById("top").append(...top().filter(Boolean));
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document
  .getElementById("foot")
  .append(
    el("p", { class: "note" }, about.publisher),
    el(
      "p",
      { class: "note" },
      "Made by tallytree from the published files of the release. Nothing is loaded from elsewhere.",
    ),
  );
addEventListener("hashchange", () => show(true));
let resized = 0;
addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(() => {
    if (about.statistic === "group_sizes") show(false);
  }, 200);
});
show(false);
