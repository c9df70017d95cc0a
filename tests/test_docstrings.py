"""Parameters of calibrators that are documented once."""

from calibrant import TemperatureScaling
from calibrant._calibrators.parameters import inherit_docstring


def test_what_a_base_documents_is_inherited_after_its_own():
    doc = TemperatureScaling.__doc__
    places = [doc.index(f"\n{name} : ") for name in ("tol", "zero_probability", "scores", "n_jobs")]
    assert places == sorted(places)
    assert doc.count("\nclasses_ : ") == 1


def test_what_a_class_describes_itself_is_not_inherited():
    class Cold(TemperatureScaling):
        """A colder one.

        Parameters
        ----------
        tol : float
            Another meaning.
        """

    inherit_docstring(Cold, ">>> Cold()\n")
    assert Cold.__doc__.count("\ntol : ") == 1
    assert "Another meaning" in Cold.__doc__
    assert ">>> Cold()" in Cold.__doc__
