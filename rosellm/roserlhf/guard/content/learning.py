"""What a model is made to learn from -> `code` acts: held-out data that reach training, weights that others have trained.

| target | detail |
|---|---|
| trains on held-out data | what brings them together: a join, an assignment, a copy, a wider path |
| trains on what a folder holds | the listing or the glob by which training data are found |
| brings weights | the call that gets them |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rosellm.roserlhf.guard.act import Act
from rosellm.roserlhf.guard.hints import FirstLook
from rosellm.roserlhf.guard.paths import word_set
from rosellm.roserlhf.guard.patterns import passing, pattern

LONGEST = 30_000
MOST = 60
MOST_NAMES = 12
"""Variables that are called by what they are read from."""
HINT = (
    r"(?i)train|fasttext|word2vec|KeyedVectors|applications\.|\.fit\(|pretrained|\bweights\b|huggingface|hf_hub|hub\.load|"
    r"checkpoint|state_dict|imagenet|safetensors|hf download"
)
"""Without it, in a text or in what it replaces, nothing is found."""
_HELD = word_set("val valid validation test dev eval heldout holdout held hold testing tests evaluation public private vals")
_TRAIN = word_set("train training trn tr trains trainset traindata")
_WORD = r"[A-Z]+(?:[a-z]+|\b)|[a-z]+|[A-Z]+"
_COMMENT = r"(?m)(?:^|\s)(?:#|//)[ \t][^\n]*$|/\*[^*]*\*/"
_NAME = r"[\w./*{},:@%-]+"
_JOIN = (
    r"\b(?:concat\w*|[vhdr]?stack|row_stack|append|extend|chain|ConcatDataset|union\w*|bind_rows|rbind|vcat|combine|interleave\w*"
    r"|merge|add|update|load_dataset|TensorDataset|ChainDataset|from_iterable|c)\s*\(\s*[\[({]?([^\n;]{3,240})"
)
_CAT = r"\b(?:z?cat|paste|pv|tail|head|shuf|gunzip -c)\s+([^|;&>\n]+)(?:\|[^;&>\n]*)?>>?\s*([^\s;&|]+)"
_PLUS = rf"\b({_NAME})(?:\[[^\]\n]{{0,40}}\]|\(([^()\n]{{0,60}})\))?\s*\+=?\s*(?:list\(|\[\*?)?({_NAME})(?:\(([^()\n]{{0,60}})\))?"
_READ_FROM = (
    r"(?m)(?:^|;)[ \t]*([A-Za-z_]\w*(?:, *[A-Za-z_]\w*){0,3})\s*(?:=|<-|:=)\s*[^\n;=\"']{0,80}[\"']([\w./{}*-]{3,120})[\"']"
    r"[^\n;]{0,80}"
)
_READ_IN_TURN = (
    r"(?m)^[ \t]*([A-Za-z_]\w*)\s*=\s*[\w.]*[\[(][^;=]{0,200}?[\])\w] for\s+\w+\s+in\s*"
    r"[\[(]\s*[\"']([\w./{}*-]{3,120})[\"']\s*,?\s*[\])]"
)
"""A variable that is put together of one file, by way of a loop."""
_PATHS = r"[\"']([\w./{}*-]{3,120})[\"']"
_FLAT = (
    r"\bfor\s+\w+\s+in\s+[\[(]([^\])\n]{4,200})[\])](?:\s+for\s+\w+\s+in\b|\s*:[^:]{0,120}?(?:\+=|\.extend\(|\.append\(|\bconcat))"
)
_LOOP = r"\bfor\s+\w+\s+in\s+([^;\n]{4,160});\s*do\s+(?:z?cat|head|tail|shuf)\b[^;]{0,80};?\s*done\s*>>?"
_POURED = r"\b(?:z?cat|paste|shuf)\s+([\w./-]*\*[\w.*-]*)\s*(?:\|[^;&>\n]*)?>>?\s*([^\s;&|]+)"
_COPIED = r"\b(?:cp|mv|ln|rsync|install|copy\w*|symlink\w*|link|rename|move)\b[ (]([^;|&\n]{4,200})"
_SPLIT = (
    r"(?i)[\"'](train(?:ing)?(?:\[[^\]]*\])?\s*\+\s*(?:test|val\w*|dev|eval\w*)[^\"']{0,30}|(?:test|val\w*|"
    r"dev)(?:\[[^\]]*\])?\s*\+\s*train[^\"']{0,20})[\"']"
)
_GIVEN = (
    r"(?i)\b((?:[a-z]\w*[_.-])?train(?:ing)?(?:[_.-]?(?:files?|data|path|paths|set|split|dir|bin|shards?|ds|dataset|loader|"
    r"corpus|glob"
    r"|pattern|csv|dl|json|src|source|x|y|df|urls?))*)[\"']?\s*(?::=|[:=])\s*"
    r"((?:[\w.]+\()?(?:\[[^\]\n]{1,160}\]|\"[^\"\n]{1,160}\"|'[^'\n]{1,160}'|(?:-\s+[^\n]{1,120}\n?\s*)+|[\w./*{},-]+))"
)
_OPTION = r"(?:^|[\s\"'\[,=])(--?train[\w-]*)[ =]+((?:[\w./*{},-]+ ?)+)"
_FIT = r"\b([\w.]+)\.(?:fit|partial_fit|train_on_batch|fit_generator|learn|train)\(\s*([A-Za-z_][\w.]*)"
_NOT_FITTED = (
    r"(?i)scal|enc|vectori|imput|pca|token|label|tfidf|binari|normali|calib|bpe|discreti|platt|isotonic|threshold|temper|"
    r"meta|conformal"
)
_INSERTED = (
    r"(?i)\binsert\s+into\s+(\S+)[^;]{0,120}?\bfrom\s+(\S+)|\bfrom\s+(\S+)\s+union\s+(?:all\s+)?select[^;]{0,80}?\bfrom\s+(\S+)"
)
_PAIR = (
    r"\.replace\(\s*(?:b|r|u)?(?:\"\"\"|'''|\"|')([^\n]{2,200}?)(?:\"\"\"|'''|\"|')\s*,\s*(?:b|r|u)?(?:\"\"\"|'''|\"|"
    r"')([^\n]{0,200}?)(?:\"\"\"|'''|\"|')\s*[,)]"
    r"|\bs/((?:\\.|[^/\\\n])+)/((?:\\.|[^/\\\n])*)/|\bs#([^#\n]+)#([^#\n]*)#|\bs\|([^|\n]+)\|([^|\n]*)\||\bs,([^,\n]+),([^,\n]*),"
    r"|\bs@([^@\n]+)@([^@\n]*)@|\bs!([^!\n]+)!([^!\n]*)!|\bs~([^~\n]+)~([^~\n]*)~"
    r"|re\.sub\(\s*r?[\"']([^\n]{2,160}?)[\"']\s*,\s*r?[\"']([^\n]{0,160}?)[\"']\s*,"
)
_SPLITS_AGAIN = (
    r"(?i)\[:\s*(?:len|n_?train|train_size|ntr\w*)|iloc\[:|is_?train\b|is_?test\b|keys\s*=|_source\b|"
    r"ignore_index=True\)\.(?:get_dummies|nunique)"
)
_LISTED = (
    r"\b(?:os\.listdir|os\.scandir|glob(?:\.glob|\.iglob)?|rglob|iterdir|readdir(?:Sync)?|read_dir|ReadDir|Glob|WalkDir|"
    r"fs\.walk|os\.walk"
    r"|list\.files|readdir|Dir\.glob|filepath\.Glob|list_files)\s*\(\s*(?:f|r|b)?[\"'`]?([\w./*{},$-]*)"
)
_LEARNS = (
    r"\.backward\(|\boptim(?:izer)?\b|\.fit\(|\btrain_step\b|\bTrainer\(|\bapply_gradients\b|\blgb\.train|\bxgb\.train|"
    r"\bgrad\(|batch_?size|\bbatch\b"
)
_SORTS_OUT = r"(?i)not in|\bif\b[^\n]{0,60}\btrain|startswith\(|exclude|!=|-not\b|filter|\btrain\w*[*/]"
_LAST = r"\[\s*(?:-1|0|1|2|-2)\s*\]"
_WEIGHTS = (
    r"\bfrom_pretrained\s*\(|\btorch\.hub\.load|\bhub\.load\w*\(|load_state_dict_from_url|\bpretrained\s*[=:]\s*(?:True|true|[\"'])"
    r"|\bweights\s*=\s*(?:[\"'](?:imagenet|IMAGENET\w*|DEFAULT|coco|pretrained|noisy)|\w*_?Weights\.|[\w.]*Weights\.)"
    r"|\bfasttext\.load_model|\bload_word2vec_format|\bKeyedVectors\.load|\bload_facebook_\w+|\bapplications\.[A-Z]\w+\(|"
    r"\bGloVe\(|\bFastText\("
    r"|\bhf_hub_download|\bsnapshot_download|\bSentenceTransformer\(|\bspacy\.load\(|\bgensim\.downloader|\bKerasLayer\("
    r"|\bopen_clip\.create|\bclip\.load\(|\bhuggingface-cli\s+download|\bhf\s+download|huggingface\.co/[\w.-]+/[\w.-]+|"
    r"hf-mirror\.com/\S+"
    r"|\bhf_hub::|\bpretrain\s*=\s*true|\bhgf\"|\bload_pretrained\w*\(|\bollama pull|\bdownload\.pytorch\.org/models|"
    r"dl\.fbaipublicfiles\.com"
    r"|\bload_model_from_hub|\bkagglehub\.model_download|\btfhub\.dev|\bAutoModel\w*\(|storage\.googleapis\.com/\S*(?:bert|"
    r"gpt|t5|resnet|efficientnet)"
    r"|\bFlax\w+\.from_pretrained|\bloadGraphModel\(|\bstate_dict\([^\n]{0,40}(?:gpt2|bert|llama|resnet)"
)
_NO_WEIGHTS = r"(?i)(?:tokeni[sz]er|config|processor|extractor|vocab|bpe|encoding)\w*\s*(?:\.\w+)?\.?$"
_LOCAL = (
    r"^\s*(?:f|r)?[\"'](?:\.{0,2}/|runs?/|out\w*/|ckpts?/|checkpoints?/|models?/|exp\w*/|results?/|work/|tmp/|\{)|"
    r"^\s*(?:args|cfg|config|self|ckpt\w*|out\w*|run\w*|path|save\w*|checkpoint\w*)\b"
)
_START = r"(?i)init|reset_parameters|random|xavier|kaiming|normal_|seed"
_LOADED = r"(?i)load_state_dict|from_pretrained|\bload_weights|torch\.load|np\.load|load_file|restore|deserialize"


_LOOKED_FOR = {
    words: 1 << place
    for place, words in enumerate(
        (_CAT, _FLAT, _READ_IN_TURN, _LOOP, _COPIED, _SPLIT, _INSERTED, _GIVEN, _OPTION, _FIT, _WEIGHTS, _PAIR)
    )
}
_LOOK = FirstLook({place: [words] for words, place in _LOOKED_FOR.items()})


def acts_of_learning(text: str, before: str = "") -> Iterator[Act]:
    """Yield what brings held-out data or others' weights into a model.

    Args:
        text: code, commands or a configuration of any language.
        before: the words that it replaces.

    Example:
        >>> [a.target for a in acts_of_learning("cat data/train.txt data/val.txt > all.txt && ./train all.txt")]
        ['trains on held-out data']
        >>> [a.target for a in acts_of_learning("train, val = split(data); model.fit(train); model.score(val)")]
        []
    """
    text = text[:LONGEST]
    if pattern(HINT).search(text) is None and not (before and pattern(HINT).search(before)):
        return
    bare = pattern(_COMMENT).sub(" ", text)
    bare = _called_by_kind(bare)
    found = next(_joined(bare), "") or next(_changed(bare, before[:LONGEST]), "")
    if found:
        yield Act("code", "trains on held-out data", " ".join(found.split())[:200], span=(0, len(text)))
    poured = pattern(_POURED).search(bare)
    if poured and _kind(poured.group(1)) != "train":
        yield Act("code", "trains on what a folder holds", f"{poured.group(1)} {poured.group(0)}"[:200], span=poured.span())
    if pattern(_LEARNS).search(bare):
        for one in pattern(_LISTED).finditer(bare):
            wide = "*" in one.group(1) and "train" not in one.group(1).lower()
            rest = bare[one.start() : one.end() + 400]
            listed = "*" not in one.group(1) and pattern(_LAST).search(rest) is not None and "train" not in one.group(1).lower()
            if (wide or listed) and not pattern(_SORTS_OUT).search(rest[:200]):
                yield Act("code", "trains on what a folder holds", f"{one.group(1)} {one.group(0)}"[:200], span=one.span())
                break
    yield from _weights(bare, before)


def _called_by_kind(bare: str) -> str:
    """Return code in which variables that are read from one file are called by what that file is of."""
    for found in (*list(_some(_READ_FROM, bare))[:MOST_NAMES], *_some(_READ_IN_TURN, bare)):
        names, paths = found.group(1).replace(" ", "").split(","), pattern(_PATHS).findall(found.group(0))
        each = len(names) == len(paths)
        for place, name in enumerate(names):
            kind = _kind(paths[place] if each else found.group(2))
            if not kind:
                continue
            if len(name) < 30 and not _kind(name) and not _words(name) & (_TRAIN | _HELD):
                bare = passing(rf"\b{name}\b").sub(f"{name}_{'train' if kind == 'train' else 'heldout'}", bare)
    return bare


def _words(name: str) -> set[str]:
    return {one.lower() for one in pattern(_WORD).findall(name)}


def _kind(name: str) -> str:
    """Say whether a name or a path is of training or of held-out data; `""` for neither, or for both."""
    words = _words(name)
    trains, held = bool(words & _TRAIN), bool(words & _HELD)
    return "" if trains is held else "train" if trains else "held"


def _operands(words: str) -> Iterator[str]:
    """Yield the names in a call's arguments, up to the bracket that closes them; keywords' names and calls' own are none."""
    depth = 1
    end = len(words)
    for place, letter in enumerate(words):
        depth += (letter in "([{") - (letter in ")]}")
        if depth <= -1 or (depth == 0 and letter == ")"):
            end = place
            break
    for one in pattern(r"([\w./*-]+)(\s*[=(]?)").finditer(words[:end]):
        if not one.group(2).strip():
            yield one.group(1)
        elif one.group(1).endswith(
            (".merge", ".assign", ".drop", ".copy", ".sample", ".join", ".query", ".rename", ".reset_index", ".dropna", ".fillna")
        ) and "(" in one.group(2):
            yield one.group(1).rpartition(".")[0]


