"""The contract's limits, in its units: one place for the checks and for what `/capacita.php` tells."""

MAX_CONTENT_CHARACTERS = 100_000
MAX_ATTACHMENTS = 5
MAX_DOCUMENT_MB = 10
MAX_IMAGE_MB = 5
MAX_ATTACHMENTS_MB = 20
"""Of all that one call sends along."""
BYTES_PER_MB = 1024 * 1024
MAX_ATTACHMENT_NAME_CHARACTERS = 1_000
MAX_ADDRESS_CHARACTERS = 2_048
MAX_DOCUMENT_PAGES = 600
MAX_DOCUMENT_PAGES_ECONOMY = 100
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
MAX_DEFERRED_CONTENTS = 100
MAX_OPEN_BATCHES = 20
MAX_IDEMPOTENCY_KEY_CHARACTERS = 255
