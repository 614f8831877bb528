"""The free suite, continued: however a method is computed, its numbers are the same to rounding."""

from fedgrid.suite.method_executors import *  # noqa: F403
