"""One archive of a study: an RO-Crate that a browser shows, and that another store takes up."""
