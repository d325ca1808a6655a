"""Weights that others have trained, brought into a program: `code -> one act`, `code`, `pretrained weights`."""

from __future__ import annotations

from collections.abc import Iterator

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.patterns import pattern

LONGEST = 40_000
HINT = (
    r"(?i)pretrained|weights|hub|hf_|huggingface|snapshot_download|SentenceTransformer|gensim|spacy|whisper|ollama|open_clip"
    r"|load_model|"
    r"safetensors|\.pth?\b|\.ckpt|\.gguf|applications\.|pipeline\("
)
"""Without it nothing is found."""
_NAMED = r"(\w*)\.from_pretrained\(\s*[rf]?[\"']([\w.-]+(?:/[\w.-]+)?)[\"']"
_NO_MODEL = r"(?i)(?:tokenizer|processor|extractor|config)\w*$"
_OWN = (
    r"(?i)^(?:\.|out|outputs?|runs?|ckpts?|checkpoints?|models?|results?|logs?|tmp|work|saved?|exp\w*|my\w*|best|last|final"
    r"|step\w*|lab|scratch)(?:[/_.-]|$)"
)
_LOADS = (
    r"(?i)\bpretrained\s*=\s*(?:True|[\"'][\w-]{2,})|\bweights\s*=\s*(?:[\"'](?:imagenet|default|IMAGENET1K\w*|coco\w*)"
    r"|\w+_Weights\.|"
    r"[\"']DEFAULT)"
    r"|\btorch\.hub\.load(?:_state_dict_from_url)?\(|\bload_state_dict_from_url\(|\bmodel_zoo\.load_url\("
    r"|\bhub\.(?:KerasLayer|load)\("
    r"|\bhf_hub_download\(|\bsnapshot_download\(|\b(?:huggingface-cli|hf) download\b|\bSentenceTransformer\(\s*[\"']\w"
    r"|\bgensim\.downloader\b|\bfasttext\.util\.download_model\(|\bspacy\.load\(\s*[\"']\w+_(?:md|lg|trf)\b"
    r"|\bspacy download \w+_(?:md|lg|trf)\b"
    r"|\bopen_clip\.create_model\w*\(|\bclip\.load\(|\bwhisper\.load_model\(|\bollama (?:pull|run) \w"
    r"|\btimm\.create_model\([^)\n]*pretrained\s*=\s*True"
    r"|\bpipeline\(\s*[\"'][\w-]+[\"']\s*,\s*(?:model\s*=\s*)?[\"']\w"
    r"|https?://[^\s\"'<>]+\.(?:safetensors|pth?|ckpt|gguf|h5|onnx|msgpack|bin)\b"
    r"|\bgit clone https?://huggingface\.co/(?:[^d]|d[^a])"
)


def acts_of_weights(text: str) -> Iterator[Act]:
    """Yield the first place where weights of others are loaded; tokenizers, configurations and own checkpoints are none.

    Example:
        >>> [a.detail for a in acts_of_weights("m = Net.from_pretrained('org/net-base')")]
        ["Net.from_pretrained('org/net-base'"]
        >>> list(acts_of_weights("t = AutoTokenizer.from_pretrained('gpt2'); m = Net.from_pretrained('runs/7')"))
        []
    """
    part = text[:LONGEST]
    if pattern(HINT).search(part) is None:
        return
    for found in pattern(_NAMED).finditer(part):
        if not pattern(_NO_MODEL).search(found.group(1)) and not pattern(_OWN).search(found.group(2)):
            yield Act("code", "pretrained weights", found.group(0), span=found.span())
            return
    loads = pattern(_LOADS).search(part)
    if loads:
        yield Act("code", "pretrained weights", loads.group(0)[:160], span=loads.span())
