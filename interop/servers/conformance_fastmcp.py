"""FastMCP 4 with the tools, resources and prompts of the conformance suite, as far as FastMCP can offer them."""

import base64
import json
from typing import Literal

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp_types import (
    AudioContent,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel
from serve import main

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="

server = FastMCP("fastmcp-conformance")


def text(words):
    return TextContent(type="text", text=words)


def image():
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def embedded(uri, mime_type, words):
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    return EmbeddedResource(type="resource", resource=contents)


@server.tool
def test_simple_text():
    return [text("This is a simple text response for testing.")]


@server.tool
def test_image_content():
    return [image()]


@server.tool
def test_audio_content():
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@server.tool
def test_embedded_resource():
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@server.tool
def test_multiple_content_types():
    resource = embedded("test://mixed-content-resource", "application/json", json.dumps({"test": "data", "value": 123}))
    return [text("Multiple content types test:"), image(), resource]


@server.tool
async def test_tool_with_logging(context: Context):
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(message)
    return [text("Done.")]


@server.tool
async def test_tool_with_progress(context: Context):
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100)
    return [text("Done.")]


@server.tool
def test_error_handling():
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool
async def test_sampling(prompt: str, context: Context):
    answer = await context.sample(prompt, max_tokens=100)
    return [text(f"LLM response: {answer.text}")]


class Response(BaseModel):
    response: str


@server.tool
async def test_elicitation(message: str, context: Context):
    answer = await context.elicit(message, Response)
    return [text(f"User response: {answer.action}")]


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@server.tool
async def test_elicitation_sep1034_defaults(context: Context):
    answer = await context.elicit("Please review", Defaults)
    return [text(f"Elicitation completed: {answer.action}")]


@server.tool
async def test_input_required_result_elicitation(context: Context):
    if not context.input_responses:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        form = ElicitRequestFormParams(message="What is your name?", requested_schema=schema)
        return InputRequiredResult(input_requests={"user_name": ElicitRequest(params=form)})
    return [text(f"Hello, {context.input_responses['user_name'].content['name']}!")]


@server.resource("test://static-text", mime_type="text/plain")
def static_text():
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary():
    return base64.b64decode(PNG)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str):
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt
def test_simple_prompt():
    return "This is a simple prompt for testing."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str):
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


if __name__ == "__main__":
    main(lambda: server.run(show_banner=False), server.http_app)
