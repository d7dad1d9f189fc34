// What the flows of the clients for Node share. A client's file is read from standard input by a node that stands where
// the packages are: `node --input-type=module - FLOWS URL FLOW... < NAME.mjs`, where FLOWS is this file.

export const url = process.argv[3];
export const question = "What is the capital of France?";

export const tool = {
  name: "get_weather",
  description: "The weather in a city.",
  parameters: {
    type: "object",
    properties: { city: { type: "string", enum: ["Paris", "Rome"] } },
    required: ["city"],
    additionalProperties: false,
  },
};

export async function get(path) {
  const answer = await fetch(url + path);
  return answer.json();
}

export const model = (await get("/v1/models")).data[0].id;

/** Runs the flows that the command line names. */
export async function run(flows) {
  const names = process.argv.slice(4);
  if (names.length === 0) throw new Error("no flow was named");
  for (const name of names) {
    console.error("flow", name);
    if (!flows[name]) throw new Error(`no flow ${name}`);
    await flows[name]();
  }
  console.log(`${names.length} flows passed`);
}
