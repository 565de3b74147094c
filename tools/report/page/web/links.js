// SPDX-License-Identifier: Apache-2.0
// The address of the page names what it shows: `#t=NS&gpu=N&from=NS&to=NS`, and `trace=N` (from 0) where there are
// several. Links of the text name a moment the same way.
import {firstMoment, lastAtOrBefore} from "./data.js";
import {usualBands} from "./site_bands.js";
import {showRange} from "./time_view.js";
import {usualHeight} from "./timeline.js";

const number = (text) => (text !== null && /^\d{1,16}$/.test(text) ? Number(text) : null);

export function readAddress(hash) {
    const values = new URLSearchParams(hash.replace(/^#/, ""));
    const read = (name) => number(values.get(name));
    return {t: read("t"), gpu: read("gpu"), trace: read("trace"), from: read("from"), to: read("to")};
}

// Shows what an address names; what it does not name stays. False: it names nothing that is there.
export function follow(state, hash, within) {
    const wanted = readAddress(hash);
    if (wanted.trace === null && within !== undefined)
        wanted.trace = within;
    if (wanted.t === null && wanted.gpu === null && wanted.from === null)
        return false;
    const trace = state.traces[wanted.trace === null ? state.get().trace : wanted.trace];
    const device = trace && (wanted.gpu !== null ? trace.devices.find((each) => each.device === wanted.gpu) :
        trace.devices[trace.index === state.get().trace ? state.get().device : 0]);
    if (!device)
        return false;
    const change = {trace: trace.index, device: device.index, hover: null, from: null, to: null};
    if (trace.index !== state.get().trace || device.index !== state.get().device)
        Object.assign(change, {height: usualHeight(device), bands: usualBands(device)});
    change.moment = wanted.t === null ? firstMoment(device) : Math.max(0, lastAtOrBefore(device.t, wanted.t));
    state.set(change);
    if (wanted.from !== null && wanted.to !== null && wanted.to > wanted.from)
        showRange(state, wanted.from, wanted.to);
    return true;
}

export function addressOf(state) {
    const {moment, from, to, trace} = state.get(), device = state.device();
    const parts = [`t=${device.t[moment]}`, `gpu=${device.device}`];
    if (state.traces.length > 1)
        parts.push(`trace=${trace}`);
    if (from !== null)
        parts.push(`from=${from}`, `to=${to}`);
    return `#${parts.join("&")}`;
}

// Keeps the address up to date, and answers links and the history.
export function connectAddress(state) {
    let written = null;
    state.listen((now, before) => {
        if (["trace", "device", "moment", "from", "to"].every((key) => now[key] === before[key]))
            return;
        written = addressOf(state);
        history.replaceState(null, "", written);
    });
    window.addEventListener("hashchange", () => location.hash !== written && follow(state, location.hash));
    document.addEventListener("click", (event) => {
        const link = event.target.closest && event.target.closest("a.moment");
        const trace = link && link.closest("[data-trace]"); // in what is written of one of several traces
        if (!link || !follow(state, link.hash, trace ? number(trace.dataset.trace) : undefined))
            return;
        event.preventDefault();
        document.getElementById("timeline").scrollIntoView({block: "start"});
    });
}

// Copies the address; where the browser does not let a file do so, it is shown to be copied by hand.
export function copyAddress(state, host, say) {
    const address = location.href.replace(/#.*$/, "") + addressOf(state);
    const byHand = () => {
        let field = host.querySelector("input.address");
        if (!field) {
            field = document.createElement("input");
            field.className = "address";
            field.readOnly = true;
            field.setAttribute("aria-label", "Address of this moment");
            host.append(field);
        }
        field.value = address;
        field.select();
        say("The address is selected");
    };
    if (!navigator.clipboard)
        return byHand();
    return navigator.clipboard.writeText(address).then(() => say("The address is copied"), byHand);
}
