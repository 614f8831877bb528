"""Results of earlier runs that fit a planned cell: under other code, and with other numbers of rounds."""
