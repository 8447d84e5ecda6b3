"""What tells operators of caps and of providers that are away, put together."""

from __future__ import annotations

from gateway.bootstrap.stores import Stores
from gateway.chain.alerting import DUTY, Alerting
from gateway.chain.circuit import Circuits
from gateway.chain.current import Current
from gateway.chain.duty import Duty
from gateway.notices.courier import Courier
from gateway.notices.mail import Postman
from gateway.providers.transport import tls
from gateway.storage.alerts import Alerts
from gateway.storage.duties import Duties
from gateway.storage.reports import Reports
from gateway.storage.sealing import Seal
from gateway.wire.alerts import encode_alert, write_letter


def make_alerting(
    stores: Stores, courier: Courier, *, current: Current, circuits: Circuits, holder: str
) -> Alerting:
    """Put it together; `holder` names this process among all."""
    return Alerting(
        current=current,
        duty=Duty(Duties(stores.database), DUTY, holder),
        circuits=circuits,
        alerts=Alerts(stores.database),
        reports=Reports(stores.database),
        courier=courier,
        postman=Postman(tls),
        encode=encode_alert,
        write=write_letter,
        seal=Seal(stores.secret),
        zone=stores.settings.timezone,
        now=stores.now,
    )
