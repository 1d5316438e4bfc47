"""Equations as MathML, which browsers render natively, from the plain text that the terminal shows.

    p_j = e^s_j / (1 + Σ e^s_l), each head with a b of its own

A line is split at commas, wide gaps and runs of words, where a browser may break it. The parts are parsed:

    row       products, joined by + − = ← ≤ and so on
    product   factors side by side or joined by · ⊙ ×; `/` makes a fraction of all before it and one factor after it
    factor    an atom with scripts, as in x_i, S_{t−1}, e^(a·b), D², Wᵀ; √ takes one factor, Σ and Π a product
    atom      a letter, a number, a word, (…), […] or |…|

Text that does not parse is shown as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import Markup, escape

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MINUS = "−-"
_JOINING = "·⊙×*"
_BETWEEN = f"+{_MINUS}=<>≤≥≈≠→←⇒∈~≪≫…–,;:"
_SEPARATORS = ",;:"
_LARGE = "ΣΠ"
_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹ᵀʰ⁻′↑↓", "0123456789Th−′↑↓", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True))
_ACCENTS = {"\u0302": "^", "\u0304": "¯"}
_LIMITS = {"argmax", "argmin", "max", "min"}  # functions whose subscript is set below them
_FUNCTIONS = {"cos", "elu", "exp", "log", "logit", "mean", "rms", "sin", "softmax", "tanh", *_LIMITS}
_DEPTH = 40  # of nested brackets
_LONGEST = 300  # characters per line

_SCRIPTS = "".join((*_RAISED, *_LOWERED))
_LETTER = rf"[^\W\d_{_LARGE}{_SCRIPTS}½¼¾]"
_TOKEN = re.compile(
    rf"(?P<blank>\s*)(?:(?P<number>\d+(?:[.,]\d+)*|[½¼¾∞])|(?P<letters>{_LETTER}+)|(?P<mark>\S))"
    r"(?P<accent>[\u0302\u0304]?)"
)
_SUBSCRIPT = re.compile(rf"(?:{_LETTER}|[0-9])+(?:,[a-z](?!\w))?")


class _NotAnEquationError(Exception):
    """The text cannot be parsed."""


@dataclass(frozen=True)
class _Token:
    kind: str  # number, letter, word, subscript or mark
    text: str
    gap: int  # spaces before it
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True)
class _Node:
    """MathML; `inner` is the same without outer brackets that a fraction or a root makes redundant."""

    html: str
    inner: str

    @classmethod
    def plain(cls, html: str) -> _Node:
        return cls(html, html)


def equation_html(text: str) -> Markup:
    """Return one line of plain text as HTML with MathML.

    Parameters
    ----------
    text
        An equation as attnlab writes it, also with words: `o = Σ p_j v_j`.

    Returns
    -------
    Markup
        `<math>` elements and words; the text itself, escaped, if it cannot be parsed.
    """
    try:
        return Markup("").join(list(_pieces(text.strip()))) if len(text) <= _LONGEST else escape(text)
    except _NotAnEquationError:
        return escape(text)


def equations_html(text: str) -> Markup:
    """Return equations on lines of their own as a block of HTML.

    Parameters
    ----------
    text
        Lines, each an equation; empty ones are left out.

    Returns
    -------
    Markup
        An element of the class `equations` with a paragraph for each line.
    """
    lines = [Markup("<p>{}</p>").format(equation_html(line)) for line in text.splitlines() if line.strip()]
    return Markup('<div class="equations" tabindex="0">{}</div>').format(Markup("").join(lines))


def _pieces(text: str) -> Iterator[Markup]:
    """Yield words and `<math>` elements in the order of reading."""
    tokens = list(_tokens(text))
    for (_, plain), pairs in groupby(zip(tokens, _runs(tokens), strict=True), key=lambda pair: pair[1]):
        run = [token for token, _ in pairs]
        source = text[run[0].start : run[-1].end]
        blank = "\u2003" if run[0].gap > 1 else " " * run[0].gap
        if plain or all(token.kind == "word" for token in run):
            yield Markup("{}{}").format(blank, source)
        else:
            inner = Markup(_Parser(run).parse())
            yield Markup('{}<math displaystyle="true" alttext="{}">{}</math>').format(blank, source, inner)


def _tokens(text: str) -> Iterator[_Token]:
    place, last = 0, ""
    while found := _TOKEN.match(text, place):
        gap, start, letters = len(found["blank"]), found.end("blank"), found["letters"]
        # Adjacent letters are a word; after a number or a script, or if one is Greek, they are factors: 2D, WᵀWx.
        behind = not gap and start > 0 and (text[start - 1].isdigit() or text[start - 1] in _SCRIPTS)
        if letters and len(letters) > 1 and (behind or not letters.isascii()):
            place = start + 1
            yield _Token("letter", text[start], gap, start)
            continue
        article = letters == "a" and gap and last not in {"", "a", "an"} and text[found.end() :].startswith(" ")
        kind = "number" if found["number"] else "mark" if found["mark"] else "letter"
        if letters and (len(letters) > 1 or article):
            kind = "word"
        place, last = found.end(), letters if kind == "word" and letters not in _FUNCTIONS else ""
        yield _Token(kind, text[start:place], gap, start)
        if found["mark"] == "_" and (name := _SUBSCRIPT.match(text, place)):
            yield _Token("subscript", name[0], 0, place)
            place = name.end()


def _runs(tokens: Sequence[_Token]) -> Iterator[tuple[int, bool]]:
    """Yield for each token the number of its part of the line, and whether it is plain text there."""
    depth = part = 0
    for place, token in enumerate(tokens):
        if token.kind == "mark":
            depth += (token.text in _CLOSING) - (token.text in _CLOSING.values())
        part += depth == 0 and token.gap > 1
        separator = token.kind == "mark" and token.text in _SEPARATORS
        beside = _is_prose(tokens, place - 1) or _is_prose(tokens, place + 1)
        heading = any(one.text == ":" for one in tokens[place + 1 : place + 2])
        phrase = _is_prose(tokens, place) and (beside or heading)
        yield part, depth == 0 and (phrase or separator)


def _is_prose(tokens: Sequence[_Token], place: int) -> bool:
    """Return whether the token at `place` is a word that is not the name of a function."""
    if not 0 <= place < len(tokens) or tokens[place].kind != "word" or tokens[place].text in _FUNCTIONS:
        return False
    behind = tokens[place + 1] if place + 1 < len(tokens) else None
    return behind is None or behind.gap > 0 or behind.text in _SEPARATORS


class _Parser:
    """Reads tokens from left to right and writes MathML."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0

    def parse(self) -> str:
        html = self._row("")
        if self._next is not None:
            raise _NotAnEquationError
        return html

    @property
    def _next(self) -> _Token | None:
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def _take(self) -> _Token:
        token = self._next
        if token is None:
            raise _NotAnEquationError
        self._place += 1
        return token

    def _row(self, closing: str) -> str:
        """Return products and what stands between them, up to the closing bracket."""
        parts: list[str] = []
        while not self._at_end(closing):
            if self._at_sign():
                sign = self._take().text
                leads = sign in _MINUS and (not parts or parts[-1].startswith("<mo"))
                form = ' form="prefix"' if leads else ""
                parts.append(f"<mo{form}>{escape(sign)}</mo>")
            else:
                parts.append(self._product(closing))
        return "".join(parts)

    def _at_end(self, closing: str) -> bool:
        token = self._next
        if token is None:
            return True
        return token.kind == "mark" and token.text == closing and (closing != "|" or not token.gap)

    def _at_sign(self) -> bool:
        """Return whether a sign comes next that joins products; a bar does between blanks, as in P(a | b)."""
        token = self._next
        if token is None or token.kind != "mark":
            return False
        behind = self._tokens[self._place + 1] if self._place + 1 < len(self._tokens) else None
        return token.text in _BETWEEN or (token.text == "|" and bool(token.gap and behind and behind.gap))

    def _product(self, closing: str, *, fractions: bool = True) -> str:
        parts: list[_Node] = []
        wide = False  # a word is set with space around it
        while not self._at_end(closing) and not self._at_sign():
            token = self._take()
            if token.kind == "mark" and token.text == "/":
                if not fractions or not parts:
                    self._place -= 1
                    break
                above = parts[0].inner if len(parts) == 1 else "".join(part.html for part in parts)
                below = self._factor(self._take(), closing).inner
                parts, wide = [_Node.plain(f"<mfrac>{_row(above)}{_row(below)}</mfrac>")], False
                continue
            if token.kind == "mark" and token.text in _JOINING:
                parts.append(_Node.plain(f"<mo>{token.text}</mo>"))
                continue
            word = token.kind == "word"
            if parts and token.gap and not parts[-1].html.endswith("</mo>"):
                parts.append(_Node.plain(f'<mspace width="{"0.3em" if word or wide else "0.17em"}"></mspace>'))
            parts.append(self._factor(token, closing))
            wide = word
        if not parts:
            raise _NotAnEquationError
        return "".join(part.html for part in parts)

    def _factor(self, first: _Token, closing: str) -> _Node:
        """Return the factor that begins with a token, with its scripts."""
        if first.kind == "mark" and first.text in _LARGE:
            return self._large(first, closing)
        if first.kind == "mark" and first.text == "√":
            return _Node.plain(f"<msqrt>{self._factor(self._take(), closing).inner}</msqrt>")
        node = self._scripts(self._atom(first), limits=first.text in _LIMITS)
        while first.kind in ("letter", "word") and (token := self._next) and token.text in ("(", "[") and not token.gap:
            node = _Node.plain(node.html + self._scripts(self._bracket(self._take())).html)  # a function's argument
        return node

    def _large(self, first: _Token, closing: str) -> _Node:
        """Return a sum or a product with what it runs over."""
        sign = self._scripts(_Node.plain(f"<mo>{'∑' if first.text == 'Σ' else '∏'}</mo>"), limits=True)
        empty = self._at_end(closing) or self._at_sign()
        return _Node.plain(_row(sign.html + ("" if empty else self._product(closing, fractions=False))))

    def _atom(self, token: _Token) -> _Node:
        if token.kind == "number":
            return _Node.plain(f"<mn>{escape(token.text)}</mn>")
        if token.kind == "letter":
            return _Node.plain(_letter(token.text))
        if token.kind == "word":
            following = self._next
            applied = following is not None and following.text == "(" and not following.gap
            tag = "mi" if applied or token.text in _FUNCTIONS else "mtext"
            return _Node.plain(f"<{tag}>{escape(token.text)}</{tag}>")
        if token.kind == "mark" and (token.text in _CLOSING or token.text == "|"):
            return self._bracket(token)
        raise _NotAnEquationError

    def _bracket(self, opening: _Token) -> _Node:
        self._depth += 1
        if self._depth > _DEPTH:
            raise _NotAnEquationError
        closing = _CLOSING.get(opening.text, "|")
        inner = self._row(closing)
        self._take()
        self._depth -= 1
        tall = "<mfrac>" in inner or "<munder>" in inner
        kind = "" if tall else ' stretchy="false"'
        html = _row(f"<mo{kind}>{opening.text}</mo>{inner}<mo{kind}>{closing}</mo>")
        return _Node(html, html if closing in "|]" else inner)

    def _scripts(self, base: _Node, *, limits: bool = False) -> _Node:
        """Return an atom with all scripts that follow it without a blank."""
        below, above = "", ""
        while (token := self._next) is not None and not token.gap and token.kind == "mark":
            if token.text == "_":
                self._take()
                below += self._lowered(self._take())
            elif token.text == "^" and not above:
                self._take()
                above += self._exponent(self._take())
            elif token.text in _LOWERED:
                below += f"<mn>{_LOWERED[self._take().text]}</mn>"
            elif token.text in _RAISED:
                above += _raised(_RAISED[self._take().text])
            else:
                break
        if not below and not above:
            return base
        if limits and not above:
            return _Node.plain(f"<munder>{base.html}{_row(below)}</munder>")
        tag = "msubsup" if below and above else "msub" if below else "msup"
        scripts = "".join(_row(one) for one in (below, above) if one)
        return _Node.plain(f"<{tag}>{base.html}{scripts}</{tag}>")

    def _lowered(self, token: _Token) -> str:
        return _subscript(token.text) if token.kind == "subscript" else self._atom(token).inner

    def _exponent(self, token: _Token) -> str:
        """Return an exponent: brackets, or one atom with its subscript, also after a minus."""
        if token.kind == "mark" and token.text in _MINUS:
            return f"<mo>−</mo>{self._exponent(self._take())}"
        atom = self._atom(token).inner
        following = self._next
        if following is None or following.gap or following.text != "_":
            return atom
        self._take()
        return f"<msub>{_row(atom)}{_row(self._lowered(self._take()))}</msub>"


def _row(html: str) -> str:
    return f"<mrow>{html}</mrow>"


def _letter(text: str) -> str:
    """Return a variable, with its hat or bar."""
    if text[-1] not in _ACCENTS:
        return f"<mi>{text}</mi>"
    return f'<mover accent="true"><mi>{text[:-1]}</mi><mo>{_ACCENTS[text[-1]]}</mo></mover>'


def _raised(text: str) -> str:
    tag = "mn" if text.isdigit() else "mi" if text.isalpha() else "mo"
    return f"<{tag}>{text}</{tag}>"


def _subscript(text: str) -> str:
    """Return indices, such as ij, as letters, and a name, such as UK or noun, as a word."""
    pieces = []
    for part in re.split("(,)", text):
        if part == ",":
            pieces.append("<mo>,</mo>")
        elif part.isdigit():
            pieces.append(f"<mn>{part}</mn>")
        elif len(part) > 2 or part.isupper():
            pieces.append(f"<mi>{part}</mi>")
        else:
            pieces += [f"<mi>{letter}</mi>" for letter in part]
    return "".join(pieces)
