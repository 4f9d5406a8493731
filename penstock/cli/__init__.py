"""The command line: `penstock services run PATH` and the like. A door, beside `api/`; one file per noun.

`main.py` puts the commands together. Needs the extra `cli`.
"""
