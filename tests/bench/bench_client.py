"""What a request costs, beside the clients that others use: `make bench` prints it."""

import json
import sys

from .peers import HERE, measured, serving

COUNT = 10_000
SECONDS = 300
PROGRAM = (sys.executable, str(HERE / "patches.py"))


def test_patches() -> None:
    lines = {}
    with serving(*PROGRAM, "serve") as url:
        for client in ("ctl", "aiohttp", "kubernetes_asyncio"):
            lines[client] = measured([*PROGRAM, client, str(COUNT), url], SECONDS)
            print(f"\npatches, {client}: {json.dumps(lines[client])}", end="")
    mine = lines["ctl"]["cpu_us"]
    for peer in ("aiohttp", "kubernetes_asyncio"):
        print(f"\npatches: cpu ctl / {peer} {mine / lines[peer]['cpu_us']:.2f}", end="")
    # It does more than the bare session: retries, limits, metrics, typed errors, the object's identity.
    assert mine < lines["kubernetes_asyncio"]["cpu_us"]
