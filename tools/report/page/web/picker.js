// SPDX-License-Identifier: Apache-2.0
// Where there are several devices or processes: one small picture of each, side by side at the same scale of time if
// their clocks allow it; one of them is shown large.
import {element, onceAFrame, sizeCanvas} from "./dom.js";
import {firstMoment, lastAtOrBefore} from "./data.js";
import {formatBytes} from "./format.js";
import {onTheme, rowFills, theme} from "./palette.js";
import {usualHeight} from "./timeline.js";

const HEIGHT = 54;

function drawSmall(canvas, device) {
    const width = canvas.parentElement.clientWidth, context = sizeCanvas(canvas, width, HEIGHT);
    const {t} = device, from = t[0], to = Math.max(t[t.length - 1], from + 1), fills = rowFills(context, device.rows);
    const top = device.capacity || Math.max(1, ...device.edges[device.edges.length - 1]);
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, width, HEIGHT);
    for (let x = 0; x < width; x++) {
        const i = Math.max(0, lastAtOrBefore(t, from + (to - from) * (x + 1) / width));
        device.rows.forEach((row, r) => {
            const low = r ? device.edges[r - 1][i] : 0, high = device.edges[r][i];
            if (!fills[r] || high <= low)
                return;
            context.fillStyle = fills[r];
            context.fillRect(x, HEIGHT - high / top * HEIGHT, 1, (high - low) / top * HEIGHT);
        });
    }
    context.fillStyle = theme().alarm;
    device.marks.filter((mark) => mark.kind === "crossing").forEach((mark) =>
        context.fillRect((t[mark.at] - from) / (to - from) * width - 1, 0, 2, HEIGHT));
}

export function chooseDevice(state, trace, device) {
    const found = state.traces[trace].devices[device];
    state.set({trace, device, moment: firstMoment(found), from: null, to: null, hover: null,
        height: usualHeight(found)});
}

export function makePicker(state) {
    const all = state.traces.flatMap((trace) => trace.devices.map((device) => ({trace, device})));
    if (all.length < 2)
        return null;
    const many = state.traces.length > 1;
    const entries = all.map(({trace, device}) => {
        const canvas = element("canvas", {"aria-hidden": "true"});
        const text = `${many ? `${trace.title} \u00b7 ` : ""}GPU ${device.device}` +
            (device.capacity ? ` \u00b7 ${formatBytes(device.capacity)}` : "");
        const press = element("button", {type: "button", class: "device",
            onclick: () => chooseDevice(state, trace.index, device.index)}, element("span", {}, text),
        element("span", {class: "canvas"}, canvas));
        return {trace, device, canvas, press};
    });
    const box = element("div", {class: "picker", role: "group", "aria-label": "Device"},
        ...entries.map((entry) => entry.press));
    const show = () => entries.forEach(({trace, device, press}) => press.setAttribute("aria-pressed",
        String(trace.index === state.get().trace && device.index === state.get().device)));
    const draw = onceAFrame(() => entries.forEach(({canvas, device}) => drawSmall(canvas, device)));
    state.listen(show);
    show();
    onTheme(draw);
    new ResizeObserver(draw).observe(box);
    return box;
}
