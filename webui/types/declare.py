"""What the pages' scripts may take for granted, for their type checker: `declare.py OUT`.

`Api`: what each route answers, out of the same declarations that the server checks with.
`Ids`: which kind of element has an id, out of the templates.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from naproxy_webui.app import create_app
from naproxy_webui.http.openapi import describe
from naproxy_webui.options import Settings

PACKAGE: Final = Path(__file__).parents[1] / "src/naproxy_webui"
OPENED: Final = re.compile(r'<([a-z][a-z0-9]*)\b[^<>]*?\sid="([a-z][a-z0-9_-]*)"')
EXPRESSION: Final = re.compile(r"{{.*?}}|{%.*?%}", re.DOTALL)
KINDS: Final = {"string": "string", "integer": "number", "number": "number"} | {
    "boolean": "boolean",
    "null": "null",
}


def shape(schema: Mapping[str, Any]) -> str:
    """Return the type of what fits a JSON Schema."""
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " | ".join(_kind(kind, schema) for kind in kinds) or "any"


def _kind(kind: str, schema: Mapping[str, Any]) -> str:
    if kind == "array":
        return f"({shape(schema.get('items', {}))})[]"
    if kind != "object":
        return KINDS[kind]
    if "properties" not in schema:
        return "Record<string, any>"
    needed = schema.get("required", ())
    return (
        "{ "
        + " ".join(
            f"{json.dumps(name)}{'' if name in needed else '?'}: {shape(each)};"
            for name, each in schema["properties"].items()
        )
        + " }"
    )


def answers(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield a member of `Api` for each route that answers JSON."""
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            good = next(iter(operation["responses"].values()))
            answer = good["content"].get("application/json")
            if answer:
                key = f"{method.upper()} {path}"
                hole = re.sub(r"{\w+}", "${string}", key)
                name = json.dumps(key) if hole == key else f"[path: `{hole}`]"
                yield f"\t{name}: {shape(answer['schema'])};"


def ids() -> Iterator[str]:
    """Yield a member of `Ids` for each id that is written out in a template."""
    found: dict[str, set[str]] = defaultdict(set)
    for template in sorted((PACKAGE / "templates").rglob("*.html")):
        for tag, name in OPENED.findall(EXPRESSION.sub("", template.read_text("utf-8"))):
            found[name].add(tag)
    for name, tags in sorted(found.items()):
        kinds = " | ".join(f"Tag<{json.dumps(tag)}>" for tag in sorted(tags))
        yield f"\t{json.dumps(name)}: {kinds};"


def main() -> None:
    """Write both."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        app = create_app(
            Settings(
                data_dir=directory / "data",
                state_dir=directory / "state",
                run_dir=directory / "run",
                control_socket=str(directory / "control.sock"),
                fingerprint=directory / "fingerprint",
            )
        )
        described = describe(app)
    lines = ["interface Api {", *answers(described), "}", "interface Ids {", *ids(), "}"]
    out = Path(sys.argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
