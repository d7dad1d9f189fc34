"""The `langchain-openai` package."""

import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

import flows

SERVER = {"base_url": flows.URL + "/v1", "api_key": "none", "model": flows.model(), "max_retries": 0, "timeout": 120}
chat = ChatOpenAI(temperature=0, max_tokens=32, **SERVER)


class City(pydantic.BaseModel):
    """A city."""

    name: str
    inhabitants: int


def flow_chat():
    answer = chat.invoke(flows.QUESTION)
    assert "Paris" in answer.content and answer.usage_metadata["output_tokens"] > 1, answer


def flow_stream():
    chunks = list(chat.stream(flows.QUESTION, stream_usage=True))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole += chunk
    assert "Paris" in whole.content and len(chunks) > 3, whole
    assert whole.usage_metadata["output_tokens"] > 1, whole


def flow_batch():
    answers = chat.batch([flows.QUESTION, "What is the capital of Italy?"])
    assert ["Paris" in answer.content for answer in answers] == [True, False], answers


def flow_text_completion():
    text = OpenAI(temperature=0, max_tokens=4, **SERVER).invoke("1, 2, 3, 4,")
    assert "5" in text, text


def flow_errors():
    caught = flows.raises(openai.BadRequestError, lambda: chat.invoke(flows.QUESTION, temperature=-1))
    assert caught.param == "temperature", caught


def flow_embeddings_are_refused():
    # Without the check of lengths it does not ask the internet for a tokenizer.
    embeddings = OpenAIEmbeddings(check_embedding_ctx_length=False, **SERVER)
    flows.raises(openai.NotFoundError, lambda: embeddings.embed_query("a"))


def flow_tools():
    question = HumanMessage("What is the weather in Paris?")
    tool = {"type": "function", "function": flows.TOOL}
    call = chat.bind_tools([tool], tool_choice="any").invoke([question])
    (asked,) = call.tool_calls
    assert flows.is_weather_call(asked["name"], asked["args"]), call
    result = ToolMessage("sunny, 21 degrees", tool_call_id=asked["id"])
    last = chat.bind_tools([tool], tool_choice="none").invoke([question, call, result])
    assert last.content and not last.tool_calls, last


def flow_parse():
    city = chat.with_structured_output(City, method="json_schema").invoke("Tell me about Paris.")
    assert isinstance(city, City), city


flows.run(globals())
