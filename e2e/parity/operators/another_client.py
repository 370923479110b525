"""Writes to an object by another client than the framework's, as operators do with a library of their choice."""

import asyncio
import base64
import json
import os
import ssl
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


def patch(body: Mapping[str, Any], change: dict[str, Any], *subresource: str) -> Any:
    """Merge a change into an object, and wait for the answer."""
    server, user, tls = _server()
    metadata = body["metadata"]
    plural = body["kind"].lower() + "s"
    path = "/".join(
        ("apis", body["apiVersion"], "namespaces", metadata["namespace"], plural, metadata["name"], *subresource)
    )
    headers = {"Content-Type": "application/merge-patch+json"}
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    request = urllib.request.Request(f"{server}/{path}", json.dumps(change).encode(), headers, method="PATCH")
    with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
        return json.load(answer)


async def patch_async(body: Mapping[str, Any], change: dict[str, Any], *subresource: str) -> Any:
    """The same for who must not block."""
    return await asyncio.to_thread(patch, body, change, *subresource)
