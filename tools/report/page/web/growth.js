// SPDX-License-Identifier: Apache-2.0
// Call sites that grow, as `cutrace-report leaks` found them: what each held over time, small, one beside the other.
import {addFigure, element, onceAFrame, sizeCanvas} from "./dom.js";
import {cleanText} from "./data.js";
import {formatBytes, formatElapsed} from "./format.js";
import {mix, onTheme, siteColour, theme} from "./palette.js";

const MOST = 12, HEIGHT = 72;

// What the call sites with a name held at the moments where that is known.
function followSite(device, kind, label) {
    const wanted = new Set();
    device.sites.forEach((site, s) => site.label === label && site.kind === kind && wanted.add(s));
    const held = new Map(), curve = [];
    device.live.at.forEach((moment, k) => {
        const list = device.live.changes[k];
        for (let i = 0; i < list.length; i += 3)
            if (wanted.has(list[i]))
                held.set(list[i], list[i + 1]);
        curve.push({t: device.t[moment], bytes: [...held.values()].reduce((sum, bytes) => sum + bytes, 0)});
    });
    return {curve, colour: () => siteColour(device.sites[[...wanted][0]]), known: wanted.size > 0};
}

function drawCurve(canvas, follow, since, from, to) {
    const width = canvas.parentElement.clientWidth, context = sizeCanvas(canvas, width, HEIGHT);
    const top = Math.max(1, ...follow.curve.map((point) => point.bytes));
    const x = (t) => (t - from) / (to - from) * (width - 2) + 1;
    const y = (bytes) => HEIGHT - 2 - bytes / top * (HEIGHT - 10);
    const trace = () => {
        context.beginPath();
        follow.curve.forEach((point, i) => {
            if (i)
                context.lineTo(x(point.t), y(follow.curve[i - 1].bytes));
            context[i ? "lineTo" : "moveTo"](x(point.t), y(point.bytes));
        });
    };
    context.fillStyle = theme().paper;
    context.fillRect(0, 0, width, HEIGHT);
    trace();
    context.lineTo(x(follow.curve[follow.curve.length - 1].t), y(0));
    context.lineTo(x(follow.curve[0].t), y(0));
    context.fillStyle = mix(follow.colour(), theme().paper, 0.55);
    context.fill();
    trace();
    context.strokeStyle = follow.colour();
    context.lineWidth = 2;
    context.stroke();
    context.strokeStyle = theme().muted;
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.beginPath();
    context.moveTo(x(since), 0);
    context.lineTo(x(since), HEIGHT);
    context.stroke();
}

function describe(site) {
    if (site.bytes_per_hour !== null && site.bytes_per_hour !== undefined)
        return `+${formatBytes(site.bytes_per_hour)} an hour`;
    return site.filled_t_ns ? "filled, does not grow any more" : "grows more and more slowly";
}

export function makeGrowth(state) {
    const figure = addFigure("growth");
    if (!figure)
        return;
    let cards = [];
    const draw = onceAFrame(() => {
        const {t} = state.device(), end = Math.max(t[t.length - 1], t[0] + 1);
        cards.filter(({follow}) => follow.known)
            .forEach(({canvas, follow, since}) => drawCurve(canvas, follow, since, t[0], end));
    });
    const build = () => {
        const trace = state.trace(), device = state.device(), start = trace.summary.start_ns;
        const found = ((trace.leaks || {}).devices || []).find((each) => each.ordinal === device.device);
        const sites = found ? [...found.growing, ...found.filled].slice(0, MOST) : [];
        cards = sites.map((site) => ({site, since: site.since_t_ns - start,
            canvas: element("canvas", {role: "img", "aria-label": "what it held over time"}),
            follow: followSite(device, site.kind, cleanText(site.site))}));
        figure.replaceChildren(...cards.map(({site, canvas, follow, since}) => element("div", {class: "card"},
            element("p", {class: "label"}, cleanText(site.site)),
            element("p", {}, element("b", {}, describe(site)),
                ` since ${formatElapsed(since)}; holds ${formatBytes(site.bytes)}`),
            follow.known ? element("div", {class: "canvas"}, canvas) : null)));
        figure.hidden = !cards.length;
        draw();
    };
    build();
    state.listen((now, before) => {
        if (now.device !== before.device || now.trace !== before.trace)
            build();
    });
    onTheme(draw);
    new ResizeObserver(draw).observe(figure);
}
