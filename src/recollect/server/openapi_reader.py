"""Reads fields, types and sample values from the schemas of an OpenAPI document, for pages that people read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_LISTED_VALUES: Final = 8  # of an enumeration; time zones are hundreds
MAX_DEPTH: Final = 4  # of samples
_BOUNDS: Final = (
    ("minimum", "≥ {:,}"), ("exclusiveMinimum", "> {:,}"), ("maximum", "≤ {:,}"), ("exclusiveMaximum", "< {:,}"),
    ("maxLength", "at most {:,} characters"), ("maxItems", "at most {:,} items"),
)  # fmt: skip
_SAMPLES: Final[Mapping[str, str]] = {  # texts for names whose schema has no example
    "query": "What can I not eat?", "q": "peanuts", "content": "I am allergic to peanuts.", "person": "sara",
    "conversation": "trip", "key": "rk_…", "message": "m-1a2b", "messages": "m-1a2b", "title": "Food",
    "topic": "t-1a2b", "zone": "Asia/Riyadh",
}  # fmt: skip

Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field of an object: its type in words, whether it must be there, and what it means."""

    name: str
    type: str
    is_required: bool
    meaning: str


class SchemaReader:
    """Reads schemas of one document, whose references it follows."""

    def __init__(self, document: Schema) -> None:
        self._components: Schema = document.get("components", {}).get("schemas", {})

    def resolve(self, schema: Schema) -> Schema:
        """Return the schema that a reference points to, or the schema itself."""
        reference = schema.get("$ref")
        return self._components.get(reference.rpartition("/")[2], {}) if reference else schema

    def describe(self, schema: Schema) -> str:
        """Return a type in words, with its limits."""
        options = self._options(schema)
        if len(options) != 1 or options[0] is not schema:
            names = [self.describe(option) for option in options]
            return " or ".join(dict.fromkeys(names)) or "null"
        if "$ref" in schema:
            return str(schema["$ref"]).rpartition("/")[2]
        if "enum" in schema:
            values = [f"`{value}`" for value in schema["enum"][:MAX_LISTED_VALUES]]
            return ", ".join([*values, *(["…"] if len(schema["enum"]) > MAX_LISTED_VALUES else [])])
        if "const" in schema:
            return f"`{schema['const']}`"
        kind = schema.get("type", "anything")
        kind = " or ".join(each for each in kind if each != "null") if isinstance(kind, list) else kind
        if kind == "array" and schema.get("items"):
            kind = f"list of {self.describe(schema['items'])}"
        bounds = [text.format(schema[name]) for name, text in _BOUNDS if name in schema]
        return ", ".join([kind, *bounds])

    def shapes(self, schema: Schema) -> list[tuple[str, str, list[SchemaField]]]:
        """Return name, meaning and fields of each object that a schema allows, also inside a list."""
        shapes = []
        for option in self._options(schema):
            shape = self.resolve(option)
            if shape.get("type") == "array":
                shapes += self.shapes(shape.get("items", {}))
            elif shape.get("properties"):
                name = option.get("$ref", "").rpartition("/")[2]
                shapes.append((name, shape.get("description", ""), list(self._fields(shape))))
        return shapes

    def _fields(self, shape: Schema) -> Iterator[SchemaField]:
        for name, schema in shape["properties"].items():
            meaning = schema.get("description", "")
            if schema.get("default") is not None:
                meaning = f"{meaning}{'; ' if meaning else ''}default `{schema['default']}`"
            yield SchemaField(name, self.describe(schema), name in shape.get("required", ()), meaning)

    def sample(self, schema: Schema, name: str = "", depth: int = 0) -> Any:
        """Return a value that fits a schema: an example of it, or the fields that it requires."""
        if schema.get("examples"):
            return schema["examples"][0]
        schema = self.resolve(next(iter(self._options(schema)), {}))
        if schema.get("examples"):
            return schema["examples"][0]
        if "enum" in schema or "const" in schema:
            return schema["const"] if "const" in schema else schema["enum"][0]
        kind = schema.get("type")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object" or "properties" in schema:
            return self._sample_object(schema, depth)
        if kind == "array" and depth < MAX_DEPTH:
            return [self.sample(schema["items"], name, depth + 1)] if schema.get("items") else []
        if kind in ("integer", "number"):
            return max(1, schema.get("minimum", 1)) if kind == "integer" else 0.5
        return kind == "boolean" or _SAMPLES.get(name, "…")

    def _sample_object(self, schema: Schema, depth: int) -> dict[str, Any]:
        """Return an object with the fields that are required, or with the first one if none is."""
        properties = schema.get("properties", {})
        chosen = (schema.get("required") or list(properties)[:1]) if depth < MAX_DEPTH else []
        return {each: self.sample(properties[each], each, depth + 1) for each in chosen}

    def _options(self, schema: Schema) -> list[Schema]:
        """Return the alternatives of a schema without null, or the schema itself."""
        options = schema.get("anyOf") or schema.get("oneOf")
        if options is None:
            return [schema]
        return [option for option in options if option.get("type") != "null"]
