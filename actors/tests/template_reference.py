"""The reference for the template parity tests: renders cases with `transformers`.

Reads a JSON list of cases on standard input and writes a JSON list of results in the same order:
{"text": ...} or {"raised": message} for raise_exception or {"failed": message} for any other error.
"""

import datetime
import json
import sys

import jinja2
from transformers.utils import chat_template_utils

NOW = datetime.datetime(2025, 7, 4, 13, 5, 9)


class FixedClock(datetime.datetime):
    """`datetime` whose `now` is always the time that the Rust side passes in."""

    @classmethod
    def now(cls, tz=None):
        return NOW


def render(case):
    try:
        rendered, _ = chat_template_utils.render_jinja_template(
            conversations=[case["messages"]],
            tools=case["tools"],
            documents=case["documents"],
            chat_template=case["template"],
            add_generation_prompt=case["add_generation_prompt"],
            continue_final_message=case["continue_final_message"],
            **case["variables"],
        )
        return {"text": rendered[0]}
    except jinja2.exceptions.TemplateError as error:
        # raise_exception makes this very class; the engine's own errors are its subclasses.
        kind = "raised" if type(error) is jinja2.exceptions.TemplateError else "failed"
        return {kind: str(error)}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}


def main():
    chat_template_utils.datetime = FixedClock
    json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)


main()
