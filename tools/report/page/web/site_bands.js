// SPDX-License-Identifier: Apache-2.0
// Memory over time by call site: the same heights as by what memory is for, cut otherwise. What call sites hold is
// known at the moments of `live` alone; between two of them the earlier one is shown.
import {NEEDS_READING, edgesOf, isMostlyOther, lastAtOrBefore, trackedAt} from "./data.js";

const MOST = 8;

// What each call site holds at each moment of `live`: call sites with one name are one, as in the table.
function sumByName({live, sites}) {
    const names = new Map(), held = new Map();
    live.changes.forEach((list, k) => {
        const changed = new Map();
        for (let i = 0; i < list.length; i += 3) {
            const site = sites[list[i]], key = `${site.kind} ${site.label}`;
            if (!names.has(key))
                names.set(key, {site, bytes: new Float64Array(live.at.length), most: 0});
            changed.set(key, (changed.get(key) || 0) + list[i + 1] - (held.get(list[i]) || 0));
            held.set(list[i], list[i + 1]);
        }
        for (const [key, name] of names) {
            name.bytes[k] = (k ? name.bytes[k - 1] : 0) + (changed.get(key) || 0);
            name.most = Math.max(name.most, name.bytes[k]);
        }
    });
    return [...names.values()];
}

const subtract = (whole, parts) => whole.map((value, k) => parts.reduce((rest, {bytes}) => rest - bytes[k], value));

// The rows that stand for what is tracked: the largest call sites, all others, and what is idle in the pool.
function makeRows(device) {
    const all = sumByName(device), idle = all.filter(({site}) => site.kind === "idle");
    const named = all.filter(({site, most}) => site.kind !== "idle" && most > 0).sort((a, b) => b.most - a.most);
    const shown = named.slice(0, named.length > MOST + 1 ? MOST : named.length);
    const tracked = Float64Array.from(device.live.at, (moment) => trackedAt(device, moment));
    const row = (text, key, group, site) => ({key, title: text, name: text, group, site});
    const rows = shown.map(({site, bytes}) => ({row: row(site.label, site.label, "site", site), bytes}));
    const rest = subtract(tracked, [...shown, ...idle]);
    if (rest.some((value) => value > 0))
        rows.push({row: row("more call sites", "more", "site"), bytes: rest});
    rows.push(...idle.map(({site, bytes}) => ({row: row(site.label, site.component, "idle"), bytes})));
    return rest.every((value) => value >= 0) ? rows : null;
}

function makeBands(device) {
    const {at} = device.live, tracked = at.length && at[0] === 0 ? makeRows(device) : null;
    if (!tracked || !tracked.some(({row}) => row.site))
        return null;
    const pick = (values) => Float64Array.from(at, (moment) => values[moment]);
    const others = device.rows.map((row, r) => ({row, bytes: pick(device.bytes[r])}))
        .filter(({row}) => NEEDS_READING[row.group]);
    const all = [...tracked, ...others], bytes = all.map((each) => each.bytes);
    return {capacity: device.capacity, rows: all.map(({row}) => row), bytes, edges: edgesOf(bytes, at.length),
        t: pick(device.t), read: at.map((moment) => device.read[moment])};
}

const made = new WeakMap();

// The device with rows of call sites in place of components, and moments of its own; null: what they hold is not known.
export function bandsBySite(device) {
    if (!made.has(device))
        made.set(device, makeBands(device));
    return made.get(device);
}

export const usualBands = (device) => (bandsBySite(device) && isMostlyOther(device) ? "site" : "use");

// What the timeline shows of the device: with its components or its call sites as rows.
export function shownBands(state) {
    const device = state.device();
    return state.get().bands === "site" && bandsBySite(device) || device;
}

// The moment of what is shown at a moment of the device.
export function momentOfBands(state, moment) {
    const device = state.device(), bands = shownBands(state);
    return bands === device ? moment : Math.max(0, lastAtOrBefore(device.live.at, moment));
}
