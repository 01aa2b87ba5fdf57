#!/usr/bin/env python3
"""Values in Kubernetes' encrypted forms by other implementations than ours: the package `cryptography` for AES, libsodium
for secretbox.

    make.py > python.json      makes values that ours has to read (random, so that each run makes others)
    make.py check FILE         reads values that ours has written, see the README beside
"""

import base64
import ctypes
import ctypes.util
import json
import os
import sys

from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

sodium = ctypes.CDLL(ctypes.util.find_library("sodium"))


def secretbox_seal(key, nonce, plain):
    boxed = ctypes.create_string_buffer(len(plain) + 16)
    assert sodium.crypto_secretbox_easy(boxed, plain, ctypes.c_ulonglong(len(plain)), nonce, key) == 0
    return boxed.raw


def secretbox_open(key, nonce, boxed):
    plain = ctypes.create_string_buffer(len(boxed) - 16)
    assert sodium.crypto_secretbox_open_easy(plain, boxed, ctypes.c_ulonglong(len(boxed)), nonce, key) == 0
    return plain.raw


def cbc(key, iv):
    return Cipher(algorithms.AES(key), modes.CBC(iv))


def seal(provider, key, place, plain):
    if provider == "aesgcm":
        nonce = os.urandom(12)
        return nonce + AESGCM(key).encrypt(nonce, plain, place)
    if provider == "aescbc":
        iv, pad = os.urandom(16), padding.PKCS7(128).padder()
        encryptor = cbc(key, iv).encryptor()
        return iv + encryptor.update(pad.update(plain) + pad.finalize()) + encryptor.finalize()
    nonce = os.urandom(24)
    return nonce + secretbox_seal(key, nonce, plain)


def unseal(provider, key, place, payload):
    if provider == "aesgcm":
        return AESGCM(key).decrypt(payload[:12], payload[12:], place)
    if provider == "aescbc":
        decryptor, unpad = cbc(key, payload[:16]).decryptor(), padding.PKCS7(128).unpadder()
        padded = decryptor.update(payload[16:]) + decryptor.finalize()
        return unpad.update(padded) + unpad.finalize()
    return secretbox_open(key, payload[:24], payload[24:])


def text(data):
    return base64.b64encode(data).decode()


def make():
    lengths = {"aesgcm": [16, 24, 32], "aescbc": [16, 24, 32], "secretbox": [32]}
    plains = [b"", b"a", b"sixteen bytes ok", '{"kind":"Secret","data":"ünïcode"}'.encode(), bytes(range(256)) * 4]
    # Around the ends of blocks: what aescbc decrypts must be an object.
    plains += [b'{"a":"%s"}' % (b"x" * length) for length in (0, 7, 8, 9, 1000)]
    for provider, sizes in lengths.items():
        for size in sizes:
            for index, plain in enumerate(plains):
                key, name = os.urandom(size), f"{provider}-{size}"
                place = f"/registry/secrets/default/{name}-{index}"
                stored = f"k8s:enc:{provider}:v1:{name}:".encode() + seal(provider, key, place.encode(), plain)
                yield {
                    "provider": provider,
                    "name": name,
                    "secret": text(key),
                    "key": place,
                    "plain": text(plain),
                    "stored": text(stored),
                }


def check(path):
    values = json.load(open(path))
    for value in values:
        prefix = f"k8s:enc:{value['provider']}:v1:{value['name']}:".encode()
        stored = base64.b64decode(value["stored"])
        assert stored.startswith(prefix), stored
        key = base64.b64decode(value["secret"])
        plain = unseal(value["provider"], key, value["key"].encode(), stored[len(prefix):])
        assert plain == base64.b64decode(value["plain"]), value
    print(f"{len(values)} values are read")


if sys.argv[1:2] == ["check"]:
    check(sys.argv[2])
else:
    json.dump(list(make()), sys.stdout, indent=1)
    print()
