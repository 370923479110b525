"""Resources by all of their names."""

import kopf
from recording import record

GROUP = "parity.ctl.test"


def told(how):
    def handler(**kwargs):
        # Streams of two versions are told side by side.
        each = f"{how} {kwargs['resource'].version}" if how == "callable" else how
        record(each, {name: kwargs[name] for name in ("resource", "name", "body", "labels")})

    return handler


NOTATIONS = {
    "plural": ("apples",),
    "kind": ("Apple",),
    "singular": ("apple",),
    "short": ("apl",),
    "with group": (f"apples.{GROUP}",),
    "with version and group": (f"apples.v1.{GROUP}",),
    "with version": ("apples.v1",),
    "group, plural": (GROUP, "apples"),
    "group/version, plural": (f"{GROUP}/v1", "Apple"),
    "group, version, plural": (GROUP, "v1", "apl"),
    "beta": (f"{GROUP}/v1beta1", "pears"),
    "core": ("v1", "configmaps"),
    "core kind": ("ConfigMap",),
    "unknown": ("unknowns",),
}
KEYWORDS = {
    "kind=": {"kind": "Apple"},
    "plural=": {"plural": "apples"},
    "singular=": {"singular": "apple"},
    "shortcut=": {"shortcut": "apl"},
    "group=, plural=": {"group": GROUP, "plural": "apples"},
    "version=, plural=": {"version": "v1beta1", "plural": "pears"},
    "category=": {"category": "fruits"},
    "kind= of a plural": {"kind": "apples"},
}

for how, names in NOTATIONS.items():
    kopf.on.event(*names, id=how)(told(how))
for how, words in KEYWORDS.items():
    kopf.on.event(**words, id=how)(told(how))

kopf.on.event(GROUP, kopf.EVERYTHING, id="everything of a group")(told("everything of a group"))
kopf.on.event(lambda resource: resource.group == GROUP and resource.plural != "plums", id="callable")(told("callable"))
kopf.on.event(kopf.EVERYTHING, id="everything", labels={"e": "yes"})(told("everything"))
