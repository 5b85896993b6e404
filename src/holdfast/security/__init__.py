"""Protection: harmful text, encryption, and the secrets in recorded data."""

from __future__ import annotations

from holdfast._lazy import lazy
from holdfast.security._text import escape_json, neutralise, neutralise_line

TYPE_CHECKING = False  # loading `typing` takes longer than the whole of a short command
if TYPE_CHECKING:
    from holdfast.security._keys import (
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
    from holdfast.security._seal import (
        DataKey,
        Opener,
        Sealer,
        document_key,
        is_sealed_document,
        is_sealed_file,
        new_data_key,
        open_document,
        open_with_passphrase,
        seal_document,
        seal_with_passphrase,
    )
    from holdfast.security._signatures import SIGNATURE_SUFFIX, Signing, public_key_text, verify_signature
    from holdfast.security.redaction.redactor import (
        NOTHING_STREAMED,
        Finding,
        Redactor,
        Streamed,
        ends_stream,
        feed,
        finish,
        secret_values,
    )
    from holdfast.security.redaction.rules import read_user_rules
    from holdfast.security.redaction.scanner import Scanner, SecretSpan, has_mark

KEY_DOCUMENT = "seal.json"
"""The name of the document with the data keys, beside the log."""

# Loaded when first asked for: most programs seal nothing.
__getattr__ = lazy(
    __name__,
    {
        "_keys": (
            "Kdf KeyDocument PASSPHRASE_VARIABLE Ring WrappingKey "
            "find_passphrase find_secret fingerprint inherited is_strong new_kdf "
            "read_key_document read_key_text split_source store_in_keyring stretch"
        ),
        "redaction.redactor": ("Finding NOTHING_STREAMED Redactor Streamed ends_stream feed finish secret_values"),
        "redaction.rules": "read_user_rules",
        "redaction.scanner": "Scanner SecretSpan has_mark",
        "_seal": (
            "DataKey Opener Sealer document_key is_sealed_document is_sealed_file new_data_key "
            "open_document open_with_passphrase seal_document seal_with_passphrase"
        ),
        "_signatures": "SIGNATURE_SUFFIX Signing public_key_text verify_signature",
    },
)

__all__ = ["SIGNATURE_SUFFIX", "Signing", "public_key_text", "verify_signature"]
__all__ += ["escape_json", "neutralise", "neutralise_line"]
__all__ += ["KEY_DOCUMENT", "PASSPHRASE_VARIABLE", "Kdf", "KeyDocument", "Ring", "WrappingKey", "inherited"]
__all__ += ["fingerprint", "is_strong", "new_kdf", "read_key_document", "read_key_text", "stretch"]
__all__ += ["find_passphrase", "find_secret", "split_source", "store_in_keyring"]
__all__ += ["DataKey", "Opener", "Sealer", "document_key", "is_sealed_document", "is_sealed_file", "new_data_key"]
__all__ += ["open_document", "open_with_passphrase", "seal_document", "seal_with_passphrase"]
__all__ += ["NOTHING_STREAMED", "Finding", "Redactor", "Scanner", "SecretSpan", "Streamed"]
__all__ += ["ends_stream", "feed", "finish", "has_mark", "read_user_rules", "secret_values"]
