"""Table services: compaction, log compaction, clustering, cleaning, archiving, rollback, savepoints, restore; checks of a table.

`table_service.py` is the interface of the services that run after a write or when due. `planned.py` schedules and runs plans.
"""
