"""What tells projects of deferred work that has ended, put together."""

from __future__ import annotations

from gateway.bootstrap.stores import Stores
from gateway.chain.batch_closing import Closing
from gateway.chain.current import Current
from gateway.chain.duty import Duty
from gateway.chain.notifying import DUTY, Notifying
from gateway.notices.courier import Courier
from gateway.providers.transport import tls
from gateway.storage.batches import Batches
from gateway.storage.duties import Duties
from gateway.storage.notices import Notices
from gateway.storage.sealing import Seal
from gateway.wire.notices import encode_notice


def make_courier(stores: Stores) -> Courier:
    """Give what sends notices; close it at the end."""
    return Courier(tls, private=stores.settings.webhook_private)


def make_notifying(
    stores: Stores, courier: Courier, *, current: Current, closing: Closing, batches: Batches, holder: str
) -> Notifying:
    """Put it together; `holder` names this process among all."""
    return Notifying(
        current=current,
        duty=Duty(Duties(stores.database), DUTY, holder),
        closing=closing,
        batches=batches,
        notices=Notices(stores.database),
        courier=courier,
        encode=encode_notice,
        seal=Seal(stores.secret),
        zone=stores.settings.timezone,
        now=stores.now,
    )
