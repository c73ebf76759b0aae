// What the release holds: trees, places in them, tables, and the rows of places. A place is [named, node]: how many
// columns of its side name it, and its number among the nodes that so many columns name. [0, 0] is all of the side.

const given = JSON.parse(document.getElementById("data").textContent);
const about = given.about,
  sides = about.sides,
  tables = about.tables;
const kept = new Map(Object.entries(given.parts || {})),
  awaited = new Map();

// Data files of the folder form call this: `fetch` does not read files beside a page that was opened from a disk.
window.tallytree_part = (name, part) => kept.set(name, part);

function load(name) {
  if (kept.has(name)) return null;
  if (!awaited.has(name)) {
    awaited.set(
      name,
      new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = `data/${encodeURIComponent(name)}.js`;
        script.onload = () => done();
        script.onerror = () => {
          awaited.delete(name);
          failed(new Error(`The file data/${name}.js could not be loaded. It belongs beside this page.`));
        };
        document.head.append(script);
      }),
    );
  }
  return awaited.get(name);
}

const loadAll = (names) => Promise.all(names.map(load));
const labelParts = (side, named) => Array.from({ length: named }, (_, i) => `labels-${side}-${i + 1}`);
const everyLabel = () => sides.flatMap((side, s) => labelParts(s, side.columns.length));
const labels = (side, named) => kept.get(`labels-${side}-${named}`);
const partOf = (table) => `table-${tables.indexOf(table)}`;
const all = () => sides.map((side) => [side.root, 0]);

function size(side, named) {
  return named ? sides[side].sizes[named - 1] : 1;
}

// The place of `wanted` columns that a place lies in; the place itself where it is no deeper.
function above(side, [named, node], wanted) {
  if (named <= wanted) return [named, node];
  for (let here = named; here > wanted; here--) node = here > 1 ? labels(side, here).parent[node] : 0;
  return [wanted, node];
}

