"""The `llm` command line, told of the server in a home of its own."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import flows

home = Path(tempfile.mkdtemp(prefix="llm-"))
(home / "extra-openai-models.yaml").write_text(
    json.dumps(
        [
            {
                "model_id": "troupe",
                "model_name": flows.model(),
                "api_base": flows.URL + "/v1",
                "supports_tools": True,
                "supports_schema": True,
            }
        ]
    )
)


def llm(*words, succeeds=True):
    """What `llm` prints."""
    environment = {**os.environ, "LLM_USER_PATH": str(home), "OPENAI_API_KEY": "none"}
    command = [sys.executable, "-m", "llm", *words]
    result = subprocess.run(command, env=environment, input="", capture_output=True, text=True, timeout=120)
    assert (result.returncode == 0) is succeeds, result
    return result.stdout if succeeds else result.stderr


def flow_chat():
    text = llm("-m", "troupe", "--no-stream", "-o", "temperature", "0", "-o", "max_tokens", "32", flows.QUESTION)
    assert "Paris" in text, text


def flow_stream():
    text = llm("-m", "troupe", "-o", "temperature", "0", "-o", "max_tokens", "32", flows.QUESTION)
    assert "Paris" in text, text


def flow_goes_on():
    """The second prompt carries the conversation."""
    options = ["-m", "troupe", "-o", "temperature", "0", "-o", "max_tokens", "16"]
    llm(*options, "My name is Zebedee.")
    text = llm(*options, "--continue", "What is my name?")
    assert "Zebedee" in text, text


def flow_errors():
    said = llm("-m", "troupe", "-o", "max_tokens", "1000000", flows.QUESTION, succeeds=False)
    assert "maximum context length" in said, said


def flow_parse():
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    text = llm("-m", "troupe", "-o", "temperature", "0", "--schema", json.dumps(schema), "Tell me about Paris.")
    assert list(json.loads(text)) == ["name"], text


flows.run(globals())
