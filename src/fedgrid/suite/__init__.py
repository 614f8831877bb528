"""The built-in test suite: what every method, model, partition and data set has to pass. `fedgrid check` runs it."""