// The first place among ascending numbers that is not below a number.
function lowerBound(numbers, wanted) {
  let low = 0,
    high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The nodes, of the level that `wanted` columns go down to, that lie in a place: they follow each other.
function below(side, [named, node], wanted) {
  let first = node,
    stop = node + 1;
  for (let here = named; here < wanted; here++) {
    if (here === 0) [first, stop] = [0, size(side, 1)];
    else [first, stop] = [first, stop].map((each) => lowerBound(labels(side, here + 1).parent, each));
  }
  return [first, stop];
}

// The labels of a place, from the top; they are its address. Or, with `textsOf`, what people read in their place.
function pathOf(side, place, texts = (part) => part.label) {
  const path = [];
  for (let named = place[0]; named > 0; named--) path.unshift(texts(labels(side, named))[above(side, place, named)[1]]);
  return path;
}
const textsOf = (part) => part.shown ?? part.label;
const shownPath = (side, place) => pathOf(side, place, textsOf);

// The place of a side that a path names; null where it has none.
function placeAt(side, path) {
  let place = [0, 0];
  for (const label of path) {
    if (place[0] >= sides[side].columns.length) return null;
    const [first, stop] = below(side, place, place[0] + 1);
    const node = labels(side, place[0] + 1).label.indexOf(label, first);
    if (node < 0 || node >= stop) return null;
    place = [place[0] + 1, node];
  }
  return place;
}

// A root that has a column, such as country, is named or not: it is the same place.
const sameNamed = (one, other) =>
  one.every((a, side) => a === other[side] || (Math.max(a, other[side]) === 1 && size(side, 1) === 1));
const namedOf = (places) => places.map(([named]) => named);

function tableOf(named) {
  const exact = tables.find((table) => table.named.every((each, side) => each === named[side]));
  return exact || tables.find((table) => sameNamed(table.named, named)) || null;
}

const cells = (table, places) =>
  table.named.reduce((product, named, side) => {
    const [first, stop] = named >= places[side][0] ? below(side, places[side], named) : [0, 1];
    return product * (stop - first);
  }, 1);

// The table that is listed of a place: the smallest of those that are finer; of tables, and of all flows, one by two sides, if any.
function tableBelow(places) {
  const named = namedOf(places);
  const finer = tables.filter(
    (table) =>
      !table.totals &&
      !sameNamed(table.named, named) &&
      table.named.every((each, side) => each >= named[side] || sameAs(side, each, named[side])),
  );
  if (!finer.length) return null;
  const start = about.statistic === "flows" && sameNamed(named, namedOf(all()));
  if (about.statistic !== "tables" && !start) return finer[0];
  const varies = (table) => table.named.filter((each, side) => each > named[side]).length;
  const pairs = finer.filter((table) => varies(table) > 1);
  return (pairs.length ? pairs : finer).reduce((a, b) => (cells(b, places) < cells(a, places) ? b : a));
}

function sameAs(side, a, b) {
  return a === b || (Math.max(a, b) === 1 && size(side, 1) === 1);
}

// Tables whose rows are summed where none is by exactly these columns: the smallest one that is as fine.
function tableToSum(named) {
  const finer = tables.filter((table) => !table.totals && table.named.every((each, side) => each >= named[side]));
  const cellsOf = (table) => table.named.reduce((product, each, side) => product * size(side, each), 1);
  return finer.length ? finer.reduce((a, b) => (cellsOf(b) < cellsOf(a) ? b : a)) : null;
}

// What has to be loaded for rows by some columns.
function partsFor(named, places) {
  const table = tableOf(named) || tableToSum(named);
  if (!table) return [];
  const deepest = table.named.map((each, side) => Math.max(each, places[side][0], named[side]));
  return [partOf(table), ...deepest.flatMap((each, side) => labelParts(side, each))];
}

// Rows of a table as they are used: `rows` are their numbers, `part` the columns; `table` the published one, or null
// where numbers are sums of others.
function rowsBy(named, places) {
  const table = tableOf(named);
  if (table) {
    const part = about.statistic === "group_sizes" ? groupsOf(table) : kept.get(partOf(table));
    return { table, named: table.named, part, ...inside(table, part, places) };
  }
  const finer = tableToSum(named);
  if (!finer) return { table: null, named, part: { node: named.map(() => []), number: [] }, rows: [], more: 0 };
  const part = kept.get(partOf(finer)),
    found = inside(finer, part, places);
  const summed = sumsBy(named, finer, part, found.rows);
  return { table: null, named, part: summed, rows: summed.number.map((_, i) => i), more: found.more + summed.more };
}

function inside(table, part, places) {
  const ranges = table.named.map((named, side) => below(side, above(side, places[side], named), named));
  const rows = [];
  let more = 0;
  if (!sides.length) return { rows: part.number.map((_, i) => i), more };
  if (!part.node) {
    for (let row = ranges[0][0]; row < ranges[0][1]; row++) rows.push(row);
    return { rows, more };
  }
  for (let row = 0; row < part.number.length; row++) {
    let within = true,
      touches = true;
    for (let side = 0; side < ranges.length; side++) {
      const first = part.node[side][row],
        stop = part.stop ? part.stop[side][row] : first + 1;
      within = within && first >= ranges[side][0] && stop <= ranges[side][1];
      touches = touches && first < ranges[side][1] && stop > ranges[side][0];
    }
    if (within) rows.push(row);
    else if (touches) more += part.number[row];
  }
  return { rows, more };
}

// Sums by coarser columns; `more` is what rows count that name fewer columns than that.
function sumsBy(named, finer, part, rows) {
  const sums = new Map();
  let more = 0;
  for (const row of rows) {
    if (part.named && named.some((each, side) => part.named[side][row] < each)) {
      more += part.number[row];
      continue;
    }
    const nodes = named.map((each, side) => {
      const node = part.node ? part.node[side][row] : row;
      return above(side, [finer.named[side], node], each)[1];
    });
    const key = nodes.join();
    const sum = sums.get(key) || { nodes, number: 0 };
    sum.number += part.number[row];
    sums.set(key, sum);
  }
  const listed = [...sums.values()];
  return {
    node: named.map((_, side) => listed.map((each) => each.nodes[side])),
    number: listed.map((each) => each.number),
    more,
  };
}

// Group sizes by place: how many groups and members, and where the rows of each place begin.
function groupsOf(table) {
  const rows = kept.get(partOf(table)),
    count = size(0, table.named[0]);
  if (rows.places) return rows.places;
  const blank = () => new Array(count).fill(0),
    empty = () => new Array(count).fill(null);
  const places = { number: blank(), members: blank(), first: empty(), rows: blank(), open: new Set() };
  const exact = about.public_groups === "leaf" || (about.public_groups === "total" && count === 1);
  rows.number.forEach((groups, row) => {
    const node = rows.node[0][row];
    if (places.first[node] === null) places.first[node] = row;
    places.number[node] += groups;
    places.members[node] += rows.members ? rows.members[row] : groups * rows.size[row];
    if (!rows.members && groups && rows.size[row] === about.last_size) places.open.add(node);
    places.rows[node] += 1;
  });
  if (exact) {
    Object.assign(places, { lower: [...places.number], upper: [...places.number], quality: blank() });
  } else if (rows.all_reach) {
    const end = (sign) =>
      places.first.map((row, node) =>
        row === null ? null : Math.max(0, places.number[node] + sign * rows.all_reach[row]),
      );
    Object.assign(places, { lower: end(-1), upper: end(1) });
  } else if (rows.tail_lower) {
    const ends = (name) => places.first.map((row) => (row === null ? null : rows[name][row]));
    Object.assign(places, { lower: ends("tail_lower"), upper: ends("tail_upper") });
  }
  rows.places = places;
  return places;
}

// The place of each side that a row is about, and whether it is about one cell of the table.
function placesOf(found, row) {
  const { part, named } = found;
  const places = named.map((each, side) => {
    const place = [each, each ? (part.node ? part.node[side][row] : row) : 0];
    return part.named ? above(side, place, part.named[side][row]) : place;
  });
  return { places, listed: places.every(([each], side) => each === named[side]) };
}

const value = (found, name, row) => (found.part[name] ? found.part[name][row] : null);

// The published number about places themselves: { found, row }; row is null where no row is listed.
function ownRow(places) {
  const found = rowsBy(namedOf(places), places);
  const row = found.rows.find((each) => placesOf(found, each).listed);
  return { found, row: row === undefined ? null : row };
}
