"""`python -m bench` measures; `python -m bench --help` lists the flags."""

from bench.bench import main

main()
