"""pi, a small command-line agent that speaks three APIs: `--agent-option dialect=anthropic-messages`, for example."""

from __future__ import annotations

from .agent import HarnessAgent
from .recipe import Npm, Recipe, ServerSettings

_MODELS = """\
{
  "providers": {
    "assay": {
      "baseUrl": "${base}",
      "api": "${api}",
      "apiKey": "${key}",
      "models": [
        {
          "id": "${model}",
          "name": "${model}",
          "reasoning": true,
          "input": ["text", "image"],
          "contextWindow": ${context},
          "maxTokens": ${output},
          "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        }
      ]
    }
  }
}
"""
_EXTENSION = """\
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";

const FILE = process.env.PI_CODING_AGENT_DIR + "/task-servers.json";
const CLIENT = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "pi", version: "1" } };

function overStdio(server) {
  const child = spawn(server.command, server.args, { stdio: ["pipe", "pipe", "inherit"] });
  const waiting = new Map();
  const handles = [child, child.stdin, child.stdout];
  let rest = "";
  const end = () => {
    for (const done of waiting.values()) done({ error: { message: "the server has ended" } });
    waiting.clear();
  };
  child.on("error", end).on("exit", end);
  child.stdin.on("error", end);
  child.stdout.setEncoding("utf8").on("data", (text) => {
    const lines = (rest + text).split("\\n");
    rest = lines.pop();
    for (const line of lines) {
      let message = {};
      try {
        message = JSON.parse(line);
      } catch {
        continue;
      }
      const done = waiting.get(message.id);
      waiting.delete(message.id);
      if (done) done(message);
    }
    if (!waiting.size) for (const one of handles) one.unref();  // a server at rest does not keep pi alive
  });
  return (message) =>
    new Promise((done) => {
      if (message.id === undefined) {
        done({});
      } else {
        waiting.set(message.id, done);
        for (const one of handles) one.ref();
      }
      child.stdin.write(JSON.stringify(message) + "\\n");
    });
}

function overHttp(server) {
  const accept = "application/json, text/event-stream";
  const headers = { "Content-Type": "application/json", Accept: accept, ...server.headers };
  return async (message) => {
    const answer = await fetch(server.url, { method: "POST", headers, body: JSON.stringify(message) });
    const session = answer.headers.get("mcp-session-id");
    if (session) headers["Mcp-Session-Id"] = session;
    const text = await answer.text();
    if (message.id === undefined) return {};
    if (!answer.ok) return { error: { message: "HTTP " + answer.status + ": " + text } };
    const isStream = (answer.headers.get("content-type") || "").includes("text/event-stream");
    const events = text.split("\\n").filter((line) => line.startsWith("data:"));
    const found = isStream ? events.map((line) => JSON.parse(line.slice(5))) : [JSON.parse(text)];
    return found.find((one) => one.id === message.id) || { error: { message: "no answer" } };
  };
}

function asContent(part) {
  if (part.type === "image") return { type: "image", data: part.data, mimeType: part.mimeType };
  return { type: "text", text: part.type === "text" ? part.text : JSON.stringify(part) };
}

export default async function (pi) {
  for (const [name, server] of Object.entries(JSON.parse(readFileSync(FILE, "utf8")).mcpServers)) {
    const send = server.type === "stdio" ? overStdio(server) : overHttp(server);
    let number = 0;
    const ask = async (method, params) => {
      const answer = await send({ jsonrpc: "2.0", id: ++number, method, params });
      if (answer.error) throw new Error(name + ": " + answer.error.message);
      return answer.result;
    };
    await ask("initialize", CLIENT);
    await send({ jsonrpc: "2.0", method: "notifications/initialized" });
    let cursor;
    do {
      const page = await ask("tools/list", cursor ? { cursor } : {});
      cursor = page.nextCursor;
      for (const tool of page.tools) {
        pi.registerTool({
          name: ("mcp__" + name + "__" + tool.name).replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64),
          label: tool.name,
          description: tool.description || tool.name,
          parameters: tool.inputSchema,
          async execute(_id, params) {
            const result = await ask("tools/call", { name: tool.name, arguments: params });
            const content = (result.content || []).map(asContent);
            if (result.isError) throw new Error(content.map((part) => part.text || "").join("\\n"));
            return { content, details: {} };
          },
        });
      }
    } while (cursor);
  }
}
"""
"""Extension that offers the tools of MCP servers: pi has no client of its own and leaves this to extensions."""
RECIPE = Recipe(
    name="pi",
    title="pi",
    install=Npm("@mariozechner/pi-coding-agent", "0.73.1"),
    dialects=("openai-chat", "openai-responses", "anthropic-messages"),
    by_dialect={
        "openai-chat": {"api": "openai-completions", "base": "${openai}"},
        "openai-responses": {"api": "openai-responses", "base": "${openai}"},
        "anthropic-messages": {"api": "anthropic-messages", "base": "${url}"},
    },
    command=(
        "${node}",
        "--max-old-space-size=1024",
        "${tree}/node_modules/@mariozechner/pi-coding-agent/dist/cli.js",
        "--provider",
        "assay",
        "--model",
        "${model}",
        "-p",
    ),
    env={"PI_OFFLINE": "1", "PI_CODING_AGENT_DIR": "${home}/.pi/agent"},
    files={".pi/agent/models.json": _MODELS},
    own=(".pi", ".cache"),
    servers=ServerSettings(
        style="pi",
        file=".pi/agent/task-servers.json",
        files={".pi/agent/task-servers.js": _EXTENSION},
        words=("--extension", "${home}/.pi/agent/task-servers.js"),
        transports=("http", "stdio"),
    ),
    skills=".pi/agent/skills",
    side_calls="none",
    # It ends with 0 also where the answer was empty or could not be read.
)


class PiAgent(HarnessAgent):
    """Runs pi."""

    recipe = RECIPE
