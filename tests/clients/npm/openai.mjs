// The `openai` package for Node.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

const { get, model, question, run, tool, url } = await import(pathToFileURL(process.argv[2]));

const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0, timeout: 120_000 });
const ask = { model, messages: [{ role: "user", content: question }], temperature: 0, max_tokens: 32 };
const City = z.object({ name: z.string(), inhabitants: z.number().int() });

await run({
  async models() {
    const ids = [];
    for await (const each of client.models.list()) ids.push(each.id);
    assert.deepEqual(ids, [model]);
  },

  async chat() {
    const answer = await client.chat.completions.create(ask);
    assert.match(answer.choices[0].message.content, /Paris/);
    assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  },

  async stream() {
    const stream = await client.chat.completions.create({
      ...ask,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let usage = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    assert.match(text, /Paris/);
    assert.ok(usage.completion_tokens > 1);
  },

  async abort() {
    const stream = await client.chat.completions.create({ ...ask, max_tokens: 4000, ignore_eos: true, stream: true });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 10) break;
    const left = await get("/ready");
    let now = left;
    for (const deadline = Date.now() + 120_000; now.num_requests_running > 0; now = await get("/ready")) {
      assert.ok(Date.now() < deadline, JSON.stringify(now));
    }
    // The whole answer is 4,000 steps; a busy machine may let some pass before it closes the connection.
    assert.ok(now.steps - left.steps < 1000, JSON.stringify([left, now]));
  },

  async errors() {
    const refused = (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature";
    await assert.rejects(client.chat.completions.create({ ...ask, temperature: -1 }), refused);
    await assert.rejects(client.models.retrieve("nobody"), OpenAI.NotFoundError);
  },

  async embeddings_are_refused() {
    await assert.rejects(client.embeddings.create({ model, input: "a" }), OpenAI.NotFoundError);
  },

  async tools() {
    const asked = [];
    const runner = client.chat.completions.runTools({
      ...ask,
      tool_choice: { type: "function", function: { name: tool.name } },
      tools: [
        {
          type: "function",
          function: { ...tool, parse: JSON.parse, function: (given) => asked.push(given.city) && "sunny" },
        },
      ],
    });
    const call = await runner.finalFunctionToolCall();
    assert.equal(call.name, tool.name);
    assert.ok(["Paris", "Rome"].includes(asked[0]), asked);
  },

  async parse() {
    const answer = await client.chat.completions.parse({
      ...ask,
      max_tokens: 64,
      response_format: zodResponseFormat(City, "city"),
    });
    assert.equal(typeof answer.choices[0].message.parsed.name, "string");
  },

  async responses() {
    const answer = await client.responses.create({ model, input: question, temperature: 0 });
    assert.match(answer.output_text, /Paris/);
  },
});
