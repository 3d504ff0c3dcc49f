"""A model of transformers from its configuration alone.

In: a config.json. Out: the model on `meta`, so that billions of weights take no memory, and a batch to train or run it with: tokens,
pictures or sound, by what the model's class asks for, and labels by what it is for. The class is the one that `architectures` names, else
the first automatic class that knows the configuration. Nothing is downloaded. Not known: code that a repository brings itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from dataclasses import dataclass, field
from typing import Any

import torch

from . import inputs as given
from .refusal import Refusal, described, imported

DEFAULT_SEQ = 512
# Language models first: that is what most configurations are for.
_AUTO = (
    "AutoModelForCausalLM",
    "AutoModelForSeq2SeqLM",
    "AutoModelForMaskedLM",
    "AutoModelForImageClassification",
    "AutoModelForSpeechSeq2Seq",
    "AutoModelForAudioClassification",
    "AutoModel",
)
# What a label is, by how the class is called: one number for each token, or one for each sample.
_TOKEN_LABELS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForTokenClassification", "ForSpeechSeq2Seq")
_SAMPLE_LABELS = ("ForSequenceClassification", "ForImageClassification", "ForAudioClassification", "ForVideoClassification")

_POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions")


@dataclass
class Built:
    """A model, its configuration, and what was assumed."""

    model: torch.nn.Module
    config: Any
    notes: list[tuple[str, str]] = field(default_factory=list)


def build(path: str, training: bool, checkpointing: bool) -> Built:
    """The model that a config.json describes, without weights."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers = imported("transformers")
    transformers.logging.set_verbosity_error()
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    try:
        config = transformers.AutoConfig.from_pretrained(path)
    except Exception as error:  # noqa: BLE001  (settings of any kind can be wrong)
        raise Refusal(f"{path}: {_reason(transformers, written, error)}") from None
    built = Built(_model(transformers, config, path), config)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0  # labels are shifted by it; its value is no matter
    if training:
        # As Trainer sets it: keys and values are kept for the backward pass alone.
        config.use_cache = False
    else:
        built.model.eval()
    if checkpointing:
        if not getattr(built.model, "supports_gradient_checkpointing", False):
            raise Refusal(f"{type(built.model).__name__} has no gradient checkpointing: leave --checkpointing out")
        built.model.gradient_checkpointing_enable()
    return built


def _reason(transformers: Any, written: dict, error: Exception) -> str:
    kind = written.get("model_type")
    if "auto_map" in written:
        return f"model_type '{kind}' brings code of its own, which is not run: load it in a Python file and plan that, as FILE.py:NAME"
    if kind not in transformers.CONFIG_MAPPING:
        return f"transformers {transformers.__version__} knows no model_type '{kind}': update it, or plan a Python file, as FILE.py:NAME"
    return f"transformers {transformers.__version__} cannot read it: {described(error)}"


def _model(transformers: Any, config: Any, path: str) -> torch.nn.Module:
    named = next((getattr(transformers, name) for name in config.architectures or [] if hasattr(transformers, name)), None)
    automatic = (getattr(transformers, name) for name in _order(config) if hasattr(transformers, name))
    known = next((auto for auto in automatic if type(config) in auto._model_mapping), None)
    if named is None and known is None:
        raise Refusal(
            f"{path}: transformers {transformers.__version__} has no model for '{config.model_type}': plan a Python file, as FILE.py:NAME"
        )
    make = named._from_config if named is not None else known.from_config
    try:
        with torch.device("meta"), contextlib.redirect_stdout(io.StringIO()):
            return make(config)
    except Exception as error:  # noqa: BLE001  (settings that contradict each other, libraries that are not there)
        raise Refusal(f"{path}: the model cannot be made: {described(error)}") from None


def _order(config: Any) -> list[str]:
    """The automatic classes, those first that say most about a configuration which several of them know."""
    decodes = getattr(config, "is_decoder", False)
    first = "AutoModelForSeq2SeqLM" if config.is_encoder_decoder else "AutoModelForCausalLM" if decodes else "AutoModelForMaskedLM"
    return [first, *_AUTO]


def batch_of(built: Built, batch: int, seq: int | None, training: bool) -> dict[str, torch.Tensor]:
    """A batch without data, by what the model's class asks for."""
    model, config = built.model, built.config
    kind = type(model).__name__
    main = getattr(model, "main_input_name", "input_ids")
    length = _length(built, seq)
    made = {}
    if main == "input_ids":
        made["input_ids"] = _tokens(batch, length)
        if _takes(model, "pixel_values") and hasattr(config, "vision_config") and not hasattr(config, "image_token_id"):
            made["pixel_values"] = _picture(config, batch)
    elif main == "pixel_values":
        made["pixel_values"] = _picture(config, batch)
    elif main == "input_values":
        made["input_values"] = torch.empty(batch, seq or 16_000, device="meta")
    elif main == "input_features" and hasattr(config, "num_mel_bins"):
        made["input_features"] = torch.empty(batch, config.num_mel_bins, 2 * config.max_source_positions, device="meta")
    else:
        raise Refusal(f"{kind} takes {main}, whose shape its configuration does not say: give it, such as --input {main}=80x3000")
    return {**made, **_labels(built, kind, batch, length, training)}


def _labels(built: Built, kind: str, batch: int, length: int, training: bool) -> dict[str, torch.Tensor]:
    model, tokens = built.model, _tokens(batch, length)
    if not training:
        return {"decoder_input_ids": tokens} if built.config.is_encoder_decoder and _takes(model, "decoder_input_ids") else {}
    if kind.endswith(_TOKEN_LABELS):
        return {"labels": tokens}
    if kind.endswith(_SAMPLE_LABELS):
        return {"labels": torch.empty(batch, dtype=torch.int64, device="meta")}
    if kind.endswith("ForQuestionAnswering"):
        return {name: torch.empty(batch, dtype=torch.int64, device="meta") for name in ("start_positions", "end_positions")}
    if kind.endswith("ForPreTraining") and _takes(model, "next_sentence_label"):
        return {"labels": tokens, "next_sentence_label": torch.empty(batch, dtype=torch.int64, device="meta")}
    if _takes(model, "return_loss"):
        return {"return_loss": True}
    if built.config.is_encoder_decoder and _takes(model, "decoder_input_ids"):
        return {"decoder_input_ids": tokens}
    return {}


def _length(built: Built, seq: int | None) -> int:
    text = built.config.get_text_config()
    most = next((value for name in _POSITIONS if isinstance(value := getattr(text, name, None), int)), None)
    if seq is None:
        seq = min(DEFAULT_SEQ, most) if most and most > 0 else DEFAULT_SEQ
        if getattr(built.model, "main_input_name", "") in ("input_ids", "input_features"):
            built.notes.append(("default_seq", f"No --seq was given: {seq} tokens are assumed."))
    elif most and 0 < most < seq:
        built.notes.append(("long_seq", f"The configuration has {most} positions: {seq} tokens are more than the model was made for."))
    return seq


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.empty(batch, length, dtype=torch.int64, device="meta")


def _picture(config: Any, batch: int) -> torch.Tensor:
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or 224
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    return torch.empty(batch, getattr(vision, "num_channels", 3), height, width, device="meta")


def _takes(model: torch.nn.Module, name: str) -> bool:
    return any(parameter.name == name for parameter in given._parameters(model))
