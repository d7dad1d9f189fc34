"""The `anthropic` package."""

from typing import Literal

import anthropic

import flows

client = anthropic.Anthropic(base_url=flows.URL, api_key="none", max_retries=0, timeout=120)
model = flows.model()
QUESTION = [{"role": "user", "content": flows.QUESTION}]
# The package has no parameter for it.
GREEDY = {"extra_body": {"temperature": 0}}
TOOLS = [
    {
        "name": flows.TOOL["name"],
        "description": flows.TOOL["description"],
        "input_schema": flows.TOOL["parameters"],
    }
]


def flow_models():
    page = client.models.list()
    (info,) = page.data
    assert (info.id, info.display_name, info.type, page.has_more) == (model, model, "model", False), page
    assert (page.first_id, page.last_id, info.lifecycle) == (model, model, "active"), page
    assert info.created_at.year >= 2025 and info.max_input_tokens > 0, info
    assert client.models.retrieve(model) == info, info


def flow_chat():
    answer = client.messages.create(model=model, messages=QUESTION, max_tokens=32, system="Be brief.", **GREEDY)
    assert answer.role == "assistant" and answer.content[0].type == "text", answer
    assert "Paris" in answer.content[0].text, answer
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens > 1, answer


def flow_stream():
    with client.messages.stream(model=model, messages=QUESTION, max_tokens=32, **GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert "Paris" in text and final.content[0].text == text, final


def flow_stop():
    answer = client.messages.create(
        model=model, messages=QUESTION, max_tokens=64, stop_sequences=["Paris"], **GREEDY
    )
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", "Paris"), answer


def flow_tools():
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    ask = dict(model=model, tools=TOOLS, tool_choice=choice, max_tokens=64, **GREEDY)
    answer = client.messages.create(messages=messages, **ask)
    (call,) = [block for block in answer.content if block.type == "tool_use"]
    assert answer.stop_reason == "tool_use" and flows.is_weather_call(call.name, call.input), answer

    with client.messages.stream(messages=messages, **ask) as stream:
        (streamed,) = [block for block in stream.get_final_message().content if block.type == "tool_use"]
    assert (streamed.name, streamed.input) == (call.name, call.input), streamed

    result = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny, 21 degrees"}
    messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    last = client.messages.create(
        model=model, tools=TOOLS, tool_choice={"type": "none"}, messages=messages, max_tokens=32, **GREEDY
    )
    assert last.content[0].type == "text" and last.content[0].text, last


def flow_tool_runner():
    """The runner asks for a thread first, which is refused so that it sends the whole conversation."""
    cities = []

    @anthropic.beta_tool
    def get_weather(city: Literal["Paris", "Rome"]) -> str:
        """The weather in a city."""
        cities.append(city)
        return "sunny, 21 degrees"

    runner = client.beta.messages.tool_runner(
        model=model,
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        tools=[get_weather],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        max_tokens=64,
        max_iterations=2,
        **GREEDY,
    )
    answers = list(runner)
    assert [answer.stop_reason for answer in answers] == ["tool_use"] * 2, answers
    assert cities and set(cities) <= {"Paris", "Rome"}, cities


def flow_count_tokens():
    count = client.messages.count_tokens(model=model, messages=QUESTION).input_tokens
    usage = client.messages.create(model=model, messages=QUESTION, max_tokens=1, **GREEDY).usage
    assert count == usage.input_tokens + usage.cache_read_input_tokens > 5, (count, usage)


def flow_errors():
    def create(**more):
        return client.messages.create(**{"model": model, "messages": QUESTION, "max_tokens": 8, **more})

    caught = flows.raises(anthropic.NotFoundError, lambda: create(model="nobody"))
    assert caught.body["error"]["type"] == "not_found_error", caught.body
    caught = flows.raises(anthropic.BadRequestError, lambda: create(extra_body={"temperature": -1}))
    assert caught.body["type"] == "error" and caught.body["error"]["type"] == "invalid_request_error", caught.body
    assert "temperature" in caught.body["error"]["message"], caught.body


flows.run(globals())