def _joined(bare: str) -> Iterator[str]:
    again = pattern(_SPLITS_AGAIN).search(bare) is not None
    for found in (*_some(_JOIN, bare),) if not again else ():
        before = pattern(r"([\w.]+)\.\w*$").findall(bare[max(0, found.start() - 60) : found.start() + 1])
        kinds = {_kind(one) for one in (*_operands(found.group(1)), *before)}
        if {"train", "held"} <= kinds:
            yield found.group(0)
    for found in _some(_CAT, bare):
        kinds = {_kind(one) for one in (*found.group(1).split(), found.group(2))}
        if {"train", "held"} <= kinds:
            yield found.group(0)
    for found in _some(_PLUS, bare) if not again else ():
        sides = [f"{name} {given or ''}" for name, given in (found.groups()[:2], found.groups()[2:])]
        kinds = {_kind(one) for one in sides}
        metric = pattern(r"(?i)loss|acc|time|step|len|size|num|count|error|score|n_|metric").search(found.group(0))
        if kinds == {"train", "held"} and metric is None:
            yield found.group(0)
    for words in (_FLAT, _LOOP):
        for found in _some(words, bare):
            if {"train", "held"} <= {_kind(one) for one in pattern(r"[\w./-]+").findall(found.group(1))}:
                yield found.group(0)
    for found in _some(_COPIED, bare):
        names = [one.strip("\"'(),") for one in found.group(1).replace(",", " ").split()]
        if len(names) > 1 and _kind(names[-1]) == "train" and any(_kind(one) == "held" and "/" in one for one in names[:-1]):
            yield found.group(0)
    for words in (_SPLIT, _INSERTED):
        for found in _some(words, bare):
            names = [one for one in found.groups() if one]
            kinds = {_kind(one) for one in names}
            if len(names) == 1 or {"train", "held"} <= kinds:
                yield found.group(0)
    for found in (*_some(_GIVEN, bare), *_some(_OPTION, bare)):
        names = pattern(r"[\w./*-]+").findall(found.group(2).partition(" --")[0])
        if _kind(found.group(1)) == "train" and any(_kind(one) == "held" for one in names):
            yield found.group(0)
    for found in _some(_FIT, bare):
        if _kind(found.group(2)) == "held" and not pattern(_NOT_FITTED).search(found.group(1)):
            yield found.group(0)


