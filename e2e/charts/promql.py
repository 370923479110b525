"""Says which metrics and labels a PromQL expression names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import promql_parser


@dataclass(frozen=True)
class Named:
    """A metric, and the labels that are asked of it."""

    metric: str
    labels: frozenset[str]


def parsed(expression: str) -> promql_parser.Expr:
    """The tree of an expression; Grafana's interval is taken to be a minute. Raises ValueError with where it is wrong."""
    return promql_parser.parse(expression.replace("$__rate_interval", "1m"))


def named(expression: str) -> Iterator[Named]:
    """Each metric of an expression, with the labels of its matchers and of the aggregations around it."""
    yield from _walk(parsed(expression), frozenset())


def _walk(node: object, outer: frozenset[str]) -> Iterator[Named]:
    if isinstance(node, promql_parser.VectorSelector):
        matched = {one.name for one in node.matchers.matchers}
        yield Named(node.name or "", outer | frozenset(matched))
    elif isinstance(node, promql_parser.MatrixSelector):
        yield from _walk(node.vector_selector, outer)
    elif isinstance(node, promql_parser.AggregateExpr):
        labels = frozenset() if node.modifier is None else frozenset(node.modifier.labels)
        yield from _walk(node.expr, outer | labels)
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            yield from _walk(argument, outer)
    elif isinstance(node, promql_parser.BinaryExpr):
        yield from _walk(node.lhs, outer)
        yield from _walk(node.rhs, outer)
    elif isinstance(node, promql_parser.ParenExpr | promql_parser.UnaryExpr):
        yield from _walk(node.expr, outer)


def mentioned(text: str) -> set[str]:
    """The labels that a text of an alert, or a legend, shows."""
    return set(re.findall(r"\$labels\.(\w+)", text)) or set(re.findall(r"{{\s*(\w+)\s*}}", text))
