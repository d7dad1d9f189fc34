"""What the flows of all clients share. A client's file is started as `NAME.py URL FLOW...`, runs the flows that are named,
and ends with an error at the first surprise."""

import json
import sys
import urllib.request

URL = sys.argv[1]
QUESTION = "What is the capital of France?"

# The longest that anything is waited for, in seconds. A limit for a machine that is busy with other tests, not a measure.
PATIENCE = 120

# A tool, and what a call of it has to look like.
TOOL = {
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def get(path):
    with urllib.request.urlopen(URL + path, timeout=PATIENCE) as answer:
        return json.load(answer)


def model():
    return get("/v1/models")["data"][0]["id"]


def raises(error, call):
    """The error of this type that the call raises."""
    try:
        call()
    except error as caught:
        return caught
    raise AssertionError("no %s" % error.__name__)


def is_weather_call(name, arguments):
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return name == TOOL["name"] and list(arguments) == ["city"] and arguments["city"] in ("Paris", "Rome")


def run(module):
    """Runs the flows that the command line names; each is a function of `module`, the client's file."""
    names = sys.argv[2:]
    assert names, "no flow was named"
    for name in names:
        print("flow", name, file=sys.stderr, flush=True)
        module["flow_" + name]()
    print("%d flows passed" % len(names))
