"""What keeps recorded text from doing harm, and files from being read by others."""

from __future__ import annotations

from importlib import import_module

from holdfast.security._text import escape_json, neutralise, neutralise_line

TYPE_CHECKING = False  # loading `typing` takes longer than what the command's quick start needs
if TYPE_CHECKING:
    from typing import Any

    from holdfast.security._keys import (
        KEY_DOCUMENT,
        PASSPHRASE_VARIABLE,
        Kdf,
        KeyDocument,
        Ring,
        WrappingKey,
        find_passphrase,
        find_secret,
        fingerprint,
        inherited,
        is_strong,
        new_kdf,
        read_key_document,
        read_key_text,
        split_source,
        store_in_keyring,
        stretch,
    )
    from holdfast.security._passphrase import (
        is_sealed_file,
        open_with_passphrase,
        seal_with_passphrase,
    )
    from holdfast.security._redact import (
        NOTHING_STREAMED,
        Finding,
        Redactor,
        Streamed,
        ends_stream,
        feed,
        finish,
        secret_values,
    )
    from holdfast.security._redact_rules import read_user_rules
    from holdfast.security._redact_scan import Scanner, has_mark
    from holdfast.security._seal import (
        DataKey,
        Opener,
        Sealer,
        document_key,
        is_sealed_document,
        new_data_key,
        open_document,
        seal_document,
    )
    from holdfast.security._signatures import (
        SIGNATURE_SUFFIX,
        Signing,
        public_key_text,
        verify_signature,
    )

# Loaded when first asked for: most programs seal nothing.
_LAZY = {
    "SIGNATURE_SUFFIX": "_signatures",
    "Signing": "_signatures",
    "public_key_text": "_signatures",
    "verify_signature": "_signatures",
    "PASSPHRASE_VARIABLE": "_keys",
    "find_passphrase": "_keys",
    "find_secret": "_keys",
    "split_source": "_keys",
    "store_in_keyring": "_keys",
    "DataKey": "_seal",
    "Opener": "_seal",
    "Sealer": "_seal",
    "document_key": "_seal",
    "is_sealed_document": "_seal",
    "new_data_key": "_seal",
    "open_document": "_seal",
    "seal_document": "_seal",
    "KEY_DOCUMENT": "_keys",
    "Kdf": "_keys",
    "KeyDocument": "_keys",
    "Ring": "_keys",
    "WrappingKey": "_keys",
    "fingerprint": "_keys",
    "inherited": "_keys",
    "is_strong": "_keys",
    "new_kdf": "_keys",
    "read_key_document": "_keys",
    "read_key_text": "_keys",
    "stretch": "_keys",
    "NOTHING_STREAMED": "_redact",
    "Finding": "_redact",
    "Redactor": "_redact",
    "Scanner": "_redact_scan",
    "Streamed": "_redact",
    "ends_stream": "_redact",
    "feed": "_redact",
    "finish": "_redact",
    "has_mark": "_redact_scan",
    "is_sealed_file": "_passphrase",
    "open_with_passphrase": "_passphrase",
    "read_user_rules": "_redact_rules",
    "seal_with_passphrase": "_passphrase",
    "secret_values": "_redact",
}

__all__ = [
    "KEY_DOCUMENT",
    "NOTHING_STREAMED",
    "PASSPHRASE_VARIABLE",
    "SIGNATURE_SUFFIX",
    "DataKey",
    "Finding",
    "Kdf",
    "KeyDocument",
    "Opener",
    "Redactor",
    "Ring",
    "Scanner",
    "Sealer",
    "Signing",
    "Streamed",
    "WrappingKey",
    "document_key",
    "ends_stream",
    "escape_json",
    "feed",
    "find_passphrase",
    "find_secret",
    "fingerprint",
    "finish",
    "has_mark",
    "inherited",
    "is_sealed_document",
    "is_sealed_file",
    "is_strong",
    "neutralise",
    "neutralise_line",
    "new_data_key",
    "new_kdf",
    "open_document",
    "open_with_passphrase",
    "public_key_text",
    "read_key_document",
    "read_key_text",
    "read_user_rules",
    "seal_document",
    "seal_with_passphrase",
    "secret_values",
    "split_source",
    "store_in_keyring",
    "stretch",
    "verify_signature",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
