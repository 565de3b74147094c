// SPDX-License-Identifier: Apache-2.0
// Drives Chromium for tests/page/browser.py: a command in JSON on each line of standard input, its answer on one of
// standard output. Usage: node browser.mjs TOOLS CHROMIUM
import {createRequire} from "node:module";
import path from "node:path";
import readline from "node:readline";

const [tools, executablePath] = process.argv.slice(2);
const {chromium} = createRequire(path.resolve(tools, "package.json"))("playwright-core");
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];
let browser = null, context = null, page = null, problems = [];

const commands = {
    // A page of its own, with nothing that an earlier one left: size, colours, medium, with or without script.
    async open({url, width = 1280, height = 900, scheme = "light", script = true, ratio = 1}) {
        if (context)
            await context.close();
        problems = [];
        browser = browser || await chromium.launch({executablePath, headless: true, args: ARGUMENTS, timeout: 0});
        context = await browser.newContext({viewport: {width, height}, colorScheme: scheme, javaScriptEnabled: script,
            deviceScaleFactor: ratio, offline: true, reducedMotion: "reduce"});
        context.setDefaultTimeout(0); // how long anything takes on a busy machine is no failure: run-suites.sh ends what hangs
        page = await context.newPage();
        page.on("console", (message) => problems.push(`console: ${message.type()}: ${message.text()}`));
        page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
        page.on("request", (request) => request.url().split("#")[0] === url.split("#")[0] ||
            problems.push(`request: ${request.url().slice(0, 200)}`));
        page.on("dialog", (dialog) => {
            problems.push(`dialog: ${dialog.message()}`);
            dialog.dismiss();
        });
        await page.goto(url);
        if (script)
            await commands.settle();
    },
    // Figures draw before the next frame; two frames later they are drawn.
    settle: () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() =>
        setTimeout(done, 0))))).then(() => undefined),
    evaluate: ({code}) => page.evaluate(code),
    problems: () => problems,
    async box({selector}) {
        await page.locator(selector).first().scrollIntoViewIfNeeded();
        return page.locator(selector).first().boundingBox();
    },
    focus: ({selector}) => page.locator(selector).first().focus(),
    // The nodes of the accessibility tree that a reader stops at: [role, name].
    async heard() {
        const session = await context.newCDPSession(page), {nodes} = await session.send("Accessibility.getFullAXTree");
        await session.detach();
        return nodes.filter((node) => !node.ignored && node.role).map((node) => [node.role.value, (node.name && node.name.value) || ""]);
    },
    // With the margins that the browser's own dialogue has.
    pdf: ({file}) => page.pdf({path: file, format: "A4", printBackground: true,
        margin: {top: "1cm", bottom: "1cm", left: "1cm", right: "1cm"}}).then(() => undefined),
    shot: ({file}) => page.screenshot({path: file, fullPage: true}),
    // As `page.content()` has it where the page may run no script.
    text: ({selector}) => page.locator(selector).first().innerText(),
    count: ({selector}) => page.locator(selector).count(),
};

// What a reader does: its answer comes when the figures are drawn anew.
const acts = {
    move: ({x, y}) => page.mouse.move(x, y),
    click: ({x, y}) => page.mouse.click(x, y),
    doubleClick: ({x, y}) => page.mouse.dblclick(x, y),
    async drag({x, y, to = x, toY = y}) {
        await page.mouse.move(x, y);
        await page.mouse.down();
        await page.mouse.move((x + to) / 2, (y + toY) / 2);
        await page.mouse.move(to, toY);
        await page.mouse.up();
    },
    press: ({selector}) => page.locator(selector).first().click(),
    key: ({key}) => page.keyboard.press(key),
    fill: ({selector, text}) => page.locator(selector).first().fill(text),
    media: ({media, scheme}) => page.emulateMedia({media, colorScheme: scheme}),
};
for (const [name, act] of Object.entries(acts))
    commands[name] = async (values) => {
        await act(values);
        await commands.settle();
    };

for await (const line of readline.createInterface({input: process.stdin})) {
    const {command, ...values} = JSON.parse(line);
    let answer;
    try {
        const result = await commands[command](values);
        answer = {result: result === undefined ? null : result};
    } catch (error) {
        answer = {failed: `${command}: ${error.message}`.slice(0, 2000)};
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`);
}
if (browser)
    await browser.close();
process.exit(0);
