// memcached-elasticache: follows the servers that `config get cluster` names.
//
//     node discovery.js HOST:PORT
//
// Reads lines from standard input. To `nodes` it answers with the servers that it uses, to
// `use NAME COUNT` with how many of so many keys it could not store and read again: one JSON each.
"use strict";

const readline = require("readline");
const Client = require("memcached-elasticache");

const INTERVAL_MS = 200;
const client = new Client(process.argv[2], { autoDiscoverInterval: INTERVAL_MS, timeout: 3000, retries: 0 });
let nodes = [];
client.on("autoDiscover", (found) => {
  nodes = found;
});

const stored = (key, value) =>
  new Promise((resolve) => client.set(key, value, 0, (error, is) => resolve(!error && is)));
const found = (key) =>
  new Promise((resolve) => client.get(key, (error, value) => resolve(error ? undefined : value)));

async function use(name, count) {
  let failed = 0;
  for (let nth = 0; nth < count; nth += 1) {
    const key = `${name}-${nth}`;
    const value = `value of ${key}`;
    if (!(await stored(key, value)) || (await found(key)) !== value) {
      failed += 1;
    }
  }
  return failed;
}

readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const [what, name, count] = line.split(" ");
  const answer = what === "nodes" ? nodes : await use(name, Number(count));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
});
process.stdin.on("end", () => process.exit(0));
