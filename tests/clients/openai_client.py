"""Uses a server through the `openai` package: `openai_client.py URL`. Ends with an error at the first surprise."""

import json
import math
import sys
import urllib.request

import openai

URL = sys.argv[1]
WAIT_LIMIT = 2000
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
STORY = [{"role": "user", "content": "Tell me a very long story."}]

client = openai.OpenAI(base_url=URL + "/v1", api_key="none", max_retries=0, timeout=120)
model = client.models.list().data[0].id


def ready():
    with urllib.request.urlopen(URL + "/ready", timeout=10) as answer:
        return json.load(answer)


def expect(error, call, **details):
    try:
        call()
    except error as caught:
        found = {name: getattr(caught, name) for name in details}
        assert found == details, found
    else:
        raise AssertionError("no %s" % error.__name__)


def check_models():
    assert client.models.retrieve(model).id == model


def check_chat():
    answer = client.chat.completions.create(model=model, messages=QUESTION, temperature=0)
    assert "Paris" in answer.choices[0].message.content, answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def check_stream():
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


def check_cancel():
    cancelled_at = None
    with client.chat.completions.create(model=model, messages=STORY, max_tokens=4000, stream=True) as stream:
        for count, _ in enumerate(stream):
            if count == 10:
                cancelled_at = ready()
                break
    assert cancelled_at["num_requests_running"] == 1, cancelled_at
    for _ in range(WAIT_LIMIT):
        now = ready()
        if now["num_requests_running"] == 0 and now["kv_blocks_free"] == now["kv_blocks_total"]:
            break
    else:
        raise AssertionError("still there: %s" % now)
    assert now["steps"] - cancelled_at["steps"] < 20, (cancelled_at, now)


def check_completion():
    answer = client.completions.create(model=model, prompt="1, 2, 3, 4,", max_tokens=4, temperature=0, logprobs=3)
    choice = answer.choices[0]
    assert "".join(choice.logprobs.tokens) == choice.text, choice
    assert all(len(top) == 3 for top in choice.logprobs.top_logprobs), choice


def check_chat_logprobs():
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2
    )
    tokens = answer.choices[0].logprobs.content
    assert "".join(token.token for token in tokens) == answer.choices[0].message.content
    assert all(0 < math.exp(token.logprob) <= 1 and len(token.top_logprobs) == 2 for token in tokens)


def check_errors():
    create = client.chat.completions.create
    expect(
        openai.NotFoundError,
        lambda: create(model="nobody", messages=QUESTION),
        status_code=404,
        code="model_not_found",
        param="model",
    )
    expect(
        openai.BadRequestError,
        lambda: create(model=model, messages=QUESTION, temperature=-1),
        status_code=400,
        code="invalid_value",
        param="temperature",
    )
    expect(
        openai.BadRequestError,
        lambda: create(model=model, messages=[], stream=True),
        status_code=400,
        param="messages",
    )
    expect(
        openai.BadRequestError,
        lambda: create(model=model, messages=QUESTION, response_format={"type": "json_object"}),
        code="unsupported_parameter",
        param="response_format",
    )
    expect(openai.NotFoundError, lambda: client.models.retrieve("nobody"), status_code=404)


CHECKS = [
    check_models,
    check_chat,
    check_stream,
    check_cancel,
    check_completion,
    check_chat_logprobs,
    check_errors,
]

for check in CHECKS:
    check()
print("%d checks passed" % len(CHECKS))
