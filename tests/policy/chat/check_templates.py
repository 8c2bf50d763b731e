#!/usr/bin/env python3
"""Compares render_template with HF transformers on chat templates: every conversation of conversations() through each.

Needs: pip install transformers jinja2.   Usage: check_templates.py RENDER_TEMPLATE FOLDER_OF_JINJA_FILES [EXPECTED.json]
With EXPECTED.json, also writes what transformers gives, for chat_template_test.
"""

import json
import pathlib
import subprocess
import sys

from transformers.utils import chat_template_utils

TOOLS = [{"type": "function", "function": {"name": "get_time", "description": "The time in a city \u2013 now",
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                                                          "required": ["city"]}}}]


def conversations():
    system = {"role": "system", "content": "You write CUDA kernels.\n"}
    user = {"role": "user", "content": "  Sum a row of floats.  \n"}
    answer = {"role": "assistant", "content": "```cpp\n__global__ void f() {}\n```"}
    thought = {"role": "assistant", "content": "<think>\nRows are \u957f.\n</think>\n\nUse a warp."}
    reasoned = {"role": "assistant", "content": "Use a block.", "reasoning_content": "Columns are many."}
    call = {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "id": "abcdefghi", "function": {"name": "get_time", "arguments": {"city": "\u6771\u4eac", "n": 2}}}]}
    result = {"role": "tool", "name": "get_time", "content": "{\"time\": \"12:00\"}", "tool_call_id": "abcdefghi"}
    talks = [[user], [system, user], [user, answer, user], [system, user, answer, user], [user, thought, user],
             [user, reasoned, user, reasoned], [system, user, call, result], [user, call, result, answer, user], [user, answer],
             [answer, user], [user, user], [{"role": "user", "content": ""}], [system]]
    for messages in talks:
        for extra in ({}, {"tools": TOOLS}, {"enable_thinking": False}):
            for prompt in (False, True):
                yield {"messages": messages, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>",
                       "tools": None, "documents": None, **extra}


def reference(source, variables):
    try:
        template = chat_template_utils._compile_jinja_template(source)
        template.globals["strftime_now"] = lambda form: "30 Nov 2026"
        return template.render(**variables)
    except Exception:  # the template refuses; so must we
        return None


def main(program, folder, expected_path=None):
    inputs = list(conversations())
    lines = "".join(json.dumps(v) + "\n" for v in inputs)
    expected_all, wrong = {}, 0
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        expected = [reference(path.read_text(), v) for v in inputs]
        expected_all[path.stem] = expected
        run = subprocess.run([program, str(path)], input=lines, capture_output=True, text=True)
        got = [json.loads(line) for line in run.stdout.splitlines()]
        if len(got) != len(expected):
            print(f"{path.name}: {run.stderr.strip()[:200]}")
            wrong += 1
            continue
        bad = [i for i, (g, e) in enumerate(zip(got, expected)) if g != e]
        if bad:
            wrong += 1
            print(f"{path.name}: {len(bad)} of {len(expected)} differ, first {bad[0]}:\n  ours   {got[bad[0]]!r}\n  theirs {expected[bad[0]]!r}\n  {run.stderr[:300]}")
    print(f"{len(expected_all) - wrong} of {len(expected_all)} templates agree on {len(inputs)} conversations")
    if expected_path:
        pathlib.Path(expected_path).write_text(json.dumps({"inputs": inputs, "expected": expected_all}, indent=0) + "\n")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
