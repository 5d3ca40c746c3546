"""Does a line of an answer stand for code that the model left out? Knows one line at a time, and no language."""

import re

COMMENT = re.compile(r"\s*(?:#+|//+!?|\{?/\*+|\*+(?=\s)|--+|;+|%+|<!--|\"\"\"|'''|\(\*|\{-|rem\b)\s*", re.IGNORECASE)
COMMENT_END = re.compile(r"\s*(?:\*+/\}?|-->|\"\"\"|'''|\*\)|-\})\s*$")
TRAILING_COMMENT = re.compile(r"(?:\s(?:#|//|--)|/\*|<!--)\s*((?:\.{3}|…).*)$")
FRAME = r"[\s.…\[\](){}<>*_=~:\u2013\u2014-]*"
FRAMED = re.compile(rf"({FRAME})(.*?)({FRAME})")
DOTS = re.compile(r"\.{3}|…")
ONLY_DOTS = re.compile(r"[\[(<{\s]*(?:\.{3,6}|…{1,3})[\])>}\s]*")
HOLE = re.compile(r"\[(?:\.{3}|…)\]")
FRAMED_WORDS = re.compile(r"(?!.*[\"'`=;])\s*(?:(?:\.{3}|…)\s|[\[(<](?=\S+ \S+ ))")
"""What may be a placeholder without being a comment: `...rest` is code."""

NOUN = (
    r"(?:code|files?|functions?|methods?|class(?:es)?|modules?|implementations?|body|script|components?|contents?|program"
    r"|document|lines?|sections?|blocks?|logic|definitions?|imports?|html|css|styles?|template|page|tests?|cases|fields"
    r"|properties|handlers|routes|items|entries|elements|config(?:uration)?|statements|parts?|stuff)"
)
OLD = r"(?:existing|previous|original|remaining|other)"
LEAD = (
    r"(?:(?:and|plus|then|with|keep|leave|retain|preserve|insert|add|include|continue|put|place|paste|your|the|all|any"
    r"|of|everything|here|is|are|goes?) )*"
)
TAIL = (
    r"(?: (?:is|are|stays?|remains?|goes?|continues?|follows?|unchanged|untouched|unmodified|intact|the|same|here|below"
    r"|as|it|was|before|omitted|not|shown|in|original|exactly|for|brevity))"
)
BY_ITSELF = re.compile(
    rf"{LEAD}(?:rest|remainder)(?:(?: of)?(?: \w+){{0,3}}? {NOUN}{TAIL}*|{TAIL}+)"
    rf"|{LEAD}{OLD}(?: \w+){{0,2}}? {NOUN}{TAIL}+"
    rf"|{LEAD}{OLD} code{TAIL}*"
    rf"|(?:keep|leave|retain|preserve) (?:\w+ ){{0,2}}{OLD}(?: \w+){{0,2}} {NOUN}{TAIL}*"
    rf"|(?:(?:the|this|all|everything|nothing|else|others?|existing|{NOUN}) )*"
    r"(?:(?:is|are|stays?|remains?|left|kept) )?"
    rf"(?:unchanged|untouched|unmodified|as before|(?:the )?same (?:\w+ )?as (?:before|in the original)){TAIL}*"
    rf"|(?:(?:the|all|everything|else|others?|{NOUN}) )+(?:stays?|remains?) (?:the same|as (?:it )?(?:is|was)){TAIL}*"
    r"|no (?:other |further )?changes? (?:here|below|above|needed|required|necessary|made)"
    rf"|(?:\w+ ){{0,4}}{NOUN} (?:\w+ ){{0,2}}(?:omitted|truncated|elided|snipped|not shown)"
    rf"|.{{0,60}}\bfor brevity|snip"
    rf"|(?:the )?code (?:continues|goes on){TAIL}*"
    r"|(?=.{0,40}$)(?:.*\brest(?:licher|liche)? (?:\w+ )?(?:codes?|datei|funktion|klasse)"
    r"|reste (?:du|de la) (?:code|fichier|fonction)"
    r"|(?:el )?resto del (?:código|archivo)|(?:o )?resto do (?:código|arquivo)|остальной код|код без изменений"
    r"|.*(?:其余|剩余|剩下的|现有|原有)(?:的)?(?:代码|部分)|残りの(?:コード|部分)|既存のコード|나머지 코드|기존 코드).*"
    r"|(?:bleibt |bleiben )?unverändert|inchangée?s?|sin cambios|без изменений|保持不变|省略|変更なし|생략|변경 없음"
)
"""Words that say by themselves that something was left out."""
IN_BRACKETS = re.compile(rf"{LEAD}{OLD}(?: \w+){{0,2}}? {NOUN}{TAIL}*")
AFTER_DOTS = re.compile(
    r"(?!(?:and|or|but|then|so|which|that|because|if|when|unless|to)\b(?!.*\b(?:rest|so on|others?)\b))"
    r"(?:\S+ ){0,7}?"
    r"(?:rest|remain\w*|existing|previous|others?|same|similar|unchanged|omitted|truncated|snip\w*|skipp\w+|original"
    r"|more|code|implementation|methods?|functions?|logic|imports|continue[sd]?|before|above|etc|so on|brevity)\b"
    r".{0,40}"
    r"|.{0,20}(?:rest|unverändert|inchang|cambios|остальн|изменени|其余|剩|省略|不变|残り|既存|変更|나머지|기존|생략).{0,20}"
)
"""Words that say so after dots. What goes on with "and then …" is a sentence."""

MAX_CHARS = 200
"""A longer line is no placeholder, but may be long indeed."""


def is_placeholder(line: str) -> bool:
    """Whether a line says that code was left out here, as `# ... rest of the code` does."""
    if len(line) > MAX_CHARS:
        return False
    if HOLE.fullmatch(line.strip()):
        return True
    if comment := COMMENT.match(line):
        return _elides(COMMENT_END.sub("", line[comment.end() :]), is_comment=True)
    if trailing := TRAILING_COMMENT.search(line):
        return _elides(COMMENT_END.sub("", trailing[1]), is_comment=True)
    return bool(FRAMED_WORDS.match(line)) and _elides(line, is_comment=False)


def _elides(text: str, *, is_comment: bool) -> bool:
    if ONLY_DOTS.fullmatch(text):
        return is_comment
    framed = FRAMED.fullmatch(text.lower().strip())
    if framed is None:
        return False
    before, words, after = framed.groups()
    words = " ".join(re.sub(r"[^\w\s]+", " ", words).split())
    if BY_ITSELF.fullmatch(words) or (before.endswith(("[", "(", "<")) and IN_BRACKETS.fullmatch(words)):
        return True
    if not (is_comment and DOTS.search(before)):
        return False
    return bool(AFTER_DOTS.fullmatch(words)) or (bool(DOTS.search(after)) and words.count(" ") < 6)
