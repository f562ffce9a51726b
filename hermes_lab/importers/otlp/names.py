"""Which attribute of a span says what: OTel GenAI names new and old, OpenInference, OpenLLMetry, Vercel's AI SDK.

Names as of OTel GenAI conventions 1.27 to 1.41 and their own repository after that, and OpenInference 2026. A tuple
lists names of the same thing, the preferred first.
"""

from __future__ import annotations

from typing import Any

from hermes_lab.importers.otlp.values import indexed
from hermes_lab.importers.reading import common

LLM, TOOL, AGENT, CHAIN, RETRIEVAL, EMBEDDING = "llm", "tool", "agent", "chain", "retrieval", "embedding"

_OPERATIONS = {
    "chat": LLM,
    "text_completion": LLM,
    "completion": LLM,
    "generate_content": LLM,
    "call_llm": LLM,
    "responses": LLM,
    "message": LLM,
    "embeddings": EMBEDDING,
    "embedding": EMBEDDING,
    "execute_tool": TOOL,
    "tool": TOOL,
    "invoke_agent": AGENT,
    "create_agent": AGENT,
    "agent": AGENT,
    "invoke_workflow": CHAIN,
    "plan": CHAIN,
    "retrieval": RETRIEVAL,
    "retrieve": RETRIEVAL,
    "search_memory": RETRIEVAL,
    "rerank": RETRIEVAL,
    # OpenInference
    "llm": LLM,
    "chain": CHAIN,
    "retriever": RETRIEVAL,
    "reranker": RETRIEVAL,
    "guardrail": CHAIN,
    "evaluator": CHAIN,
    "prompt": CHAIN,
    "decision": CHAIN,
    # OpenLLMetry
    "workflow": CHAIN,
    "task": CHAIN,
    # Vercel's AI SDK
    "ai.toolCall": TOOL,
    "ai.generateText": AGENT,
    "ai.streamText": AGENT,
    "ai.generateText.doGenerate": LLM,
    "ai.streamText.doStream": LLM,
    "ai.embed.doEmbed": EMBEDDING,
}
_KIND_NAMES = ("gen_ai.operation.name", "openinference.span.kind", "traceloop.span.kind", "llm.request.type")
_VERCEL = ("ai.operationId", "operation.name")

MODEL = (
    "gen_ai.response.model", "llm.response.model_name", "llm.model_name", "gen_ai.request.model",
    "llm.request.model_name", "embedding.model_name", "reranker.model_name", "llm.request.model",
    "ai.response.model", "ai.model.id",
)  # fmt: skip
REQUEST_MODEL = ("gen_ai.request.model", "llm.request.model_name", "llm.request.model", "ai.model.id")
INPUT_TOKENS = (
    "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt", "llm.usage.prompt_tokens",
    "ai.usage.inputTokens", "ai.usage.promptTokens",
)  # fmt: skip
OUTPUT_TOKENS = (
    "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion",
    "llm.usage.completion_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens",
)  # fmt: skip
CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.input_tokens.cached", "gen_ai.usage.cached_input_tokens", "gen_ai.usage.cached_tokens",
    "gen_ai.usage.input_tokens_details.cached", "gen_ai.usage.details.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens", "gen_ai.usage.details.cached_tokens",
    "llm.token_count.prompt_details.cache_read", "llm.usage.cache_read_input_tokens", "ai.usage.cachedInputTokens",
)  # fmt: skip
CACHE_WRITE_TOKENS = (
    "gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens", "gen_ai.usage.details.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens", "llm.token_count.prompt_details.cache_write",
    "llm.usage.cache_creation_input_tokens",
)  # fmt: skip
REASONING_TOKENS = (
    "gen_ai.usage.reasoning.output_tokens", "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens", "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
)  # fmt: skip
COST = ("gen_ai.usage.cost", "gen_ai.cost.usd", "llm.cost.total", "gen_ai.usage.total_cost", "operation.cost")
CONVERSATION = ("gen_ai.conversation.id", "gen_ai.thread.id")
SESSION = (
    "session.id", "langfuse.session.id", "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id", "ai.telemetry.metadata.sessionId",
)  # fmt: skip
AGENT_NAME = (
    "gen_ai.agent.name", "agent.name", "gen_ai.workflow.name", "traceloop.workflow.name", "traceloop.entity.name",
    "graph.node.name",
)  # fmt: skip
TOOL_NAME = (
    "gen_ai.tool.name", "tool.name", "tool_call.function.name", "ai.toolCall.name", "mcp.tool.name",
    "traceloop.entity.name",
)  # fmt: skip
TOOL_CALL_ID = ("gen_ai.tool.call.id", "tool.id", "tool_call.id", "ai.toolCall.id")
TOOL_ARGUMENTS = (
    "gen_ai.tool.call.arguments", "gen_ai.tool.args", "tool_call.function.arguments", "gen_ai.tool.input",
    "ai.toolCall.args", "mcp.request.argument", "input.value", "traceloop.entity.input", "tool.parameters",
)  # fmt: skip
TOOL_RESULT = (
    "gen_ai.tool.call.result", "gen_ai.tool.output", "gen_ai.tool.result", "ai.toolCall.result",
    "mcp.response.value", "output.value", "traceloop.entity.output",
)  # fmt: skip
TOOL_DEFINITIONS = ("gen_ai.tool.definitions", "gen_ai.request.tools", "llm.request.functions")
SYSTEM = ("gen_ai.system_instructions",)
INPUT_MESSAGES = ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "ai.prompt.messages", "llm.prompts")
OUTPUT_MESSAGES = ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "llm.choices")
ANY_INPUT = ("input.value", "traceloop.entity.input", "ai.prompt", "gen_ai.input")
ANY_OUTPUT = ("output.value", "traceloop.entity.output", "ai.response.text", "gen_ai.output")
FINISH_REASONS = (
    "gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "llm.finish_reason",
    "llm.response.finish_reason", "llm.response.stop_reason", "ai.response.finishReason",
)  # fmt: skip
QUERY = (
    "gen_ai.retrieval.query.text", "reranker.query", "embedding.text", "embedding.embeddings.0.embedding.text",
    "db.query.text", "input.value", "traceloop.entity.input",
)  # fmt: skip
DOCUMENTS = ("gen_ai.retrieval.documents", "retrieval.documents", "reranker.output_documents")
RETRIEVER = ("gen_ai.data_source.id", "retrieval.source", "db.collection.name")
ERROR_TYPE = ("error.type", "exception.type")
VERSION = ("gen_ai.agent.version",)
_PARAMETERS = "gen_ai.request."
_NO_PARAMETERS = {"model", "tools"}
_INVOCATION = "llm.invocation_parameters"


