// Fails where a module of the page imports from a layer above its own, or where imports form a circle.
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

const LAYERS = ["gen", "base", "cloud", "rpc", "nearest", "view", "state", "panels", "main.ts"];
const files = readdirSync("src", { recursive: true }).filter((name) => /(?<!\.d)\.ts$/.test(name));
const layer = (name) => LAYERS.indexOf(name.split("/")[0]);
const imports = new Map(
  files.map((name) => {
    const text = readFileSync(join("src", name), "utf8");
    const found = [...text.matchAll(/(?:from|import\(?|new URL\()\s*"(\.[^"?]*)"/g)].map(
      ([, path]) => normalize(join(dirname(name), path)).replace(/(\.ts)?$/, ".ts"),
    );
    return [name, found];
  }),
);
const problems = [];
const done = new Set();
const visit = (name, path) => {
  if (path.includes(name))
    problems.push(`circle: ${[...path.slice(path.indexOf(name)), name].join(" -> ")}`);
  else if (!done.has(name))
    for (const next of imports.get(name) ?? []) visit(next, [...path, name]);
  done.add(name);
};
for (const [name, found] of imports) {
  if (layer(name) < 0) problems.push(`${name} is in no layer`);
  for (const other of found) {
    if (!imports.has(other)) problems.push(`${name} imports ${other}, which does not exist`);
    if (layer(other) > layer(name)) problems.push(`${name} imports ${other} of a layer above`);
  }
  visit(name, []);
}
for (const problem of problems) console.error(problem);
process.exit(problems.length ? 1 : 0);
