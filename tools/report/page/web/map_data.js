// SPDX-License-Identifier: Apache-2.0
// The address map's parts: who owns each part of the address space at each of its moments, and how far around a part
// the same owner reaches. An owner below 0 has blocks in a part that is mostly free.
export const NOTHING = 0, IDLE = 1, SEVERAL = 2, FIRST_SITE = 3;

export function decodeMap(device) {
    const {at, ranges, rows, cells} = device.map;
    const first = nameOwners(device.sites);
    const columns = cells.map((lengths) => {
        const owners = new Int32Array(rows);
        for (let i = 0, row = 0; i < lengths.length; i += 2) {
            const owner = lengths[i + 1];
            const known = Math.abs(owner) < FIRST_SITE ? owner : Math.sign(owner) * first[Math.abs(owner) - FIRST_SITE];
            owners.fill(known, row, row + lengths[i]);
            row += lengths[i];
        }
        return owners;
    });
    return {device, at, ranges, rows, columns, areas: measureAreas(columns, ranges, rows)};
}

// The owner that stands for each call site: the first one with its name, as one row of a table does.
function nameOwners(sites) {
    const first = new Map();
    return sites.map((site, s) => {
        const key = `${site.kind} ${site.label}`;
        if (!first.has(key))
            first.set(key, s + FIRST_SITE);
        return first.get(key);
    });
}

// How much of the picture each owner has: decides which ones are named.
function measureAreas(columns, ranges, rows) {
    const areas = new Map(), weights = new Float64Array(rows);
    for (const range of ranges)
        weights.fill(range.bytes / range.rows, range.first_row, range.first_row + range.rows);
    for (const owners of columns)
        owners.forEach((owner, row) => areas.set(Math.abs(owner), (areas.get(Math.abs(owner)) || 0) + weights[row]));
    return areas;
}

export const rangeOf = (map, row) => map.ranges.find((range) => row >= range.first_row &&
    row < range.first_row + range.rows);

export function addressOf(map, row) {
    const range = rangeOf(map, row);
    const offset = Math.floor((row - range.first_row) * range.bytes / range.rows);
    return `0x${(BigInt(range.start) + BigInt(offset)).toString(16)}`;
}

// The rows of one range around a part, and the moments before and after it, that have the same owner.
export function reachOf(map, column, row) {
    const owners = map.columns[column], owner = owners[row], range = rangeOf(map, row);
    let low = row, high = row, first = column, last = column;
    while (low > range.first_row && owners[low - 1] === owner)
        low--;
    while (high < range.first_row + range.rows - 1 && owners[high + 1] === owner)
        high++;
    while (first > 0 && map.columns[first - 1][row] === owner)
        first--;
    while (last < map.columns.length - 1 && map.columns[last + 1][row] === owner)
        last++;
    return {owner, low, high, first, last, bytes: (high - low + 1) * range.bytes / range.rows};
}

export function ownerName(map, owner) {
    if (owner < 0)
        return `mostly free in PyTorch\u2019s pool, held open by ${ownerName(map, -owner)}`;
    if (owner === NOTHING)
        return "nothing allocated here";
    if (owner === IDLE)
        return "free in PyTorch\u2019s pool: in a segment, in no block";
    if (owner === SEVERAL)
        return "several small owners";
    return map.device.sites[owner - FIRST_SITE].label;
}
