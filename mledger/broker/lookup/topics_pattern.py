"""Patterns that name topics, matched in time that grows with the name's length alone. No I/O.

The pattern comes from a client, and Python's `re` can take hours over a few characters. So a pattern
becomes a nondeterministic automaton of bounded size, as Pulsar's RE2/J makes of it. What RE2 has and
this lacks (flags, classes by name, word boundaries) is refused, as is what RE2 lacks: clients match
for themselves then.
"""

import asyncio
import string
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from mledger.metastore.records.paths import TopicName

MOST_STATES = 200
MATCHED_AT_ONCE = 32  # topics
_REMEMBERED = 4096  # transitions, of one pattern
_SCHEME = "://"
_DOMAINS = ("non-persistent", "persistent")

CharTest: TypeAlias = Callable[[str], bool]
_State: TypeAlias = "tuple[CharTest | None, tuple[int, ...]]"  # what it takes, or None for no character; where to
_Node: TypeAlias = "Callable[[_Automaton, int], int]"  # adds states that end at a state; returns where they begin


class UnsupportedPattern(ValueError):
    """A pattern is malformed, too large, or has something that is not supported."""


class TopicsPattern:
    """A client's pattern: matches names of topics without their domain and without the partition's number."""

    def __init__(self, text: str) -> None:
        """Raises UnsupportedPattern."""
        automaton = _Automaton()
        self._end = automaton.add(None, ())
        self._states = automaton.states
        start = _Parser(without_domain(text)).parse()(automaton, self._end)
        self._start = self._closed([start])
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, topic: str) -> bool:
        """Whether the pattern matches the topic of this full name."""
        name = str(TopicName.parse_served(topic).partitioned).partition(_SCHEME)[2]
        now = self._start
        for char in name:
            after = self._steps.get((now, char))
            if after is None:
                after = self._step(now, char)
            if not after:
                return False
            now = after
        return self._end in now

    def of(self, topics: Iterable[str]) -> list[str]:
        """Those of the topics that the pattern matches."""
        return [topic for topic in topics if self.matches(topic)]

    def _step(self, now: frozenset[int], char: str) -> frozenset[int]:
        states = self._states
        after = self._closed(
            to for number in now for to in states[number][1] if (test := states[number][0]) is not None and test(char)
        )
        if len(self._steps) >= _REMEMBERED:
            self._steps.clear()
        self._steps[now, char] = after
        return after

    def _closed(self, numbers: Iterable[int]) -> frozenset[int]:
        """These states, and those that no character leads to from them."""
        found: set[int] = set()
        waiting = list(numbers)
        while waiting:
            number = waiting.pop()
            if number not in found:
                found.add(number)
                test, to = self._states[number]
                if test is None:
                    waiting += to
        return frozenset(found)


def without_domain(pattern: str) -> str:
    """A pattern without the domain (`persistent://`) that it may begin with. Raises UnsupportedPattern."""
    prefix, separator, rest = pattern.partition(_SCHEME)
    if not separator:
        return pattern
    for domain in _DOMAINS:
        if prefix.endswith(domain):
            return prefix.removesuffix(domain) + rest
    raise UnsupportedPattern(f"{prefix!r} is not a domain of topics")


async def matching(pattern: TopicsPattern, topics: Sequence[str]) -> list[str]:
    """Those of many topics that the pattern matches; others get a turn meanwhile."""
    found: list[str] = []
    for first in range(0, len(topics), MATCHED_AT_ONCE):
        found += pattern.of(topics[first : first + MATCHED_AT_ONCE])
        await asyncio.sleep(0)
    return found


class _Automaton:
    """The states of a pattern, made from its end to its beginning."""

    def __init__(self) -> None:
        self.states: list[_State] = []

    def add(self, test: CharTest | None, to: tuple[int, ...]) -> int:
        """Add a state; returns its number."""
        if len(self.states) >= MOST_STATES:
            raise UnsupportedPattern(f"the pattern needs more than {MOST_STATES} states")
        self.states.append((test, to))
        return len(self.states) - 1

    def aim(self, number: int, to: tuple[int, ...]) -> None:
        """Give a state its targets, which were not known yet when it was added."""
        self.states[number] = (self.states[number][0], to)


def _char(test: CharTest) -> _Node:
    return lambda automaton, end: automaton.add(test, (end,))


def _sequence(nodes: list[_Node]) -> _Node:
    def build(automaton: _Automaton, end: int) -> int:
        for node in reversed(nodes):
            end = node(automaton, end)
        return end

    return build


def _either(nodes: list[_Node]) -> _Node:
    return lambda automaton, end: automaton.add(None, tuple(node(automaton, end) for node in nodes))


def _repeated(node: _Node, least: int, most: int | None) -> _Node:
    def build(automaton: _Automaton, end: int) -> int:
        if most is None:
            loop = automaton.add(None, ())
            automaton.aim(loop, (node(automaton, loop), end))
            at = loop
        else:
            at = end
            for _ in range(most - least):
                at = automaton.add(None, (node(automaton, at), end))
        for _ in range(least):
            at = node(automaton, at)
        return at

    return build


