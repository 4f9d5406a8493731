"""The commands of the program `penstock`, one module for each noun."""
