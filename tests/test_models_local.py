"""Local models on real weights: prompts, schemas, batches, shared prefixes, limits, and models of other kinds."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
import transformers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hermes_lab.errors import ConfigError, MissingError
from hermes_lab.kinds import ErrorKind
from hermes_lab.models import embedded, hermes
from hermes_lab.models.base import Finish, Frame, Reply, Request, Role, Signature, Turn
from hermes_lab.models.local import LocalModel, LocalOptions, open_local
from hermes_lab.models.local_choice import Chooser, LogitsError
from hermes_lab.models.local_load import Loaded, load
from hermes_lab.models.local_prompt import Prompter
from hermes_lab.models.local_reply import split_reasoning
from hermes_lab.models.local_schema import bounded

CALL = Frame("<tool_call>\n", "\n</tool_call>")
SYSTEM = Turn(Role.SYSTEM, "You are a function calling AI model. Be careful.")
WEATHER = Signature(
    "get_weather",
    "Get the weather of a city.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["C", "F"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
ADD = Signature(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
QUESTIONS = (
    "What is the weather in Paris?",
    "北京今天的天气怎么样？",
    "Add 17 and 25, please.",
    "Is it warm in São Paulo now? Use F.",
    "How cold is it in Oslo?",
    "3 + 4?",
    "Weather 🌦 in 東京",
    "I have 12 apples and get 30 more. How many have I?",
)

# Written for these tests, in the manner of the templates that Hermes models carry.
HERMES_3_TOOL_USE = (
    "{{ bos_token }}<|im_start|>system\nYou call functions. Tools: <tools>"
    "{% for tool in tools %}{{ tool.function | tojson }}\n{% endfor %}</tools><|im_end|>\n"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'tool' %}<tool_response>\n{{ m.content }}\n</tool_response>{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HERMES_3_DEFAULT = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HERMES_4 = (
    "{% if thinking is not defined %}{% set thinking = false %}{% endif %}<|im_start|>system\n"
    "{% if thinking %}Think within <think> tags first.\n{% endif %}"
    "{% if tools %}<tools>\n{{ tools | tojson }}\n</tools>{% endif %}<|im_end|>\n"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'tool' %}<tool_response>\n{{ m.content }}\n</tool_response>{% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TWO_ROLES = (
    "{% for m in messages %}"
    "{% if m.role not in ('user', 'assistant') or (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def call_schema(*tools: Signature) -> dict[str, Any]:
    return {
        "anyOf": [
            {
                "type": "object",
                "properties": {"name": {"const": tool.name}, "arguments": tool.parameters},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for tool in tools
        ]
    }


def ask(text: str, **values: Any) -> Request:
    """Ask for free text, shortly."""
    return Request(messages=(Turn(Role.USER, text),), **{"max_tokens": 12, **values})


def ask_call(text: str, **values: Any) -> Request:
    tools = (WEATHER, ADD)
    messages = (SYSTEM, Turn(Role.USER, text))
    settings = {"tools": tools, "schema": call_schema(*tools), "frame": CALL, "max_tokens": 60, **values}
    return Request(messages=messages, **settings)


def texts(replies: list[Reply]) -> list[str]:
    return [reply.text for reply in replies]


@pytest.fixture(scope="session")
def loaded() -> Loaded:
    return load(str(embedded.fetch()), device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def make(loaded: Loaded) -> Callable[..., LocalModel]:
    """Make a model on the embedded weights, which are loaded once."""

    def model(**options: Any) -> LocalModel:
        return LocalModel("embedded", loaded, LocalOptions(**options))

    return model


@pytest.fixture(scope="session")
def model(make: Callable[..., LocalModel]) -> LocalModel:
    return make()


@pytest.fixture
def tokenizer() -> Any:
    """A copy of the tokenizer, to be changed."""
    return transformers.AutoTokenizer.from_pretrained(str(embedded.fetch()))


# Schemas


def test_calls_are_bound_to_the_schema_and_come_back_through_the_parser(model: LocalModel) -> None:
    for question, reply in zip(QUESTIONS, model.generate([ask_call(text) for text in QUESTIONS]), strict=True):
        assert (reply.finish, reply.error_kind, reply.model) == (Finish.STOP, None, "embedded"), question
        parsed = hermes.parse(reply.text)
        assert [(call.repaired, call.raw) for call in parsed.calls] == [(False, reply.text)]
        plain = {"name": parsed.calls[0].name, "arguments": parsed.calls[0].arguments}
        Draft202012Validator(call_schema(WEATHER, ADD)).validate(plain)
        assert 0 < reply.confidence <= 1


def test_what_is_forced_is_written_without_the_model(model: LocalModel) -> None:
    value = {"name": "天气", "ok": True}
    (reply,) = model.generate([ask("x", schema={"const": value}, max_tokens=40)])
    assert json.loads(reply.text) == value
    assert reply.confidence is None
    assert reply.output_tokens > 0


def test_a_reply_cut_within_its_schema_says_so(model: LocalModel) -> None:
    (reply,) = model.generate([ask_call("Weather in Paris?", max_tokens=9)])
    assert (reply.finish, reply.error_kind, reply.output_tokens) == (Finish.LENGTH, ErrorKind.CUT_OFF, 9)
    assert reply.text.startswith(CALL.prefix)
    assert not reply.text.endswith(CALL.suffix)


@pytest.mark.parametrize(
    "schema", [{"type": "strange"}, {"$ref": "#/nowhere"}, {"type": "string", "pattern": "(?=x)y"}, {"type": 5}]
)
def test_a_schema_that_cannot_be_bound_is_its_own_replys_error(model: LocalModel, schema: dict[str, Any]) -> None:
    bad, good = model.generate([ask("x", schema=schema), ask("x", schema={"enum": ["yes", "no"]})])
    assert (bad.finish, bad.error_kind) == (Finish.ERROR, ErrorKind.BAD_ARGUMENTS)
    assert "JSON Schema" in bad.error
    assert json.loads(good.text) in ("yes", "no")


def test_strings_and_arrays_without_a_limit_get_one() -> None:
    schema = {
        "type": "object",
        "properties": {
            "文本": {"type": "string"},
            "kind": {"type": "string", "enum": ["a"]},
            "many": {"type": ["array", "null"], "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            "long": {"type": "string", "minLength": 900},
        },
        "additionalProperties": False,
    }
    limited = bounded(schema)
    many = {"type": ["array", "null"], "items": {"anyOf": [{"type": "string", "maxLength": 600}, {"type": "integer"}]}}
    assert limited["properties"] == {
        "文本": {"type": "string", "maxLength": 600},
        "kind": {"type": "string", "enum": ["a"]},
        "many": {**many, "maxItems": 64},
        "long": {"type": "string", "minLength": 900, "maxLength": 900},
    }
    assert "maxLength" not in schema["properties"]["文本"]


# Batches, prefixes, sampling


def test_a_batch_decides_as_single_rows_do_and_in_order(make: Callable[..., LocalModel], model: LocalModel) -> None:
    requests = [ask_call(text) for text in QUESTIONS] + [ask("Say hello.", max_tokens=8)]
    single = make(batch_size=1, prefix_mb=0).generate(requests)
    together = make(batch_size=8).generate(requests)
    for one, other in zip(single, together, strict=True):
        assert (one.text, one.finish, one.input_tokens, one.output_tokens) == (
            other.text,
            other.finish,
            other.input_tokens,
            other.output_tokens,
        )
        assert math.isclose(one.confidence, other.confidence, rel_tol=1e-3)


def test_a_kept_prefix_changes_nothing(make: Callable[..., LocalModel]) -> None:
    requests = [ask_call(text) for text in QUESTIONS[:4]]
    afresh = make(prefix_mb=0).generate(requests)
    kept = make()
    assert texts(kept.generate(requests)) == texts(afresh)
    assert texts(kept.generate(requests)) == texts(afresh)
    # One by one, and beside a prompt that shares nothing.
    assert [kept.generate([request])[0].text for request in requests] == texts(afresh)
    assert kept.generate([ask("Hi", max_tokens=4), requests[1]])[1].text == afresh[1].text


def test_the_prefix_is_computed_once(make: Callable[..., LocalModel], loaded: Loaded) -> None:
    read: list[int] = []

    def count(_module: Any, _arguments: Any, values: dict[str, Any]) -> None:
        read.append(values["input_ids"].numel())

    requests = [ask_call(text) for text in QUESTIONS[:4]]
    kept = make()
    hook = loaded.weights.register_forward_pre_hook(count, with_kwargs=True)
    try:
        kept.generate(requests)
        first = sum(read)
        read.clear()
        kept.generate(requests)
    finally:
        hook.remove()
    prefix = len(kept._prompter.shared(requests[0]))
    assert prefix > 150
    assert first - sum(read) == prefix


def test_prefixes_over_the_limit_are_let_go(make: Callable[..., LocalModel]) -> None:
    small = make(prefix_mb=1)
    for tools in ((WEATHER,), (ADD,)):
        pair = [ask_call(text, tools=tools, max_tokens=1) for text in QUESTIONS[:2]]
        small.generate(pair)
    assert len(small._engine._kept) == 1


def test_draws_repeat_and_do_not_depend_on_the_batch(make: Callable[..., LocalModel], model: LocalModel) -> None:
    drawn = {"temperature": 1.0, "top_p": 0.95, "max_tokens": 10}
    requests = [ask("Tell me about 北京.", seed=seed, **drawn) for seed in range(5)]
    first = texts(model.generate(requests))
    assert texts(model.generate(requests)) == first
    assert [model.generate([request])[0].text for request in requests] == first
    assert texts(model.generate([ask("Name a colour."), *reversed(requests)]))[:0:-1] == first
    assert len(set(first)) > 1
    # The same seed twice in one call: drawn twice, alike.
    twice = model.generate([requests[0], requests[0]])
    assert [reply.from_cache for reply in twice] == [False, False]
    assert twice[0].text == twice[1].text


def test_identical_greedy_requests_are_computed_once(model: LocalModel) -> None:
    same, other = ask("Name a colour."), ask("Name a city.")
    replies = model.generate([same, other, msgspec.structs.replace(same), other])
    assert [reply.from_cache for reply in replies] == [False, False, True, True]
    assert replies[0].text == replies[2].text
    assert replies[1].text == replies[3].text


@given(st.integers(0, 2**70), st.floats(0.05, 2), st.floats(0.05, 1))
def test_a_draw_is_from_what_is_allowed_and_within_top_p(seed: int, temperature: float, top_p: float) -> None:
    logits = np.array([5.0, 1.0, 4.0, -2.0, 4.5], dtype=np.float32)
    allowed = np.array([False, True, True, True, True])
    choice = Chooser(temperature, top_p, seed).choose(logits, allowed)
    weights = np.exp((logits[1:].astype(np.float64) - 4.5) / temperature)
    weights /= weights.sum()
    larger = weights[weights > weights[choice.token - 1]].sum()
    assert choice.token != 0
    assert larger < top_p + 1e-6
    assert choice == Chooser(temperature, top_p, seed).choose(logits, allowed)


def test_draws_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.2], dtype=np.float32))
    chooser = Chooser(1.0, 1.0, 7)
    tokens = [chooser.choose(logits, None).token for _ in range(4000)]
    assert np.allclose(np.bincount(tokens) / 4000, [0.5, 0.3, 0.2], atol=0.03)
    with pytest.raises(LogitsError):
        chooser.choose(np.full(3, np.nan, dtype=np.float32), None)


# Counts and limits


def test_counts_are_exact(model: LocalModel, tokenizer: Any) -> None:
    request = ask_call("北京？")
    (reply,) = model.generate([request])
    assert (
        reply.input_tokens == model.most_tokens(request) == len(tokenizer(model._prompter.text(request))["input_ids"])
    )
    assert model._prompter.decode(model._prompter.tokens(request)) == model._prompter.text(request)
    (free,) = model.generate([ask("Count from 1 to 100.", max_tokens=7)])
    assert (free.output_tokens, len(tokenizer(free.text)["input_ids"])) == (7, 7)
    assert reply.cached_tokens == 0
    assert reply.latency_ms > 0


def test_confidence_is_the_mean_probability_of_free_choices(model: LocalModel, loaded: Loaded) -> None:
    schema = {"enum": [1, 2]}
    request = ask("Say 1.", schema=schema)
    (reply,) = model.generate([request])
    ids = torch.tensor([model._prompter.tokens(request)])
    plain = transformers.AutoModelForCausalLM.from_pretrained(str(embedded.fetch()))
    with torch.inference_mode():
        logits = plain(input_ids=ids).logits[0, -1]
    tokens = [loaded.tokenizer(text)["input_ids"][0] for text in ("1", "2")]
    chances = torch.softmax(logits[tokens], 0)
    assert math.isclose(reply.confidence, float(chances.max()), rel_tol=1e-3)
    assert reply.text == ("1", "2")[int(chances.argmax())]


def test_a_prompt_that_is_too_long_is_its_own_replys_error(model: LocalModel) -> None:
    long, short = model.generate([ask("很长 " * 9000), ask("Hi", max_tokens=2)])
    assert (long.finish, long.error_kind, long.text) == (Finish.ERROR, ErrorKind.CONTEXT_LENGTH, "")
    assert "8192" in long.error
    assert long.input_tokens > 8192
    assert short.finish is Finish.LENGTH


def test_time_is_a_limit_of_each_reply(model: LocalModel) -> None:
    slow, quick = ask("Tell a story.", max_tokens=2000), ask("Say hi.", max_tokens=3)
    one, other = model.generate([slow, quick], seconds=[0.3, 1000])
    assert (one.finish, one.error_kind) == (Finish.TIMEOUT, ErrorKind.TIMEOUT)
    assert one.output_tokens < 2000
    assert one.latency_ms < 60_000
    assert (other.finish, other.error_kind) == (Finish.LENGTH, None)
    (none,) = model.generate([ask("Hi")], seconds=[0.0])
    assert (none.finish, none.output_tokens) == (Finish.TIMEOUT, 0)


def test_stop_texts_end_a_reply_and_are_no_part_of_it(model: LocalModel) -> None:
    whole = model.generate([ask("Count from 1 to 9.", max_tokens=24)])[0].text
    stop = whole[len(whole) // 2 : len(whole) // 2 + 2]
    (reply,) = model.generate([ask("Count from 1 to 9.", max_tokens=24, stop=("never seen", stop))])
    assert reply.text == whole[: whole.index(stop)]
    assert reply.finish is Finish.STOP
    assert reply.error_kind is None


def test_a_free_reply_is_what_transformers_generates(model: LocalModel, tokenizer: Any) -> None:
    request = ask("Who wrote 红楼梦?", max_tokens=12)
    plain = transformers.AutoModelForCausalLM.from_pretrained(str(embedded.fetch()))
    ids = torch.tensor([model._prompter.tokens(request)])
    mask = torch.ones_like(ids)
    out = plain.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=12)[0, ids.shape[1] :]
    assert model.generate([request])[0].text == tokenizer.decode(out, skip_special_tokens=True)


# Prompts


def test_a_template_without_tools_gets_the_hermes_protocol(model: LocalModel) -> None:
    text = model._prompter.text(ask_call("天气？"))
    assert not model._prompter.native_tools
    assert "<tools>" in text
    assert '"get_weather"' in text
    assert text.endswith("<|im_start|>user\n天气？<|im_end|>\n<|im_start|>assistant\n<tool_call>\n")


def test_a_template_with_a_tool_use_entry_shows_the_tools_itself(tokenizer: Any) -> None:
    tokenizer.chat_template = {"default": HERMES_3_DEFAULT, "tool_use": HERMES_3_TOOL_USE}
    prompter = Prompter(tokenizer)
    assert prompter.native_tools
    result = Turn(Role.TOOL, '{"温度": 21}', name="get_weather")
    request = msgspec.structs.replace(ask_call("天气？"), messages=(SYSTEM, Turn(Role.USER, "天气？"), result))
    text = prompter.text(request)
    assert text.count("<tools>") == 1
    assert "You call functions." in text
    assert '<tool_response>\n{"name": "get_weather", "content": {"温度": 21}}\n</tool_response>' in text
    # Without tools it is the other entry.
    assert prompter.text(ask("Hi")) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_with_a_thinking_switch_is_left_as_it_is_by_default(tokenizer: Any) -> None:
    tokenizer.chat_template = HERMES_4
    prompter = Prompter(tokenizer)
    text = prompter.text(ask_call("Hi"))
    assert prompter.native_tools
    assert "<think>" not in text
    assert '"get_weather"' in text


def test_a_template_that_knows_two_roles_gets_two(tokenizer: Any) -> None:
    tokenizer.chat_template = TWO_ROLES
    text = Prompter(tokenizer).text(ask_call("Hi"))
    assert text.startswith(f"<|im_start|>user\n{SYSTEM.content}")
    assert text.count("<|im_start|>") == 2


def test_without_a_template_it_is_chatml(tokenizer: Any) -> None:
    tokenizer.chat_template = None
    assert Prompter(tokenizer).text(ask("你好")) == "<|im_start|>user\n你好<|im_end|>\n<|im_start|>assistant\n"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["<|im_end|>", "<|im_start|>", "<|", "|>", "im_end", "<jupyter_code>", "\n", "<", "系"]))
)
def test_no_text_forges_a_turn(model: LocalModel, pieces: list[str]) -> None:
    forged = "".join(pieces)
    tool = msgspec.structs.replace(WEATHER, description=forged)
    turns = (Turn(Role.SYSTEM, forged), Turn(Role.USER, forged), Turn(Role.ASSISTANT, forged), Turn(Role.USER, "x"))
    result = Turn(Role.TOOL, json.dumps({"r": forged}), name="get_weather")
    for messages, tools in ((turns, ()), ((*turns, result), (tool,))):
        ids = model._prompter.tokens(Request(messages=messages, tools=tools))
        special = [token for token in ids if token <= 16]
        assert special == [1, 2] * len(messages) + [1]


@pytest.mark.parametrize(
    ("text", "opened", "expected"),
    [
        ("<think>好的</think>\nHi", False, ("好的", "Hi")),
        ("a</think>Hi", True, ("a", "Hi")),
        ("Hi <think>x</think>", False, ("", "Hi <think>x</think>")),
        ("<think>cut", False, ("cut", "")),
        ("cut", True, ("cut", "")),
        ("Hi", False, ("", "Hi")),
    ],
)
def test_reasoning_is_kept_apart(text: str, opened: bool, expected: tuple[str, str]) -> None:
    assert split_reasoning(text, opened=opened) == expected


# Sources


def with_template(folder: Path, template: Any) -> Path:
    """Make a folder with the embedded weights and a tokenizer with another template."""
    folder.mkdir()
    source = embedded.fetch()
    for name in ("config.json", "generation_config.json"):
        shutil.copyfile(source / name, folder / name)
    (folder / "model.safetensors").symlink_to(source / "model.safetensors")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(source))
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    return folder


def test_a_folder_with_a_hermes_3_template_answers_with_a_call(tmp_path: Path, model: LocalModel) -> None:
    folder = with_template(tmp_path / "模型", {"default": HERMES_3_DEFAULT, "tool_use": HERMES_3_TOOL_USE})
    other = open_local(f"hf:{folder}", options={"device": "cpu"})
    assert other._prompter.native_tools
    assert other.fingerprint != model.fingerprint
    (reply,) = other.generate([ask_call("Add 2 and 3.")])
    assert reply.model == f"hf:{folder}"
    assert [call.name for call in hermes.parse(reply.text).calls] in (["add"], ["get_weather"])
    other.close()


def test_folder_and_gguf_are_the_same_model(model: LocalModel) -> None:
    folder = embedded.fetch()
    requests = [ask_call(QUESTIONS[1]), ask("Say hello.", max_tokens=6)]
    wanted = texts(model.generate(requests))
    for source in (folder, folder / embedded.GGUF_NAME):
        same = open_local(f"hf:{source}", options={"device": "cpu", "dtype": "float32"})
        assert texts(same.generate(requests)) == wanted
        assert same.context_tokens == 8192
        if source == folder:
            assert same.fingerprint == model.fingerprint


def test_the_embedded_model_opens_by_name() -> None:
    opened = open_local("embedded", options={"device": "cpu", "dtype": "bfloat16", "batch_size": 2})
    assert opened.name == "embedded"
    (reply,) = opened.generate([ask_call("Weather in Paris?")])
    assert hermes.parse(reply.text).calls[0].name == "get_weather"


TINY: dict[str, Any] = {
    "vocab_size": 49152,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
KINDS: dict[str, tuple[Any, bool]] = {
    "llama": (lambda: transformers.LlamaConfig(**TINY), True),
    "qwen2": (lambda: transformers.Qwen2Config(**TINY), True),
    "qwen3": (lambda: transformers.Qwen3Config(**TINY, head_dim=8), True),
    "gpt2": (lambda: transformers.GPT2Config(vocab_size=49152, n_embd=32, n_layer=2, n_head=4, n_positions=512), True),
    "gpt_neox": (lambda: transformers.GPTNeoXConfig(**TINY), True),
    "mistral with a window": (lambda: transformers.MistralConfig(**TINY, sliding_window=8), False),
    "gemma2": (lambda: transformers.Gemma2Config(**TINY, head_dim=8, sliding_window=8), False),
    "mamba": (lambda: transformers.MambaConfig(vocab_size=49152, hidden_size=32, num_hidden_layers=2), False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_models_of_any_kind_write_what_transformers_generates(kind: str, tokenizer: Any) -> None:
    config, shares = KINDS[kind]
    torch.manual_seed(5)
    weights = transformers.AutoModelForCausalLM.from_config(config()).eval()
    requests = [ask(f"{text} {SYSTEM.content}", max_tokens=6) for text in QUESTIONS[:3]]
    prompter = Prompter(tokenizer)
    wanted = []
    for request in requests:
        ids = torch.tensor([prompter.tokens(request)])
        out = weights.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=6, pad_token_id=2
        )
        wanted.append(tokenizer.decode(out[0, ids.shape[1] :]))
    local = LocalModel(kind, Loaded(weights, tokenizer, torch.device("cpu"), torch.float32))
    assert local._engine.shares is shares
    assert texts(local.generate(requests)) == wanted
    bound = local.generate([ask("x", schema={"enum": ["红", "绿"]}), ask("y", schema={"type": "boolean"})])
    assert json.loads(bound[0].text) in ("红", "绿")
    assert json.loads(bound[1].text) in (True, False)


# Refusals


def test_unknown_options_and_values_are_named() -> None:
    with pytest.raises(ConfigError, match=r"'embedded'.*colour.*batch_size"):
        open_local("embedded", options={"colour": 1})
    with pytest.raises(ConfigError, match="dtype"):
        open_local("embedded", options={"dtype": "int3"})
    with pytest.raises(ConfigError, match="device"):
        open_local("embedded", options={"device": "steam"})


def test_a_model_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingError, match="no such file or folder"):
        open_local(f"hf:{tmp_path}/模型")
    with pytest.raises(ConfigError, match="cannot load"):
        open_local(f"hf:{tmp_path}")
    broken = tmp_path / "x.gguf"
    broken.write_bytes(b"GGUF and then nothing")
    with pytest.raises(ConfigError, match="cannot load"):
        open_local(f"hf:{broken}")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(MissingError, match="nobody/no-such-model"):
        open_local("hf:nobody/no-such-model")
