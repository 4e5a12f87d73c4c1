"""An e-mail as analyzers get it: ``from spot_sdk.email import Email``, then ``Email.from_bytes`` or JSON."""

from __future__ import annotations

from spot_sdk.email.model import Attachment, Email, EmailHeaders, Mailbox

__all__ = ["Attachment", "Email", "EmailHeaders", "Mailbox"]
