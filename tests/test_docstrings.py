"""Parameters that are documented once."""

from calibrant._docstrings import inherit_parameters


def source(a, b, c=1, d=2):
    """Do much.

    Parameters
    ----------
    a, b : float
        Two numbers.
    c : int, default=1
        A third.
    d : int
        As in another.

    Returns
    -------
    x : float

    Examples
    --------
    >>> source(1, 2)
    """


@inherit_parameters(source)
def own(b, c=7, d=0, *, e=None):
    """Do little.

    Returns
    -------
    y : float
    """


def test_what_is_not_described_is_inherited_with_its_own_default():
    parameters = (
        "Parameters\n----------\nb : float\n    Two numbers.\nc : int, default=7\n    A third."
    )
    assert own.__doc__.startswith(f"Do little.\n\n{parameters}\n\nReturns\n")
    assert "d :" not in own.__doc__  # which says nothing itself
