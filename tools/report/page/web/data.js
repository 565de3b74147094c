// SPDX-License-Identifier: Apache-2.0
// Reads DATA (page/PAGE.md). What it holds was written by a stranger's program: names are cut, and characters that
// would move or hide what stands beside them are replaced.
import {freeHues} from "./palette.js";

const LONGEST = 240;
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function cleanText(text) {
    if (typeof text !== "string")
        return "-";
    const cut = text.length > LONGEST ? `${text.slice(0, LONGEST / 2)} \u2026 ${text.slice(-LONGEST / 2)}` : text;
    return cut.replace(UNSAFE, "\ufffd");
}

// The first value, then differences: the values.
export function decodeDeltas(deltas) {
    const values = new Float64Array(deltas.length);
    let value = 0;
    deltas.forEach((delta, i) => {
        value += delta;
        values[i] = value;
    });
    return values;
}

// The last place of a sorted list whose value is not above x; -1: all are.
export function lastAtOrBefore(values, x) {
    let low = -1, high = values.length - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (values[middle] <= x)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

// The upper edge of each row at each moment.
export function edgesOf(bytes, moments) {
    const edges = [];
    let below = new Float64Array(moments);
    for (const row of bytes) {
        below = below.map((value, i) => value + row[i]);
        edges.push(below);
    }
    return edges;
}

export const NEEDS_READING = {untracked: true, others: true, free: true};

// A component may have memory in PyTorch's pool and outside of it: the second one says so.
function nameRows(rows) {
    const torch = new Set(rows.filter((row) => row.group === "torch").map((row) => row.title));
    return rows.map((row) => ({...row, name: cleanText(row.title), title: cleanText(row.title) +
        (row.group === "driver" && torch.has(row.title) ? ", outside the pool" : "")}));
}

// Where no rule says what most memory is for, call sites have colours of their own, of components that this device has
// not: the largest ones, by what they held at most.
function colourPlain(device) {
    const {sites} = device, taken = new Set(device.rows.map((row) => row.key)), most = new Map();
    if (!isMostlyOther(device))
        return;
    for (const list of device.live.changes)
        for (let i = 0; i < list.length; i += 3) {
            const {label, component, kind} = sites[list[i]];
            if (component === "other" && kind !== "idle")
                most.set(label, Math.max(most.get(label) || 0, list[i + 1]));
        }
    const free = freeHues(taken);
    const hues = new Map([...most].sort((a, b) => b[1] - a[1]).map(([label], rank) => [label, free[rank] || null]));
    for (const site of sites)
        site.hue = site.component === "other" && site.kind !== "idle" && hues.get(site.label) || null;
}

// Whether that is so: when memory ran out, or at the peak.
export function isMostlyOther(device) {
    const moment = firstMoment(device);
    let other = 0, idle = 0;
    device.rows.forEach((row, r) => {
        other += row.key === "other" ? device.bytes[r][moment] : 0;
        idle += row.group === "idle" ? device.bytes[r][moment] : 0;
    });
    return other * 2 > trackedAt(device, moment) - idle;
}

function decodeDevice(device, index, strings) {
    const t = decodeDeltas(device.t_ns);
    const bytes = device.bytes.map(decodeDeltas);
    const rows = nameRows(device.rows);
    const sites = device.sites.map((site) => ({...site, label: cleanText(site.label), hue: null,
        frames: (site.stack || []).map((frame) => strings[frame])}));
    const decoded = {
        ...device, index, t, bytes, rows, sites, name: cleanText(device.name || ""),
        events: decodeDeltas(device.event), edges: edgesOf(bytes, t.length),
        marks: device.marks.map((mark) => ({...mark, text: cleanText(mark.text)})),
    };
    colourPlain(decoded);
    return decoded;
}

export function readData(text) {
    const data = JSON.parse(text);
    const strings = data.strings.map(cleanText);
    const traces = data.traces.map((trace, index) => ({...trace, index, title: cleanText(trace.title),
        devices: trace.devices.filter((device) => device.t_ns.length)
            .map((device, at) => decodeDevice(device, at, strings))}));
    return {...data, traces};
}

// ---- of a device

// What is in use or kept at a moment, up to a row that needs no reading.
export function trackedAt(device, moment) {
    let sum = 0;
    device.rows.forEach((row, r) => {
        if (!NEEDS_READING[row.group])
            sum += device.bytes[r][moment];
    });
    return sum;
}

// What a row has at a moment; null: not known.
export function rowAt(device, row, moment) {
    return device.read[moment] || !NEEDS_READING[device.rows[row].group] ? device.bytes[row][moment] : null;
}

// What each call site holds at a moment, by the last moment at or before it where that is known; null: there is none.
export function liveAt(device, moment) {
    const {at, changes} = device.live;
    const last = lastAtOrBefore(at, moment);
    if (last < 0)
        return null;
    const bytes = new Map(), counts = new Map();
    for (let k = 0; k <= last; k++) {
        const list = changes[k];
        for (let i = 0; i < list.length; i += 3) {
            bytes.set(list[i], list[i + 1]);
            counts.set(list[i], list[i + 2]);
        }
    }
    const held = [];
    for (const [site, size] of bytes)
        if (size > 0 || counts.get(site) > 0)
            held.push({site: device.sites[site], bytes: size, count: counts.get(site)});
    return {moment: at[last], held};
}

// By how much each call site held more (or less) at the end of a range than at its begin; null: that is not known.
export function grownIn(device, from, to) {
    const moment = (t) => Math.max(0, lastAtOrBefore(device.t, t));
    const begin = liveAt(device, moment(from)), end = liveAt(device, moment(to));
    if (!begin || !end)
        return null;
    const held = new Map(end.held.map((each) => [each.site, {...each}]));
    for (const {site, bytes, count} of begin.held) {
        const now = held.get(site) || {site, bytes: 0, count: 0};
        held.set(site, {site, bytes: now.bytes - bytes, count: now.count - count});
    }
    return {from: begin.moment, to: end.moment, held: [...held.values()].filter((each) => each.bytes || each.count)};
}

// The call sites of a row at a moment, the largest first, and the moment where they are known; null: they are not.
export function sitesOfRow(device, row, moment) {
    const kinds = {torch: ["block"], driver: ["allocation", "segment"]}[device.rows[row].group];
    const found = kinds && liveAt(device, moment);
    if (!found)
        return null;
    const held = found.held.filter(({site}) => kinds.includes(site.kind) && site.component === device.rows[row].key);
    const sum = held.reduce((total, each) => total + each.bytes, 0);
    return sum === device.bytes[row][found.moment] && sum ? {...found, held: held.sort((a, b) => b.bytes - a.bytes)} : null;
}

// The row whose band is at a height at a moment; -1: none.
export function rowAtHeight(device, moment, bytes) {
    const row = device.edges.findIndex((edge) => bytes < edge[moment]);
    return bytes >= 0 && row >= 0 && rowAt(device, row, moment) !== null ? row : -1;
}

// The moment that a page shows first: where memory ran out, else the peak.
export function firstMoment(device) {
    for (const kind of ["crossing", "oom", "peak"]) {
        const mark = device.marks.find((each) => each.kind === kind);
        if (mark)
            return mark.at;
    }
    return device.t.length - 1;
}

// The trace's whole time.
export function wholeRange(trace) {
    const first = Math.min(...trace.devices.map((device) => device.t[0]));
    const last = Math.max(...trace.devices.map((device) => device.t[device.t.length - 1]));
    return last > first ? [first, last + (last - first) * 0.01] : [first, first + 1e6];
}
