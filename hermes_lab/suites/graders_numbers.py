"""Finds the numbers that a text states, as a reader would: 1,234.5, 12%, ３件, 三百二十, 3.5万, two.

Dates, times, version numbers and identifiers such as SO-1042 state no number. Where a text can be read in two ways
(12% is 12 and 0.12) both are given: a grader asks whether the wanted number is among them.
"""

from __future__ import annotations

import math
import re
import unicodedata

_MASKED = re.compile(
    r"""
    \d{4}([-/.])\d{1,2}\1\d{1,2}(?!\d)              # 2026-03-16
    | (?<!\d)\d{1,2}/\d{1,2}/\d{2,4}(?!\d)          # 3/16/2026
    | \d{4}年\d{1,2}月(?:\d{1,2}[日号])?            # 2026年3月16日
    | (?<!\d)\d{1,2}月\d{1,2}[日号]
    | (?<!\d)\d{1,2}:\d{2}(?::\d{2})?(?!\d)         # 10:05
    | (?<![\d.])\d+(?:\.\d+){2,}                    # 1.2.3
    | (?<![A-Za-z\d])(?!(?:usd|eur|gbp|cny|rmb|jpy|hkd|rs)\d)[A-Za-z]+[-_]?\d[\w-]*(?:\.\d+)*  # SO-1042, not USD12
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_GROUP_GAP = re.compile("(?<=\\d)[\u00a0\u202f\u2009'’](?=\\d{3}(?!\\d))")
_FIGURE = re.compile(
    r"""
    (?P<minus>(?<![A-Za-z\d_)])-\ ?)?
    [$€£¥]?\ ?
    (?P<digits>(?<![\d.])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<![\w.])\.\d+)
    (?P<power>[eE][+-]?\d{1,3}(?![\w]))?
    \ ?(?P<unit>%|percent|per\ cent|thousand|million|billion|k(?![a-z])|万亿|千万|百万|[百千万亿])?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SCALES = {
    "%": 0.01,
    "percent": 0.01,
    "per cent": 0.01,
    "k": 1e3,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "百": 1e2,
    "千": 1e3,
    "万": 1e4,
    "百万": 1e6,
    "千万": 1e7,
    "亿": 1e8,
    "万亿": 1e12,
}

_CHINESE_DIGITS = {char: i for i, char in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_SMALL_UNITS = {"十": 10, "百": 100, "千": 1000}
_LARGE_UNITS = {"万": 10_000, "亿": 100_000_000}
# A run that is longer than any number that is said in one breath states none.
_CHINESE = re.compile(
    r"(?P<minus>负)?(?P<percent>百分之)?(?<![零〇一二两三四五六七八九十百千万亿])"
    r"(?P<whole>[零〇一二两三四五六七八九十][零〇一二两三四五六七八九十百千万亿]{0,24})"
    r"(?:点(?P<fraction>[零〇一二三四五六七八九]{1,15}))?"
)

_WORD_VALUES = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
_WORDS = re.compile(rf"(?<!\bno )\b({'|'.join(_WORD_VALUES)})\b", re.IGNORECASE)


def numbers_in(text: str) -> list[float]:
    """Return every number that `text` states, in no certain order, each way it can be read.

    >>> numbers_in("Order SO-1042 of 2026-03-16 comes to $1,234.50, 5% off")
    [1234.5, 5.0, 0.05]
    >>> sorted(numbers_in("共三百二十件，余额１．５万元，负五"))
    [-5.0, 1.5, 320.0, 15000.0]
    """
    plain = unicodedata.normalize("NFKC", _GROUP_GAP.sub("", text)).replace("\u2212", "-")
    plain = _MASKED.sub(" ; ", plain)
    found = [number for match in _FIGURE.finditer(plain) for number in _figure(match)]
    found += [number for match in _CHINESE.finditer(plain) for number in _chinese(match)]
    found += [float(_WORD_VALUES.index(word.lower())) for word in _WORDS.findall(plain)]
    return [number for number in found if math.isfinite(number)]


def states_number(text: str, number: float, tolerance: float = 0.0) -> bool:
    """Say whether `text` states `number`, at most `tolerance` off.

    >>> states_number("There are two open tickets.", 2), states_number("合计 12.50 元", 12.6, 0.1)
    (True, True)
    """
    # What a decimal figure loses in binary is no error of whoever wrote it.
    slack = tolerance + 1e-12 * max(1.0, abs(number))
    return any(abs(found - number) <= slack for found in numbers_in(text))


def _figure(match: re.Match[str]) -> list[float]:
    digits = match["digits"].replace(",", "")
    value = float(digits + (match["power"] or ""))
    if match["minus"]:
        value = -value
    unit = (match["unit"] or "").lower()
    if unit not in _SCALES:
        return [value]
    # Rounding takes away what scaling added: 0.07 is meant by 7%, not 0.07000000000000001.
    return [value, float(f"{value * _SCALES[unit]:.12g}")]


def _chinese(match: re.Match[str]) -> list[float]:
    value = _chinese_whole(match["whole"])
    if match["fraction"]:
        value = float(f"{value:.0f}." + "".join(str(_CHINESE_DIGITS[char]) for char in match["fraction"]))
    if match["minus"]:
        value = -value
    return [value, value / 100] if match["percent"] else [value]


def _chinese_whole(text: str) -> float:
    """Return the value of Chinese numerals: with units (一万零三百), digit by digit (二〇二六), or short (一百二)."""
    if not any(char in _SMALL_UNITS or char in _LARGE_UNITS for char in text):
        return float("".join(str(_CHINESE_DIGITS[char]) for char in text))
    total = section = digit = last_unit = 0
    for char in text:
        if char in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[char]
            last_unit = 0 if digit == 0 else last_unit
        elif char in _SMALL_UNITS:
            last_unit = _SMALL_UNITS[char]
            section += (digit or 1) * last_unit
            digit = 0
        else:
            last_unit = _LARGE_UNITS[char]
            total = (total + section + digit) * last_unit if char == "亿" else total + (section + digit) * last_unit
            section = digit = 0
    if digit and last_unit >= 100:
        digit *= last_unit // 10  # 一百二 is 120; 一百零二 is 102
    return float(total + section + digit)
