"""The version of this distribution, and that of the Kopf it stands for, in one place."""

VERSION = "0.1.0"

KOPF_VERSION = "1.45.2"
"""The version of Kopf whose behaviour this toolkit has."""
