"""Write cases for test_crawlers: index of the agent, a tab, a User-Agent; one a line.

Every example of the npm list, every line of the thesis' table 4.1 in several disguises,
real browsers, and random mixtures of literals, letters and bytes above 127. The expected
answer comes from a plain search for each literal, which shares nothing with the automaton.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

CRAWLERS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CRAWLERS))

import generate  # noqa: E402

PEOPLE = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0",
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like "
    "Gecko) Version/17.5 Safari/605.1.15",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, "
    "like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Linux; Android 14; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) "
    "SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Linux; Android 10; CUBOT X18 Plus) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/120.0.0.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Linux; U; Android 4.4; Panasonic Viera) AppleWebKit/537.36",
    "Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko",
    "Opera/9.80 (Windows NT 6.1; U; en) Presto/2.12.388 Version/12.18",
    "",
]


def expected(agents: list[generate.Agent], text: str) -> int:
    """Index of the agent, by looking for each literal in turn; -1 for none."""
    data = text.lower()
    best, found = (0, 0, 0), -1
    for index, agent in enumerate(agents):
        for literal in agent.literals:
            end = ends_at(data, literal)
            length = len(literal.removeprefix(generate.WORD))
            # The first place where one is as good as the others decides.
            weight = (agent.rank, length, -end)
            if end >= 0 and weight > best:
                best, found = weight, index
    return found


def ends_at(data: str, literal: str) -> int:
    """Where the first occurrence that counts ends, or -1."""
    word = literal.startswith(generate.WORD)
    body = literal.removeprefix(generate.WORD)
    start, end = body.startswith("^"), body.endswith("$")
    body = body.removeprefix("^").removesuffix("$")
    at = data.find(body)
    while at >= 0:
        before = data[at - 1] if at else " "
        inside = word and before.isascii() and before.isalnum()
        if not inside and not (start and at) and not (end and at + len(body) < len(data)):
            return at + len(body)
        at = data.find(body, at + 1)
    return -1


def disguises(name: str) -> list[str]:
    """A crawler's name as it may come."""
    return [
        name,
        name.upper(),
        name.lower() + "/2.1",
        f"Mozilla/5.0 (compatible; {name}/2.1; +http://www.example.org/bot.html)",
    ]


def mixtures(agents: list[generate.Agent], count: int) -> list[str]:
    """Random texts that nearly, or really, hold literals."""
    rng = random.Random(41)
    literals = [lit for agent in agents for lit in agent.literals]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(rng.randrange(1, 6)):
            literal = rng.choice(literals).removeprefix(generate.WORD).strip("^$")
            cut = rng.choice([literal, literal[1:], literal[:-1], literal.upper()])
            parts.append(rng.choice(["", " ", "x", "/", "\xe9", "(", "-"]) + cut)
        texts.append("".join(parts).replace("\t", " "))
    return texts


def main() -> None:
    """Write the cases to the file named on the command line."""
    agents = generate.read_lists()
    npm = json.loads((CRAWLERS / "crawler-user-agents.json").read_text("utf-8"))
    table = [
        line
        for line in (CRAWLERS / "table-4.1.txt").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    texts = [text for entry in npm for text in entry["instances"]]
    crawlers = [text for name in table for text in disguises(name)]
    lines = []
    for text in [*texts, *crawlers, *PEOPLE, *mixtures(agents, 3000)]:
        index = expected(agents, text)
        if text in crawlers and (index < 0 or agents[index].klass != "crawler"):
            sys.exit(f"of table 4.1, and not a crawler: {text}")
        if text in PEOPLE and index >= 0:
            sys.exit(f"taken for {agents[index].name}: {text}")
        lines.append(f"{index}\t{text}\n")
    Path(sys.argv[1]).write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main()
