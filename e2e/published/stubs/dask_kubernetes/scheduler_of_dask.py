"""Stands for the scheduler of each cluster of Dask: its name is found, and it answers which workers it has let go, the youngest first."""

import json
import os
import socket
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import yaml

NAMESPACE = os.environ["NAMESPACE"]
_found = socket.getaddrinfo


class Scheduler(BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.path == "/api/v1/retire_workers"
        count = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["n"]
        names = [item["metadata"]["name"] for item in workers(self.headers["Host"].partition("-scheduler.")[0])]
        answer = json.dumps({f"tcp://{name}": {"name": name} for name in names[:count]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def workers(cluster):
    """The Deployments of a cluster's workers, the youngest first."""
    server = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())["clusters"][0]["cluster"]["server"]
    selector = f"dask.org/workergroup-name%3D{cluster}-default"
    url = f"{server}/apis/apps/v1/namespaces/{NAMESPACE}/deployments?labelSelector={selector}"
    with urllib.request.urlopen(url) as answer:
        found = json.load(answer)["items"]
    return sorted(found, key=lambda item: item["metadata"]["creationTimestamp"], reverse=True)


def getaddrinfo(host, port, *args, **kwargs):
    """All Services are here."""
    if str(host).endswith(f".{NAMESPACE}"):
        host, port = "127.0.0.1", server.server_port
    return _found(host, port, *args, **kwargs)


server = HTTPServer(("127.0.0.1", 0), Scheduler)
threading.Thread(target=server.serve_forever, daemon=True).start()
socket.getaddrinfo = getaddrinfo
