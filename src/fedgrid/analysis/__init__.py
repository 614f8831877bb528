"""From finished cells to tables, figures and a report: pure functions of files, without torch."""