def _is(char: str) -> CharTest:
    return lambda other: other == char


def _in(chars: str) -> CharTest:
    return frozenset(chars).__contains__


def _not(test: CharTest) -> CharTest:
    return lambda char: not test(char)


def _between(first: str, last: str) -> CharTest:
    return lambda char: first <= char <= last


_CLASSES = {"d": _in(string.digits), "s": _in("\t\n\f\r "), "w": _in(string.digits + string.ascii_letters + "_")}
_CONTROLS = {"t": "\t", "n": "\n", "f": "\f", "r": "\r", "v": "\v", "a": "\a"}


class _Parser:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def parse(self) -> _Node:
        """The whole pattern; `^` and `$` around it say what holds anyway."""
        node = self._alternatives()
        if self._at < len(self._text):
            raise UnsupportedPattern("a ) has no (")
        return node

    def _next(self) -> str:
        """Take one character."""
        if self._at >= len(self._text):
            raise UnsupportedPattern("the pattern ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, text: str) -> bool:
        """Whether this comes next; takes it."""
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _alternatives(self) -> _Node:
        nodes = [self._sequence()]
        while self._take("|"):
            nodes.append(self._sequence())
        return nodes[0] if len(nodes) == 1 else _either(nodes)

    def _sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            at = self._at
            if self._take("\\Q"):
                nodes += [_char(_is(char)) for char in self._quoted()]
            elif self._take("^") or self._take("\\A"):
                if at:
                    raise UnsupportedPattern("^ is supported at the beginning only")
            elif self._take("$") or self._take("\\z"):
                if self._at < len(self._text):
                    raise UnsupportedPattern("$ is supported at the end only")
            else:
                nodes.append(self._repetition(self._one()))
        return _sequence(nodes)

    def _quoted(self) -> str:
        quoted, _, _ = self._text[self._at :].partition("\\E")
        self._at += len(quoted)
        self._take("\\E")
        return quoted

    def _one(self) -> _Node:
        char = self._next()
        if char == "(":
            return self._group()
        if char == "[":
            return _char(self._class())
        if char == ".":
            return _char(_not(_is("\n")))
        if char == "\\":
            return _char(self._escaped())
        if char in "*+?":
            raise UnsupportedPattern(f"{char} has nothing to repeat")
        return _char(_is(char))

    def _group(self) -> _Node:
        if self._take("?") and not self._take(":"):
            raise UnsupportedPattern("groups that begin with (? are supported as (?: only")
        node = self._alternatives()
        if not self._take(")"):
            raise UnsupportedPattern("a ( has no )")
        return node

    def _repetition(self, node: _Node) -> _Node:
        found = next((sign for sign in "*+?" if self._take(sign)), "")
        if found:
            node = _repeated(node, int(found == "+"), 1 if found == "?" else None)
        elif (counts := self._counts()) is not None:
            node = _repeated(node, *counts)
        else:
            return node
        self._take("?")  # what is taken first does not matter where all has to match
        if self._at < len(self._text) and self._text[self._at] in "*+?":
            raise UnsupportedPattern("a repetition is repeated")
        return node

    def _counts(self) -> tuple[int, int | None] | None:
        """The numbers of {2}, {2,} and {2,3}; other braces stand for themselves."""
        inside, end, _ = self._text[self._at :].partition("}")
        least, comma, most = inside[1:].partition(",")
        digits = all(char in string.digits for char in least + most)
        if not inside.startswith("{") or not end or not least or not digits:
            return None
        self._at += len(inside) + 1
        if max(len(least), len(most)) > 4 or (most and int(most) < int(least)) or int(least) > MOST_STATES:
            raise UnsupportedPattern(f"{inside}}} repeats too often, or less than not at all")
        return int(least), int(most) if most else None if comma else int(least)

    def _escaped(self) -> CharTest:
        char = self._next()
        if char.lower() in _CLASSES:
            test = _CLASSES[char.lower()]
            return test if char.islower() else _not(test)
        return _is(self._literal(char))

    def _literal(self, char: str) -> str:
        """What a character means behind a backslash."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char.isalnum():
            raise UnsupportedPattern(f"\\{char} is not supported")
        return char

    def _class(self) -> CharTest:
        """A class, behind its [."""
        negated = self._take("^")
        tests: list[CharTest] = []
        while not (tests and self._take("]")):
            if self._take("[:"):
                raise UnsupportedPattern("classes by name are not supported")
            first = self._next()
            if first == "\\":
                if self._text[self._at : self._at + 1].lower() in tuple(_CLASSES):
                    tests.append(self._escaped())
                    continue
                first = self._literal(self._next())
            tests.append(self._range(first))
        test: CharTest = _any(tests)
        return _not(test) if negated else test

    def _range(self, first: str) -> CharTest:
        """The characters from `first` to the one behind a -, if there is one."""
        if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 : self._at + 2] in ("]", ""):
            return _is(first)
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._literal(self._next())
        if last < first:
            raise UnsupportedPattern(f"{first}-{last} is no range")
        return _between(first, last)


def _any(tests: list[CharTest]) -> CharTest:
    return lambda char: any(test(char) for test in tests)
