"""The options of Hudi and Penstock.

Every option is a constant of this package (`from penstock.options import SMALL_FILE_LIMIT`), declared in the module of its area.
`read_options` checks a user's options and returns `Options`; `options[SMALL_FILE_LIMIT]` is then an int, also for mypy. A new
option needs its declaration and nothing else: this package re-exports all names of the area modules.
"""

from penstock.options.callback import *  # noqa: F403
from penstock.options.catalogue import AREAS as AREAS
from penstock.options.catalogue import CATALOGUE as CATALOGUE
from penstock.options.catalogue import Area as Area
from penstock.options.catalogue import forget_shown_warnings as forget_shown_warnings
from penstock.options.catalogue import lookup as lookup
from penstock.options.catalogue import read_options as read_options
from penstock.options.checks import check_combinations as check_combinations
from penstock.options.clean import *  # noqa: F403
from penstock.options.clustering import *  # noqa: F403
from penstock.options.compaction import *  # noqa: F403
from penstock.options.concurrency import *  # noqa: F403
from penstock.options.engine import *  # noqa: F403
from penstock.options.index import *  # noqa: F403
from penstock.options.keys import *  # noqa: F403
from penstock.options.layout import *  # noqa: F403
from penstock.options.lineage import *  # noqa: F403
from penstock.options.memory import *  # noqa: F403
from penstock.options.metadata_table import *  # noqa: F403
from penstock.options.metrics import *  # noqa: F403
from penstock.options.operation import Operation as Operation
from penstock.options.option import Family as Family
from penstock.options.option import IgnoredOptionWarning as IgnoredOptionWarning
from penstock.options.option import Option as Option
from penstock.options.option import Options as Options
from penstock.options.option import UnknownOptionWarning as UnknownOptionWarning
from penstock.options.page import render_markdown as render_markdown
from penstock.options.page import render_missing as render_missing
from penstock.options.page import status as status
from penstock.options.penstock import *  # noqa: F403
from penstock.options.read import *  # noqa: F403
from penstock.options.sql import *  # noqa: F403
from penstock.options.storage import *  # noqa: F403
from penstock.options.streaming import *  # noqa: F403
from penstock.options.sync import *  # noqa: F403
from penstock.options.table import *  # noqa: F403
from penstock.options.timeline import *  # noqa: F403
from penstock.options.ttl import *  # noqa: F403
from penstock.options.write import *  # noqa: F403
