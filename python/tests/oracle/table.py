"""What a row of the tables says. To add a function, add a row to one of the cases_*.py files; what
a specification of an argument can be is in arguments.py."""

from dataclasses import dataclass, field


@dataclass
class Row:
    """`weight`: share of the cases. `modes`: besides `call`. `tol`: factor on the tolerance of the
    dtype. `sums`: errors are held against the largest result, for sums that cancel. `shape_only`:
    values are left open by the definition (memory that is not initialised, signs of vectors);
    `any_order`: so is the order along the last axis."""

    op: str
    args: tuple
    kwargs: dict = field(default_factory=dict)
    weight: float = 1.0
    modes: tuple = ()
    tol: float = 1.0
    sums: bool = False
    shape_only: bool = False
    any_order: bool = False


ROWS: list[Row] = []


def row(
    op,
    *args,
    weight=1.0,
    modes=(),
    tol=1.0,
    sums=False,
    shape_only=False,
    any_order=False,
    **kwargs,
):
    ROWS.append(Row(op, args, kwargs, weight, tuple(modes), tol, sums, shape_only, any_order))


def rows(ops, *args, **options):
    for op in ops.split():
        row(op, *args, **options)


GRAD = ("grad", "jvp")
BOTH = ("grad", "jvp", "vmap")
