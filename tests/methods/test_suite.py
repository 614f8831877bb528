"""The free suite, as `fedgrid check` runs it: every method that is found passes it, or is no method."""

from fedgrid.suite.method import *  # noqa: F403
from fedgrid.suite.method_costs import *  # noqa: F403
from fedgrid.suite.method_key import *  # noqa: F403
from fedgrid.suite.method_source import *  # noqa: F403