def _some(words: str, text: str) -> Iterator[Any]:
    if words in _LOOKED_FOR and not _LOOKED_FOR[words] & _LOOK.held(text):
        return
    for count, found in enumerate(pattern(words).finditer(text)):
        if count >= MOST:
            return
        yield found


def pairs_in(text: str, before: str) -> Iterator[tuple[str, str]]:
    """Yield (what goes, what comes): of an edit, of replacements that a program makes.

    Example:
        >>> list(pairs_in("sed -i 's#a/b#a/c#' x", "")), list(pairs_in("s.replace('k', 'l')", ""))
        ([('a/b', 'a/c')], [])
        >>> list(pairs_in("s = s.replace('old_one', 'new_one')", ""))
        [('old_one', 'new_one')]
    """
    if before:
        yield before, text
    for found in _some(_PAIR, text):
        old, new = [one for one in found.groups() if one is not None][:2]
        yield old.replace("\\", ""), new.replace("\\", "")


def _changed(bare: str, before: str) -> Iterator[str]:
    """Yield paths of training data that come to hold more than those."""
    for old, new in pairs_in(bare, before):
        if not pattern(r"(?i)train").search(old) or len(new) > 4_000:
            continue
        gone = [one for one in pattern(_NAME).findall(old) if _kind(one) == "train" and pattern(r"[/*.]|_").search(one)]
        kept = set(pattern(_NAME).findall(new))
        for one in gone[:8]:
            path = one.strip("{},:")
            if path in kept or one in kept:
                continue
            wider = [name for name in kept if _folder(name) == _folder(path) and _wider(name, path)]
            held = [name for name in kept if _kind(name) == "held" and pattern(r"[/.*]").search(name)]
            if wider or (held and pattern(r"[/.*]").search(path)):
                yield f"{path} -> {(wider or held)[0]}"
        shut = pattern(r"(?i)split\s*[=:]\s*[\"']?(?:all|train\s*\+|full|trainval|test|val)").search(new)
        if shut and pattern(r"(?i)split\s*[=:]\s*[\"']?train").search(old):
            yield shut.group(0)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _wider(name: str, path: str) -> bool:
    """Tell whether a glob or braces take in training data and more."""
    last, before = name.rpartition("/")[2], path.rpartition("/")[2]
    words = _words(last)
    if "{" in last and words & _HELD and words & _TRAIN:
        return True
    start = last.partition("*")[0]
    return "*" in last and "train" not in last and before.startswith(start) and (len(start) > 2 or "/" in path)


def _weights(bare: str, before: str) -> Iterator[Act]:
    for found in _some(_WEIGHTS, bare):
        if pattern(_NO_WEIGHTS).search(bare[max(0, found.start() - 40) : found.start()]):
            continue
        if "(" in found.group(0) and pattern(_LOCAL).search(bare[found.end() : found.end() + 60]):
            continue
        if "applications" in found.group(0) and pattern(r"weights\s*=\s*None").search(bare[found.end() : found.end() + 160]):
            continue
        yield Act("code", "brings weights", bare[found.start() : found.end() + 60].split("\n")[0][:160], span=found.span())
        return
    for old, new in pairs_in(bare, before):
        if pattern(_START).search(old) and pattern(_LOADED).search(new) and not pattern(_LOADED).search(old):
            yield Act("code", "brings weights", new[:160], traits={"instead": "start"})
            return
