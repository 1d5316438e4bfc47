"""How texts are compared: the same name typed in another way is the same name.

tidy   what is kept: composed characters (NFC), one space for any white space, no control characters
key    what is the same question: tidy, and without regard to upper and lower case
fold   what is found: key, and without accents either, so that Jose finds José
"""

from __future__ import annotations

import re
import unicodedata

from attnlab.errors import InputError
from attnlab.knowledge.material.pairs import shorten

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_PLAIN = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"})


def tidy(text: str, what: str = "text") -> str:
    """The text as it is kept; an error where it is no text at all."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "replace").decode()
        raise InputError(f"the {what} {shorten(shown)!r} is no UTF-8", hint="type or save it as UTF-8") from None
    return " ".join(_CONTROL.sub(" ", unicodedata.normalize("NFC", text)).split())


def key(text: str) -> str:
    return unicodedata.normalize("NFC", text.casefold())


def fold(text: str) -> str:
    """Accents are taken off letters only: in scripts where a mark is a vowel of its own, both sides lose it alike."""
    apart = unicodedata.normalize("NFD", text.casefold())
    bare = "".join(sign for sign in apart if unicodedata.category(sign) != "Mn")
    return unicodedata.normalize("NFC", bare).translate(_PLAIN)
