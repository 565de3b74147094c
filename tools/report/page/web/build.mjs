// SPDX-License-Identifier: Apache-2.0
// Bundles the script and the style of the page. Usage: node build.mjs TOOLS FOLDER
// TOOLS has the packages of package-lock.json (scripts/fetch-page-tools.sh), FOLDER gets page.js and page.css.
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const [tools, folder] = process.argv.slice(2).map((argument) => path.resolve(argument));
const esbuild = createRequire(path.join(tools, "package.json"))("esbuild");
const licence = readFileSync(path.join(tools, "node_modules/uplot/LICENSE"), "utf8").trim().replace(/[^\t\n -~]/g, "");

await esbuild.build({
    absWorkingDir: here,
    entryPoints: {page: "main.js"},
    outdir: folder,
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2019",
    charset: "ascii",
    legalComments: "none",
    nodePaths: [path.join(tools, "node_modules")],
    banner: {js: `/* cutrace, Apache-2.0. It contains uPlot:\n${licence}\n*/`},
    logLevel: "warning",
    logLimit: 8,
});
