"""The examples of the OpenAPI document: each is answered, and what comes is as its schema says, event by event."""

import json
import urllib.request

import jsonschema_rs

import flows

document = flows.get("/openapi.json")
model = flows.model()


# Other streams end in an event of their API's own.
ENDS_IN_DONE = ["/v1/chat/completions", "/v1/completions"]


def examples(streamed):
    """(path, its operation, body) of each example that asks for a stream, or does not."""
    for path, item in document["paths"].items():
        content = item.get("post", {}).get("requestBody", {}).get("content", {})
        for example in content.get("application/json", {}).get("examples", {}).values():
            body = example["value"]
            if body.get("stream", False) is streamed:
                # An example cannot know the name of the model.
                yield path, item["post"], {**body, "model": model} if "model" in body else body


def post(path, body):
    request = urllib.request.Request(flows.URL + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=flows.PATIENCE) as answer:
        return answer.headers["content-type"], answer.read().decode()


def check(schema, value):
    validator = jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})
    for error in validator.iter_errors(value):
        raise AssertionError("%s: %s" % (error.message, json.dumps(value)))


def flow_whole_answers():
    count = 0
    for path, operation, body in examples(streamed=False):
        content = operation["requestBody"]["content"]["application/json"]
        check(content["schema"], body)
        kind, text = post(path, body)
        check(operation["responses"]["200"]["content"][kind]["schema"], json.loads(text))
        count += 1
    assert count >= 8, count


def flow_streams():
    count = 0
    for path, operation, body in examples(streamed=True):
        kind, text = post(path, body)
        event = operation["responses"]["200"]["content"][kind]["schema"]
        data = event["properties"]["data"]
        schema = data.get("anyOf", [data])[0]["contentSchema"]
        events = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
        if path in ENDS_IN_DONE:
            assert events.pop() == "[DONE]", text
        # Some are sampled, so an answer may be short, but it does not come as one event.
        assert len(events) > 1, text
        for data in events:
            check(schema, json.loads(data))
        count += 1
    assert count >= 3, count


flows.run(globals())
