"""Stands for `gpg`: what is in the store is not encrypted."""

from pathlib import Path


class GPG:
    def __init__(self, gnupghome):
        self.home = gnupghome

    def decrypt_file(self, path, always_trust, passphrase):
        assert passphrase == "open sesame"
        return Path(path).read_text()
