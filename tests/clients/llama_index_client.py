"""The `llama-index` package, through its class for servers that are like OpenAI."""

import openai
import pydantic
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

import flows


def of(**more):
    return OpenAILike(
        model=flows.model(),
        api_base=flows.URL + "/v1",
        api_key="none",
        max_retries=0,
        timeout=120,
        context_window=flows.get("/v1/models")["data"][0]["max_model_len"],
        **{"is_chat_model": True, "temperature": 0, "max_tokens": 32, **more},
    )


QUESTION = [ChatMessage(role="user", content=flows.QUESTION)]


class City(pydantic.BaseModel):
    """A city."""

    name: str
    inhabitants: int


def flow_chat():
    answer = of().chat(QUESTION)
    assert answer.message.role == "assistant" and "Paris" in answer.message.content, answer


def flow_stream():
    parts = list(of().stream_chat(QUESTION))
    text = "".join(part.delta or "" for part in parts)
    assert "Paris" in text and parts[-1].message.content == text and len(parts) > 3, parts


def flow_text_completion():
    answer = of(is_chat_model=False, max_tokens=4).complete("1, 2, 3, 4,")
    assert "5" in answer.text, answer


def flow_errors():
    caught = flows.raises(openai.BadRequestError, lambda: of(additional_kwargs={"top_p": 2}).chat(QUESTION))
    assert caught.param == "top_p", caught


def flow_tools():
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny, 21 degrees"

    tool = FunctionTool.from_defaults(fn=get_weather)
    llm = of(is_function_calling_model=True)
    answer = llm.chat_with_tools([tool], user_msg="What is the weather in Paris?", tool_required=True)
    (call,) = llm.get_tool_calls_from_response(answer)
    assert call.tool_name == "get_weather" and list(call.tool_kwargs) == ["city"], answer
    assert "sunny" in str(tool.call(**call.tool_kwargs)), call


def flow_parse():
    llm = of(should_use_structured_outputs=True, max_tokens=64)
    city = llm.structured_predict(City, PromptTemplate("Tell me about Paris."))
    assert isinstance(city, City), city


flows.run(globals())
