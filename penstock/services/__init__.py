"""Table services: compaction, log compaction, clustering, cleaning, archiving, rollback, savepoints, restore; checks of a table.

`table_service.py` is the base class of the services that run after a write or from `Table.run_due`. `planned.py` schedules, runs
and resumes the plans of compaction, log compaction and clustering. `file_check.py` and `health.py` check a table without changing
it.
"""
