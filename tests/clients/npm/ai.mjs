// The `ai` package, through its provider for servers that are compatible with OpenAI.

import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai from "ai";
import { z } from "zod";

const { model, question, run, tool, url } = await import(pathToFileURL(process.argv[2]));

const provider = createOpenAICompatible({
  name: "troupe",
  baseURL: `${url}/v1`,
  includeUsage: true,
  supportsStructuredOutputs: true,
});
const ask = { model: provider(model), prompt: question, temperature: 0, maxOutputTokens: 32, maxRetries: 0 };

await run({
  async chat() {
    const answer = await ai.generateText(ask);
    assert.match(answer.text, /Paris/);
    assert.ok(answer.usage.outputTokens > 1);
  },

  async stream() {
    const answer = ai.streamText(ask);
    let text = "";
    let pieces = 0;
    for await (const piece of answer.textStream) {
      text += piece;
      pieces += 1;
    }
    assert.match(text, /Paris/);
    assert.ok(pieces > 3);
    assert.ok((await answer.usage).outputTokens > 1);
  },

  async errors() {
    const refused = (error) => ai.APICallError.isInstance(error) && error.statusCode === 400;
    await assert.rejects(ai.generateText({ ...ask, topP: 2 }), refused);
  },

  async embeddings_are_refused() {
    const refused = (error) => ai.APICallError.isInstance(error) && error.statusCode === 404;
    const embed = ai.embed({ model: provider.textEmbeddingModel(model), value: "a", maxRetries: 0 });
    await assert.rejects(embed, refused);
  },

  async tools() {
    const asked = [];
    const answer = await ai.generateText({
      ...ask,
      prompt: "What is the weather in Paris?",
      maxOutputTokens: 128,
      toolChoice: { type: "tool", toolName: tool.name },
      tools: {
        [tool.name]: ai.tool({
          description: tool.description,
          inputSchema: z.object({ city: z.enum(["Paris", "Rome"]) }),
          execute: async ({ city }) => asked.push(city) && "sunny",
        }),
      },
    });
    assert.equal(answer.toolCalls[0].toolName, tool.name);
    assert.ok(["Paris", "Rome"].includes(asked[0]), asked);
  },

  async parse() {
    const schema = z.object({ name: z.string(), inhabitants: z.number().int() });
    const answer = await ai.generateText({
      ...ask,
      prompt: "Tell me about Paris.",
      maxOutputTokens: 64,
      output: ai.Output.object({ schema }),
    });
    assert.equal(typeof answer.output.name, "string");
  },
});
