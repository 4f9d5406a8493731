"""The known payloads: maps from the name of a payload to the function that makes its merger, as `module:function`.

To add a payload, write a subclass of `Merger` in a module of its own in `penstock/merge`, and add one line to a map of this
module. The option catalogue accepts the names. `penstock/merge/make_merger.py` imports the module when a merger is made.
Options and `hoodie.properties` hold names of payloads only, never a module.
"""

from __future__ import annotations

from typing import Final

_PACKAGE = "org.apache.hudi.common.model"

#: Hudi's payload classes.
HUDI_PAYLOADS: Final = {
    f"{_PACKAGE}.OverwriteWithLatestAvroPayload": "penstock.merge.overwrite:OverwriteWithLatest.from_settings",
    f"{_PACKAGE}.DefaultHoodieRecordPayload": "penstock.merge.overwrite:EventTimeOrdering.from_settings",
    f"{_PACKAGE}.EventTimeAvroPayload": "penstock.merge.overwrite:EventTimeAvro.from_settings",
    f"{_PACKAGE}.FirstValueAvroPayload": "penstock.merge.overwrite:FirstValue.from_settings",
    f"{_PACKAGE}.HoodieAvroPayload": "penstock.merge.overwrite:CommitTimeOrdering.from_settings",
    f"{_PACKAGE}.OverwriteNonDefaultsWithLatestAvroPayload": "penstock.merge.partial:OverwriteNonDefaults.from_settings",
    f"{_PACKAGE}.PartialUpdateAvroPayload": "penstock.merge.partial:PartialUpdate.from_settings",
    f"{_PACKAGE}.EmptyHoodieRecordPayload": "penstock.merge.overwrite:AlwaysDelete.from_settings",
    f"{_PACKAGE}.AWSDmsAvroPayload": "penstock.merge.change_streams:AwsDms.from_settings",
    f"{_PACKAGE}.debezium.MySqlDebeziumAvroPayload": "penstock.merge.change_streams:DebeziumMySql.from_settings",
    f"{_PACKAGE}.debezium.PostgresDebeziumAvroPayload": "penstock.merge.change_streams:DebeziumPostgres.from_settings",
}

#: Penstock's own payloads. Only Penstock can read the log files that they write.
PENSTOCK_PAYLOADS: Final = {
    "penstock.aggregate": "penstock.merge.aggregate:Aggregate.from_settings",
    "penstock.first_row": "penstock.merge.first_row:FirstRow.from_settings",
    "penstock.keep_history": "penstock.merge.history:KeepHistory.from_settings",
    "penstock.masked": "penstock.merge.column_mask:MaskedUpdate.from_settings",
    "penstock.ogg": "penstock.merge.goldengate:make_goldengate_merger",
}