def first(attributes: dict[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value of the first name that has one."""
    return next((value for name in names if (value := attributes.get(name)) not in (None, "", [], {})), None)


def first_text(attributes: dict[str, Any], names: tuple[str, ...]) -> str | None:
    """Return the value of the first name that has text."""
    return next((value for name in names if isinstance(value := attributes.get(name), str) and value), None)


def first_count(attributes: dict[str, Any], names: tuple[str, ...]) -> int | None:
    """Return the value of the first name that has a count."""
    found = (common.count(attributes[name]) for name in names if name in attributes)
    return next((value for value in found if value is not None), None)


def kind_of(attributes: dict[str, Any]) -> str:
    """Return the kind of a span, "" for one that is neither GenAI nor OpenInference (HTTP, database ...)."""
    for name in _KIND_NAMES:
        value = attributes.get(name)
        if isinstance(value, str) and (kind := _OPERATIONS.get(value.lower())):
            return kind
    for name in _VERCEL:
        value = attributes.get(name)
        if isinstance(value, str) and (kind := _OPERATIONS.get(value.split(" ")[0])) and value.startswith("ai."):
            return kind
    if attributes.get("mcp.method.name") == "tools/call":
        return TOOL
    has_tokens = first_count(attributes, INPUT_TOKENS + OUTPUT_TOKENS) is not None
    if first_text(attributes, MODEL) and (has_tokens or _has_messages(attributes)):
        return LLM
    if "gen_ai.tool.name" in attributes or "gen_ai.tool.call.id" in attributes:
        return TOOL
    if has_tokens and ("gen_ai.system" in attributes or "gen_ai.provider.name" in attributes):
        return LLM
    if "gen_ai.agent.name" in attributes or "gen_ai.agent.id" in attributes:
        return CHAIN
    return ""


def _has_messages(attributes: dict[str, Any]) -> bool:
    prefixes = tuple(f"{name}." for name in INPUT_MESSAGES + OUTPUT_MESSAGES)
    return any(name in INPUT_MESSAGES or name in OUTPUT_MESSAGES or name.startswith(prefixes) for name in attributes)


def parameters(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the request's parameters (temperature and the like) by their plain names."""
    found = {
        name.removeprefix(_PARAMETERS): value
        for name, value in attributes.items()
        if name.startswith(_PARAMETERS) and value is not None
    }
    invocation = common.parse_result(attributes.get(_INVOCATION))
    if isinstance(invocation, dict):
        found = invocation | found
    return {name: value for name, value in found.items() if name not in _NO_PARAMETERS and name != "messages"}


def documents(attributes: dict[str, Any]) -> Any:
    """Return the documents that a retrieval found, in whichever form."""
    found = first(attributes, DOCUMENTS)
    if found is not None:
        return common.parse_result(found)
    for name in DOCUMENTS:
        if flattened := indexed(attributes, f"{name}."):
            return [{key.removeprefix("document."): value for key, value in one.items()} for one in flattened]
    return common.parse_result(first(attributes, ("output.value", "traceloop.entity.output")))


def tool_definitions(attributes: dict[str, Any]) -> Any:
    """Return the tools that a model was offered, in whichever form."""
    found = first(attributes, TOOL_DEFINITIONS)
    if found is not None:
        return common.parse_result(found)
    tools = first(attributes, ("llm.tools",)) or indexed(attributes, "llm.tools.")
    tools = tools or indexed(attributes, "llm.request.functions.")
    return [_tool(tool) for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else None


def _tool(tool: dict[str, Any]) -> Any:
    inner = tool.get("tool")
    schema = tool.get("tool.json_schema", inner.get("json_schema") if isinstance(inner, dict) else None)
    return common.parse_result(schema) if schema is not None else tool
