"""What the programs of this project have in common at a terminal: flags, manual pages, tables."""
