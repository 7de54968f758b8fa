"""The tables of what is compared, put together."""

import cases_elementwise  # noqa: F401 - its rows
import cases_methods  # noqa: F401
import cases_products  # noqa: F401
import cases_random  # noqa: F401
import cases_reductions  # noqa: F401
import cases_shapes  # noqa: F401
from table import ROWS  # noqa: F401
