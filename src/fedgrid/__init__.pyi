from fedgrid.api.models import load_model as load_model
from fedgrid.api.partitions import import_partition as import_partition
from fedgrid.api.partitions import make_partition as make_partition
from fedgrid.api.partitions import read_partition as read_partition
from fedgrid.api.results import results as results
from fedgrid.api.studies import study as study
from fedgrid.api.training import train as train

__version__: str
EXPORTED: dict[str, str]
