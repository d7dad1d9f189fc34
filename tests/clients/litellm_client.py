"""The `litellm` package, told that the server speaks OpenAI's API."""

import os

# Without this it asks the internet for a list of prices when it is imported.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm  # noqa: E402
import pydantic  # noqa: E402

import flows  # noqa: E402

QUESTION = [{"role": "user", "content": flows.QUESTION}]
SERVER = {
    "model": "openai/" + flows.model(),
    "api_base": flows.URL + "/v1",
    "api_key": "none",
    "max_retries": 0,
    "timeout": 120,
}


class City(pydantic.BaseModel):
    name: str
    inhabitants: int


def flow_chat():
    answer = litellm.completion(messages=QUESTION, temperature=0, **SERVER)
    assert "Paris" in answer.choices[0].message.content, answer
    assert answer.choices[0].finish_reason == "stop" and answer.usage.completion_tokens > 1, answer


def flow_stream():
    chunks = list(litellm.completion(messages=QUESTION, temperature=0, stream=True, **SERVER))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert "Paris" in text and len(chunks) > 3, chunks
    whole = litellm.stream_chunk_builder(chunks, messages=QUESTION)
    assert whole.choices[0].message.content == text, whole


def flow_text_completion():
    server = {**SERVER, "model": "text-completion-openai/" + flows.model()}
    answer = litellm.text_completion(prompt="1, 2, 3, 4,", max_tokens=4, temperature=0, **server)
    assert "5" in answer.choices[0].text, answer


def flow_errors():
    caught = flows.raises(
        litellm.BadRequestError, lambda: litellm.completion(messages=QUESTION, temperature=-1, **SERVER)
    )
    assert caught.status_code == 400 and "temperature" in str(caught), caught
    nobody = {**SERVER, "model": "openai/nobody"}
    flows.raises(litellm.NotFoundError, lambda: litellm.completion(messages=QUESTION, **nobody))


def flow_embeddings_are_refused():
    caught = flows.raises(litellm.NotFoundError, lambda: litellm.embedding(input=["a"], **SERVER))
    assert caught.status_code == 404, caught


def flow_tools():
    tools = [{"type": "function", "function": flows.TOOL}]
    messages = [{"role": "user", "content": "What is the weather in Paris?"}]
    forced = dict(tools=tools, tool_choice="required", parallel_tool_calls=False, temperature=0)
    answer = litellm.completion(messages=messages, **forced, **SERVER)
    message = answer.choices[0].message
    (call,) = message.tool_calls
    assert flows.is_weather_call(call.function.name, call.function.arguments), answer
    messages += [message, {"role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}]
    ask = dict(messages=messages, tools=tools, temperature=0, max_tokens=32)
    last = litellm.completion(tool_choice="none", **ask, **SERVER)
    assert last.choices[0].message.content, last


def flow_parse():
    messages = [{"role": "user", "content": "Tell me about Paris."}]
    answer = litellm.completion(messages=messages, response_format=City, temperature=0, max_tokens=64, **SERVER)
    assert City.model_validate_json(answer.choices[0].message.content), answer


flows.run(globals())
