"""Writes to an object by another client than the framework's, as operators do with a library of their choice."""

import asyncio
import base64
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

import yaml


def _server() -> tuple[str, dict[str, Any], ssl.SSLContext | None]:
    with open(os.environ["KUBECONFIG"]) as file:  # noqa: PTH123 (as an operator writes it)
        config = yaml.safe_load(file)
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = cluster.get("certificate-authority-data")
    if authority is not None:
        authority = base64.b64decode(authority).decode()
    elif "certificate-authority" not in cluster:
        return cluster["server"], user, None
    return (
        cluster["server"],
        user,
        ssl.create_default_context(cafile=cluster.get("certificate-authority"), cadata=authority),
    )


def call(method: str, path: str, content: Any = None, kind: str = "application/json") -> Any:
    """Make a request, and wait for the answer; None if there is nothing."""
    server, user, tls = _server()
    headers = {"Content-Type": kind}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{server}{path}", data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def path_of(body: Mapping[str, Any], *subresource: str) -> str:
    """Where an object is."""
    metadata = body["metadata"]
    version = body["apiVersion"]
    scope = ("namespaces", metadata["namespace"]) if "namespace" in metadata else ()
    plural = body["kind"].lower() + "s"
    return "/".join(("", "apis" if "/" in version else "api", version, *scope, plural, metadata["name"], *subresource))


def patch(body: Mapping[str, Any], change: Mapping[str, Any], *subresource: str, kind: str = "merge-patch") -> Any:
    """Change an object, and wait for the answer; None if there is none."""
    return call("PATCH", path_of(body, *subresource), dict(change), f"application/{kind}+json")


async def patch_async(body: Mapping[str, Any], change: dict[str, Any], *subresource: str) -> Any:
    """The same for who must not block."""
    return await asyncio.to_thread(patch, body, change, *subresource)
