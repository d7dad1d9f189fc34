"""Uses a server through the `anthropic` package: `messages_client.py URL`. Ends with an error at the first surprise."""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="none", max_retries=0, timeout=120)
model = client.get("/v1/models", cast_to=object)["data"][0]["id"]
GREEDY = {"temperature": 0}  # the API has it, the package does not name it
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def raises(error, call):
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError("no %s" % error.__name__)


def prompt_tokens(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def check_create():
    answer = client.messages.create(model=model, messages=QUESTION, max_tokens=32, extra_body=GREEDY, system="Be brief.")
    assert (answer.role, answer.type, answer.content[0].type) == ("assistant", "message", "text"), answer
    assert "Paris" in answer.content[0].text and answer.usage.output_tokens > 1, answer


def check_stream():
    ask = dict(model=model, messages=QUESTION, max_tokens=32, extra_body=GREEDY)
    with client.messages.stream(**ask) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = client.messages.create(**ask)
    assert final.content[0].text == text == whole.content[0].text, (text, whole)
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens), final
    assert prompt_tokens(final.usage) == prompt_tokens(whole.usage), (final.usage, whole.usage)
    events = [event.type for event in client.messages.create(stream=True, **ask)]
    assert (events[0], events[-1]) == ("message_start", "message_stop"), events


def check_stop_sequence():
    answer = client.messages.create(
        model=model, messages=QUESTION, max_tokens=64, extra_body=GREEDY, stop_sequences=["Rome", "Paris"]
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "Paris"), answer
    assert "Paris" not in answer.content[0].text, answer


def check_turns():
    cached = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    answer = client.messages.create(model=model, messages=QUESTION, max_tokens=32, extra_body=GREEDY, system=[cached])
    turns = QUESTION + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "Of Italy?"}]
    again = client.messages.create(model=model, messages=turns, max_tokens=16, extra_body=GREEDY, system=[cached])
    assert again.content[0].text and prompt_tokens(again.usage) > prompt_tokens(answer.usage), again


def check_count_tokens():
    count = client.messages.count_tokens(model=model, messages=QUESTION, system="Be brief.").input_tokens
    answer = client.messages.create(model=model, messages=QUESTION, system="Be brief.", max_tokens=1)
    assert count == prompt_tokens(answer.usage) > 5, (count, answer.usage)


def check_errors():
    def create(**more):
        return client.messages.create(**{"model": model, "messages": QUESTION, "max_tokens": 8, **more})

    caught = raises(anthropic.NotFoundError, lambda: create(model="nobody"))
    assert caught.body["error"]["type"] == "not_found_error" and caught.request_id, caught.body
    caught = raises(anthropic.BadRequestError, lambda: create(extra_body={"temperature": -1}))
    assert caught.body["error"]["type"] == "invalid_request_error", caught.body
    assert "temperature" in caught.body["error"]["message"], caught.body
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}
    caught = raises(anthropic.BadRequestError, lambda: create(messages=[{"role": "user", "content": [image]}]))
    assert "messages[0].content[0]" in caught.body["error"]["message"], caught.body


CHECKS = [check_create, check_stream, check_stop_sequence, check_turns, check_count_tokens, check_errors]

for check in CHECKS:
    check()
print("%d checks passed" % len(CHECKS))
