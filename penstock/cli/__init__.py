"""The program `penstock`: one module per noun. `main.py` registers the commands. Needs the extra `cli`."""
