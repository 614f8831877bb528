"""Methods, one file each, found by file name; the mathematics they share lies in the folder `common`."""
