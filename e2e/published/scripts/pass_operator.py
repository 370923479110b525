"""pass-operator: Secrets from a password store.

Its handlers are functions for threads that lock each object by themselves, a timer among them that runs beside the others; it keeps
Kopf's finalizer and records under names of its own, and reads `old` and `new` of an update. It leaves it to Kopf's login to configure
the `kubernetes` client. Decryption is stubbed, and the store is a folder; its definition is not part of the package and is ours.
"""

from collections.abc import AsyncIterator
from typing import Any

from conformance.api import Body
from conformance.spaces import definition
from published.stage import Published, Stage

WHERE = "/apis/secrets.premiscale.com/v1alpha1/namespaces/NAMESPACE/passsecrets"
SECRETS = "/api/v1/namespaces/NAMESPACE/secrets"


def definitions() -> list[Body]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    versions = [
        {
            "name": "v1alpha1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
    ]
    return [definition("secrets.premiscale.com", "passsecrets", "PassSecret", versions=versions)]


def spec(managed: str, **data: str) -> Body:
    metadata = {"name": managed, "namespace": "NAMESPACE"}
    return {"encryptedData": data, "managedSecret": {"metadata": metadata, "type": "Opaque", "immutable": False}}


def keep(stage: Stage, **entries: str) -> None:
    """Put passwords into the store."""
    store = stage.folder / "home" / ".password-store"
    store.mkdir(parents=True, exist_ok=True)
    (store / ".gpg-id").write_text("somebody")
    for name, text in entries.items():
        (store / f"{name}.gpg").write_text(text)


async def play(stage: Stage) -> AsyncIterator[str]:
    keep(stage, one="first", two="second", three="third")
    where, managed = f"{WHERE}/one", f"{SECRETS}/one"
    await stage.start()
    meta: dict[str, Any] = {"name": "one", "namespace": "NAMESPACE"}
    head = {"apiVersion": "secrets.premiscale.com/v1alpha1", "kind": "PassSecret"}
    await stage.create(WHERE, {**head, "metadata": meta, "spec": spec("one", a="one", b="two")})
    await stage.until(managed, lambda body: set(body["data"]) == {"a", "b"})
    await stage.called("reconciliation")
    await stage.handled(where)
    yield "creation"

    keep(stage, one="changed")
    await stage.until(managed, lambda body: body["data"]["a"] == "Y2hhbmdlZA==")
    yield "change in the store, found by the timer"

    await stage.merge(where, {"spec": {**spec("one", b="one", c="three"), "more": 1}})
    await stage.until(managed, lambda body: "c" in body["data"])
    await stage.handled(where, **stage.filled(spec("one", a="one", b="one", c="three")))
    yield "update of several fields at once"

    await stage.merge(where, {"spec": spec("two", a="two")})
    await stage.gone(managed)
    await stage.until(f"{SECRETS}/two", lambda body: "a" in body["data"])
    await stage.handled(where, **stage.filled(spec("two", a="two", b="one", c="three")))
    yield "update of the Secret's name"

    await stage.stop()
    await stage.merge(where, {"spec": spec("three", a="three")})
    await stage.start()
    await stage.until(f"{SECRETS}/three", lambda body: "a" in body["data"])
    await stage.handled(where, **stage.filled(spec("three", a="three", b="one", c="three")))
    yield "restart, with an update in between"

    await stage.create(WHERE, {**head, "metadata": {**meta, "name": "bad"}, "spec": {"encryptedData": {}}})
    record = "secrets.premiscale.com/create"
    await stage.until(f"{WHERE}/bad", lambda body: record in body["metadata"].get("annotations", {}))
    yield "creation of what fails"

    await stage.delete(where)
    await stage.gone(where)
    await stage.gone(f"{SECRETS}/three")
    yield "deletion"
    await stage.stop()
    yield "end"


OPERATOR = Published(
    name="pass-operator",
    version="0.4.8",
    modules=["passoperator.daemon"],
    definitions=definitions,
    kept=[WHERE, SECRETS],
    play=play,
    stubs="pass_operator",
    environment={
        "HOME": "FOLDER/home",
        "OPERATOR_NAMESPACE": "NAMESPACE",
        "OPERATOR_INTERVAL": "2",
        "OPERATOR_INITIAL_DELAY": "1",
        "PASS_GPG_KEY_ID": "somebody",
        "PASS_GPG_PASSPHRASE": "open sesame",
    },
)
