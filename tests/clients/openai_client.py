"""The `openai` package."""

import json
import math
import time

import openai
import pydantic

import flows

QUESTION = [{"role": "user", "content": flows.QUESTION}]
STORY = [{"role": "user", "content": "Tell me a very long story."}]
# Ends when it has as many tokens as it may, whatever is drawn.
FULL = {"ignore_eos": True}

client = openai.OpenAI(base_url=flows.URL + "/v1", api_key="none", max_retries=0, timeout=120)
model = client.models.list().data[0].id


class City(pydantic.BaseModel):
    name: str
    inhabitants: int


def refusal(error, call, **details):
    caught = flows.raises(error, call)
    found = {name: getattr(caught, name) for name in details}
    assert found == details, found


def flow_models():
    assert client.models.retrieve(model).id == model
    refusal(openai.NotFoundError, lambda: client.models.retrieve("nobody"), status_code=404)


def flow_chat():
    answer = client.chat.completions.create(model=model, messages=QUESTION, temperature=0)
    assert "Paris" in answer.choices[0].message.content, answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def flow_stream():
    chunks = list(
        client.chat.completions.create(
            model=model, messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert "Paris" in text, text
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens > 1


def flow_stream_helper():
    """The helper that puts events together says what the whole answer says."""
    whole = client.chat.completions.create(model=model, messages=QUESTION, temperature=0, max_tokens=12)
    with client.chat.completions.stream(model=model, messages=QUESTION, temperature=0, max_tokens=12) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == whole.choices[0].message.content, (deltas, whole)


def flow_choices():
    ask = dict(model=model, messages=STORY, n=3, seed=7, max_tokens=8, temperature=1, extra_body=FULL)
    answer = client.chat.completions.create(**ask)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    again = client.chat.completions.create(**ask)
    texts = [choice.message.content for choice in answer.choices]
    assert texts == [choice.message.content for choice in again.choices], (answer, again)
    assert len(set(texts)) > 1, texts
    assert answer.usage.completion_tokens == 24, answer.usage


def flow_cancel():
    # A sampled story could end before it is cancelled.
    ask = dict(messages=STORY, max_tokens=4000, extra_body=FULL)
    with client.chat.completions.create(model=model, stream=True, **ask) as stream:
        for _ in range(10):
            next(stream)
        cancelled_at = flows.get("/ready")
    assert cancelled_at["num_requests_running"] == 1, cancelled_at
    deadline = time.monotonic() + flows.PATIENCE
    now = cancelled_at
    while now["num_requests_running"] > 0 or now["kv_blocks_free"] < now["kv_blocks_total"]:
        assert time.monotonic() < deadline, "still there: %s" % now
        now = flows.get("/ready")
    # The whole answer is 4,000 steps; a busy machine may let some pass before it closes the connection.
    assert now["steps"] - cancelled_at["steps"] < 1000, (cancelled_at, now)


def flow_completion():
    answer = client.completions.create(model=model, prompt="1, 2, 3, 4,", max_tokens=4, temperature=0, logprobs=3)
    choice = answer.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text, choice
    assert all(len(top) == 3 for top in choice.logprobs.top_logprobs), choice

    prompt = "1, 2, 3, 4, 5"
    scored = client.completions.create(model=model, prompt=prompt, max_tokens=0, echo=True, logprobs=1).choices[0]
    assert "".join(scored.logprobs.tokens) == scored.text == prompt, scored
    assert scored.logprobs.token_logprobs[0] is None and max(scored.logprobs.token_logprobs[1:]) <= 0, scored


def flow_chat_logprobs():
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2
    )
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == answer.choices[0].message.content
    assert all(0 < math.exp(token.logprob) <= 1 and len(token.top_logprobs) == 2 for token in tokens)


def flow_errors():
    create = client.chat.completions.create
    refusal(
        openai.NotFoundError,
        lambda: create(model="nobody", messages=QUESTION),
        status_code=404,
        code="model_not_found",
        param="model",
    )
    refusal(
        openai.BadRequestError,
        lambda: create(model=model, messages=QUESTION, temperature=-1),
        status_code=400,
        code="invalid_value",
        param="temperature",
    )
    refusal(openai.BadRequestError, lambda: create(model=model, messages=[], stream=True), param="messages")
    refusal(
        openai.BadRequestError,
        lambda: create(model=model, messages=QUESTION, extra_body={"no_such_field": 1}),
        code="unknown_parameter",
        param="no_such_field",
    )


def flow_embeddings_are_refused():
    refusal(
        openai.NotFoundError,
        lambda: client.embeddings.create(model=model, input="a"),
        status_code=404,
        code="unknown_url",
    )


def flow_tools():
    """A call that is forced, the tool's result, an answer in words; the same call streamed."""
    tools = [{"type": "function", "function": flows.TOOL}]
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    ask = dict(
        model=model, tools=tools, tool_choice="required", parallel_tool_calls=False, temperature=0, max_tokens=64
    )
    choice = client.chat.completions.create(messages=messages, **ask).choices[0]
    assert choice.finish_reason == "tool_calls", choice
    (call,) = choice.message.tool_calls
    assert flows.is_weather_call(call.function.name, call.function.arguments), call

    with client.chat.completions.stream(messages=messages, **ask) as stream:
        (streamed,) = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed.function.name == call.function.name
    assert streamed.function.arguments == call.function.arguments, (call, streamed)

    messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}]
    answer = client.chat.completions.create(
        model=model, tools=tools, tool_choice="none", messages=messages, temperature=0, max_tokens=32
    )
    assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls, answer


def flow_parse():
    answer = client.chat.completions.parse(
        model=model,
        messages=[{"role": "user", "content": "Tell me about Paris."}],
        response_format=City,
        temperature=0,
        max_tokens=64,
    )
    city = answer.choices[0].message.parsed
    assert isinstance(city, City) and city.name, answer


def flow_json_object():
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": "A city as JSON."}],
        response_format={"type": "json_object"},
        temperature=0,
        max_tokens=128,
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict), answer
    else:
        assert answer.choices[0].message.content.lstrip().startswith("{"), answer


def flow_responses():
    first = client.responses.create(model=model, input=flows.QUESTION, temperature=0, max_output_tokens=32)
    assert "Paris" in first.output_text and first.status == "completed", first
    assert client.responses.retrieve(first.id).output_text == first.output_text
    second = client.responses.create(
        model=model, input="And of Italy?", previous_response_id=first.id, temperature=0, max_output_tokens=16
    )
    assert second.usage.input_tokens > first.usage.total_tokens, (first.usage, second.usage)
    client.responses.delete(first.id)
    refusal(openai.NotFoundError, lambda: client.responses.retrieve(first.id), status_code=404)


def flow_responses_stream():
    numbers, text = [], ""
    with client.responses.stream(model=model, input=flows.QUESTION, temperature=0, max_output_tokens=32) as stream:
        for event in stream:
            numbers.append(event.sequence_number)
            text += event.delta if event.type == "response.output_text.delta" else ""
        final = stream.get_final_response()
    assert numbers == list(range(len(numbers))), numbers
    assert "Paris" in text and final.output_text == text, final


def flow_responses_parse():
    answer = client.responses.parse(model=model, input="Tell me about Paris.", text_format=City, temperature=0)
    assert isinstance(answer.output_parsed, City), answer


flows.run(globals())
