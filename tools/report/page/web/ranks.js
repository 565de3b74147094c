// SPDX-License-Identifier: Apache-2.0
// What fills the GPUs of several processes at one moment: a bar for each process, which begins on its GPU where the one
// before it ends, so that ranks stand side by side and what is left of a GPU is seen.
import {cleanText} from "./data.js";
import {addFigure, element, onceAFrame, sizeCanvas} from "./dom.js";
import {formatBytes} from "./format.js";
import {onTheme, rowFill, theme} from "./palette.js";
import {drawSwatch} from "./reading.js";

const HEIGHT = 20, MOST_ROWS = 64;
const UNTRACKED = {key: "untracked", group: "untracked"}, OTHERS = {key: "others", group: "others"};
const GROUPS = {"pool-idle": "idle", "mempool-idle": "idle"};

function nameProcess(process) {
    const {thread_name: thread, exe} = process, hasOwn = thread && !(exe && thread.startsWith(exe));
    const name = cleanText(hasOwn ? thread : exe || "a process");
    return `${name}, PID ${process.pid ?? "-"}${process.rank === null ? "" : `, rank ${cleanText(process.rank)}`}`;
}

const nameGpu = (gpu, hosts) => `GPU ${gpu.nvml_index ?? gpu.ordinal}${hosts > 1 ? `@${gpu.host_index}` : ""}` +
    (gpu.total_bytes ? ` \u00b7 ${formatBytes(gpu.total_bytes)}` : "");

// What a process holds on a GPU, as far as it is known, in parts.
function partsOf(device) {
    const parts = (device.tracked_parts || []).map(({component, bytes}) =>
        ({row: {key: component, group: GROUPS[component] || "torch"}, bytes}));
    return parts.concat(device.untracked_bytes ? {row: UNTRACKED, bytes: device.untracked_bytes} : []);
}

// The rows of a GPU, each with where its bar begins; the last one is of what no process here holds.
function rowsOf({processes, host_count: hosts}, gpu, g) {
    const rows = processes.flatMap((process) => (process.devices || []).filter((device) => device.gpu_index === g)
        .map((device) => ({name: nameProcess(process), failed: Boolean(process.crossing), parts: partsOf(device)})));
    const untracked = rows.flatMap((row) => row.parts).reduce((sum, part) => sum + (part.row === UNTRACKED ? part.bytes : 0), 0);
    const others = (gpu.untracked_or_others_bytes || 0) - untracked;
    if (others > 0)
        rows.push({name: others === gpu.other_processes_bytes ? "other processes" : "other processes, or not known whose",
            parts: [{row: OTHERS, bytes: others}]});
    let start = 0;
    return rows.map((row) => {
        const bytes = row.parts.reduce((sum, part) => sum + part.bytes, 0);
        start += bytes;
        return {...row, gpu, where: nameGpu(gpu, hosts), bytes, start: start - bytes};
    });
}

function drawBar(canvas, {gpu, parts, start}, top) {
    const width = canvas.parentElement.clientWidth, context = sizeCanvas(canvas, width, HEIGHT);
    const x = (bytes) => bytes / top * width;
    context.fillStyle = theme().unknown;
    context.fillRect(0, 0, x(gpu.total_bytes || top), HEIGHT);
    let from = start;
    for (const {row, bytes} of parts) {
        context.fillStyle = rowFill(context, row, 0);
        context.fillRect(x(from), 2, Math.max(0.5, x(bytes)), HEIGHT - 4);
        from += bytes;
    }
}

function makeRow(row, titleOf) {
    const canvas = element("canvas", {"aria-hidden": "true"});
    const said = row.parts.map(({row: part, bytes}) => `${titleOf(part.key)} ${formatBytes(bytes)}`).join(", ");
    return {canvas, ...row, line: element("tr", {class: row.failed ? "failed" : null},
        element("th", {scope: "row"}, row.name, row.failed ? element("strong", {}, " out of memory") : null),
        element("td", {}, row.where),
        element("td", {class: "strip", title: said}, element("div", {role: "img", "aria-label": said}, canvas)),
        element("td", {class: "bytes"}, formatBytes(row.bytes)))};
}

function makeLegend(rows, titleOf) {
    const sums = new Map();
    for (const {row, bytes} of rows.flatMap((each) => each.parts))
        sums.set(row.key, {row, bytes: (sums.get(row.key)?.bytes || 0) + bytes});
    return [...sums.values()].sort((a, b) => b.bytes - a.bytes).map(({row}) => {
        const swatch = element("canvas", {"aria-hidden": "true"});
        return {row, swatch, item: element("li", {}, swatch, element("span", {}, titleOf(row.key)))};
    });
}

export function makeRanks(processes, traces) {
    if (!processes || processes.moment.what === "own")
        return;
    const titles = new Map(traces.flatMap((trace) => trace.devices.flatMap((device) => device.rows.map((row) => [row.key, row.name]))));
    const titleOf = (key) => ({untracked: "untracked", others: "others"})[key] || titles.get(key) || cleanText(key);
    const all = processes.gpus.flatMap((gpu, g) => rowsOf(processes, gpu, g)), shown = all.slice(0, MOST_ROWS);
    const figure = all.length ? addFigure("ranks") : null;
    if (!figure)
        return;
    const top = Math.max(...all.map((row) => Math.max(row.gpu.total_bytes || 0, row.start + row.bytes)));
    const rows = shown.map((row) => makeRow(row, titleOf)), legend = makeLegend(shown, titleOf);
    figure.before(...document.querySelectorAll("#ranks > .answer"));
    figure.append(element("table", {class: "ranks"}, element("tbody", {}, ...rows.map((row) => row.line))),
        element("ul", {class: "legend"}, ...legend.map((entry) => entry.item)));
    if (all.length > shown.length)
        figure.append(element("p", {class: "hint"}, `${all.length - shown.length} more are in the words below.`));
    const draw = onceAFrame(() => {
        rows.forEach((row) => drawBar(row.canvas, row, top));
        legend.forEach(({row, swatch}) => drawSwatch(swatch, (context) => rowFill(context, row, 0)));
    });
    onTheme(draw);
    new ResizeObserver(draw).observe(figure);
}
