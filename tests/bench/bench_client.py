"""What a request costs, beside the clients that others use: `make bench` prints it."""

import json
import subprocess
import sys

from .peers import HERE

COUNT = 10_000
PROGRAM = str(HERE / "patches.py")


def test_patches() -> None:
    lines = {}
    with subprocess.Popen([sys.executable, PROGRAM, "serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            for client in ("ctl", "aiohttp", "kubernetes_asyncio"):
                command = [sys.executable, PROGRAM, client, str(COUNT), url]
                run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
                assert run.returncode == 0, run.stderr[-2000:]
                lines[client] = json.loads(run.stdout.splitlines()[-1])
                print(f"\npatches, {client}: {json.dumps(lines[client])}", end="")
        finally:
            server.kill()
    mine = lines["ctl"]["cpu_us"]
    for peer in ("aiohttp", "kubernetes_asyncio"):
        print(f"\npatches: cpu ctl / {peer} {mine / lines[peer]['cpu_us']:.2f}", end="")
    # It does more than the bare session: retries, limits, metrics, typed errors, the object's identity.
    assert mine < lines["kubernetes_asyncio"]["cpu_us"]
