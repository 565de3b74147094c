// SPDX-License-Identifier: Apache-2.0
// Who holds the holes: the call sites whose blocks keep segments open, and the segments, each as a bar with its blocks
// where they lie. Of the document of `cutrace-report frag`, at its moment.
import {cleanText} from "./data.js";
import {element} from "./dom.js";
import {formatBytes, formatCount, formatDuration, formatElapsed} from "./format.js";
import {decodeBlocks} from "./map_blocks.js";
import {siteColour, theme} from "./palette.js";
import {drawSwatch} from "./reading.js";

const SITES = 6, SEGMENTS = 10;

const colourOf = (site) => (site ? siteColour(site) : theme().used);

// The blocks of each moment that the map lists: those of this one; none where it lists none.
function blocksAt(device, t) {
    const list = device.map ? decodeBlocks(device).find(({at}) => device.t[at] === t) : null;
    return list ? list.blocks : [];
}

// Where the blocks of a segment lie, if the map lists all of them.
function placeBlocks(segment, blocks) {
    const start = BigInt(segment.ptr), end = start + BigInt(segment.bytes);
    const found = blocks.filter(({address}) => address >= start && address < end);
    const bytes = found.reduce((sum, block) => sum + block.bytes, 0);
    return found.length === segment.blocks && bytes === segment.block_bytes ?
        found.map((block) => ({...block, from: Number(block.address - start)})) : null;
}

function makeBar(segment, device, {blocks, most, owner}) {
    const bar = element("span", {class: "segment", "aria-hidden": "true"}), places = placeBlocks(segment, blocks);
    bar.style.width = `${Math.max(3, 100 * segment.bytes / most)}%`;
    for (const {from, bytes, site} of places || [{from: 0, bytes: segment.block_bytes, site: null}]) {
        const used = element("span", {class: "used"});
        used.style.left = `${100 * from / segment.bytes}%`;
        used.style.width = `${100 * bytes / segment.bytes}%`;
        used.style.background = colourOf(site === null ? owner : device.sites[site]);
        bar.append(used);
    }
    bar.classList.toggle("placed", places !== null);
    return bar;
}

const ageOf = ({oldest_t_ns: oldest}, now) => (oldest === null ? "-" : formatDuration(now - oldest));

// The largest of the call sites that hold segments open: what is free in these.
function makeHolders(pool, sites, now) {
    const columns = ["", "free", "segments", "in blocks", "oldest", "held by"];
    const rows = pool.held_by.slice(0, SITES).map((holder) => {
        const swatch = element("canvas", {"aria-hidden": "true"}), label = cleanText(holder.site);
        drawSwatch(swatch, colourOf(sites.get(label)));
        return element("tr", {}, element("td", {class: "swatch"}, swatch),
            element("td", {class: "bytes", "data-bytes": String(holder.free_bytes)}, formatBytes(holder.free_bytes)),
            element("td", {class: "count"}, formatCount(holder.segments)),
            element("td", {class: "bytes"}, formatBytes(holder.block_bytes)),
            element("td", {class: "bytes"}, ageOf(holder, now)), element("td", {class: "label"}, label));
    });
    return element("table", {class: "holders"}, element("thead", {}, element("tr", {},
        ...columns.map((name) => element("th", {scope: "col"}, name)))), element("tbody", {}, ...rows));
}

const describe = ({bytes, free_bytes: free, blocks, site}) => `${formatBytes(free)} of ${formatBytes(bytes)} free, held ` +
    `by ${formatCount(blocks)} ${blocks === 1 ? "block" : "blocks"}: ${cleanText(site)}`;

// Shows it behind the curves, if segments are held open. found: the device of the document.
export function showHeld(host, state, found) {
    const pool = found && found.pool, trace = state.trace(), device = state.device();
    const open = ((pool && pool.held_segments) || []).filter((segment) => segment.free_bytes > 0);
    host.replaceChildren();
    if (!open.length)
        return;
    const now = trace.frag.moment.t_ns, t = now - trace.summary.start_ns, all = pool.held_segment_count;
    const sites = new Map(device.sites.filter(({kind}) => kind === "block").map((site) => [site.label, site]));
    const shown = open.slice(0, SEGMENTS), most = Math.max(...shown.map((segment) => segment.bytes));
    const blocks = blocksAt(device, t), hint = (text) => element("p", {class: "hint"}, text);
    const bars = shown.map((segment) => element("li", {}, makeBar(segment, device,
        {blocks, most, owner: sites.get(cleanText(segment.site))}), element("span", {}, describe(segment))));
    host.append(element("h3", {}, `Who holds the holes, at ${formatElapsed(t)}`),
        hint(`${formatBytes(pool.held_free_bytes)} is free in ${formatCount(all)} segment${all === 1 ? "" : "s"} that ` +
            "blocks hold open. A segment counts for each call site that has a block in it."),
        element("div", {class: "wide"}, makeHolders(pool, sites, now)),
        hint(shown.length < all ? `The ${shown.length} segments with the most free memory, of ${formatCount(all)}:` :
            "The segments:"),
        element("ul", {class: "segments"}, ...bars));
}
