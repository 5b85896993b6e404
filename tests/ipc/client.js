// A client of the bridge in another language. It knows nothing but the schema's words: it says a
// few messages, waits for the answer of each, checks its shape, and prints what it saw as JSON.
"use strict";
const net = require("node:net");
const readline = require("node:readline");

const socket = net.createConnection(process.argv[2]);
const lines = readline.createInterface({ input: socket });
const waiting = [];
const notices = [];

lines.on("line", (line) => {
  const message = JSON.parse(line);
  if (message.type === "stream_token" || message.method === "stream.token") {
    notices.push(message);
    return;
  }
  waiting.shift()(message);
});

function ask(message) {
  return new Promise((resolve) => {
    waiting.push(resolve);
    socket.write(JSON.stringify(message) + "\n");
  });
}

function checkInfo(info) {
  // What a typed client has to be able to rely on.
  if (typeof info.session_id !== "string") throw new Error("session_id");
  if ("title" in info && typeof info.title !== "string") throw new Error("title");
  for (const name of ["created_at", "updated_at"]) {
    if (!info[name].endsWith("Z")) throw new Error(name + " is not UTC");
    if (new Date(info[name]).toISOString() !== info[name]) throw new Error(name);
  }
  for (const name of ["message_count", "total_tokens"]) {
    if (!Number.isInteger(info[name])) throw new Error(name);
  }
}

async function main() {
  const seen = [];
  seen.push(await ask({ type: "initialize", demo_mode: true }));
  seen.push(await ask({ type: "session_create", title: "Über ☃ \u{1f40e}" }));
  const id = seen.at(-1).session_id;
  seen.push(await ask({ type: "query", query: "hello from node" }));
  seen.push(await ask({ type: "session_save" }));
  seen.push(await ask({ type: "session_list", limit: 10 }));
  seen.at(-1).sessions.forEach(checkInfo);
  seen.push(await ask({ type: "session_load", session_id: id }));
  seen.push(await ask({ type: "session_export", format: "markdown" }));
  seen.push(await ask({ jsonrpc: "2.0", id: 1, method: "session.list", params: {} }));
  seen.at(-1).result.sessions.forEach(checkInfo);
  seen.push(await ask({ jsonrpc: "2.0", id: 2, method: "agent.query", params: { query: "two" } }));
  seen.push(await ask({ type: "session_load", session_id: "no-such-session" }));
  seen.push(await ask({ type: "session_delete", session_id: id }));
  console.log(JSON.stringify({ seen, notices }));
  socket.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
