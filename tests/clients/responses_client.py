"""Uses the Responses API through the `openai` package: `responses_client.py URL`. Ends with an error at the first
surprise."""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0, timeout=120)
model = client.models.list().data[0].id
QUESTION = "What is the capital of France?"


def raises(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError("no %s" % error.__name__)


def ask(**more):
    return client.responses.create(**{"model": model, "input": QUESTION, "temperature": 0, **more})


def check_create():
    answer = ask(max_output_tokens=32, instructions="Be brief.", metadata={"a": "b"})
    assert "Paris" in answer.output_text and answer.status == "completed", answer
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens, answer
    assert (answer.instructions, answer.metadata, answer.store) == ("Be brief.", {"a": "b"}, True), answer
    assert ask(max_output_tokens=2).incomplete_details.reason == "max_output_tokens"


def check_stream():
    events = list(ask(max_output_tokens=32, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed"), events
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == ask(max_output_tokens=32).output_text, events[-1]
    with client.responses.stream(model=model, input=QUESTION, temperature=0, max_output_tokens=32) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_response()
    assert final.output_text == text and "response.output_text.done" in kinds, (kinds, final)


def check_conversation():
    first = ask(max_output_tokens=32)
    second = ask(input="And of Italy?", previous_response_id=first.id, max_output_tokens=16)
    assert second.usage.input_tokens > first.usage.input_tokens + first.usage.output_tokens, second
    said = [{"role": "user", "content": QUESTION}, *first.output, {"role": "user", "content": "And of Italy?"}]
    assert ask(input=said, max_output_tokens=16).output_text == second.output_text
    items = list(client.responses.input_items.list(second.id, limit=1, order="asc"))
    assert [item.content[0].text for item in items] == [QUESTION, first.output_text, "And of Italy?"], items


def check_store():
    kept = ask(max_output_tokens=8)
    assert client.responses.retrieve(kept.id).output_text == kept.output_text
    raises(openai.BadRequestError, lambda: client.responses.cancel(kept.id))
    client.responses.delete(kept.id)
    for call in (client.responses.retrieve, client.responses.delete, client.responses.cancel):
        assert raises(openai.NotFoundError, lambda: call(kept.id)).status_code == 404
    raises(openai.NotFoundError, lambda: client.responses.retrieve(ask(max_output_tokens=2, store=False).id))


def check_input_tokens():
    count = client.responses.input_tokens.count(model=model, input=QUESTION).input_tokens
    assert count == ask(max_output_tokens=1).usage.input_tokens > 5, count


def check_errors():
    for more, param, code in [
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "unsupported_parameter"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"temperature": -1}, "temperature", "invalid_value"),
        ({"previous_response_id": "resp_0"}, "previous_response_id", "previous_response_not_found"),
    ]:
        caught = raises(openai.BadRequestError, lambda: ask(**more))
        assert (caught.param, caught.code) == (param, code), caught.body


CHECKS = [check_create, check_stream, check_conversation, check_store, check_input_tokens, check_errors]

for check in CHECKS:
    check()
print("%d checks passed" % len(CHECKS))
