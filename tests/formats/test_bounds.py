"""The least and the most value of each field of a format are taken, and what is beyond is not."""

import pytest

from mase_hw.errors import FormatError
from mase_hw.formats import make_format

# Format, field, least and most value, and what else is needed for both.
LIMITS = (
    ("fixed", "width", 2, 62, {}),
    ("fixed", "frac_width", -64, 64, {}),
    ("scaled_integer", "width", 2, 32, {}),
    ("scaled_integer", "channel_axis", -8, 7, {}),
    ("scaled_integer", "zero_point", -8, 7, {"width": 4, "symmetric": False}),
    ("mxint", "width", 2, 16, {}),
    ("mxint", "exponent_width", 2, 8, {}),
    ("mxint", "axis", -8, 7, {}),
    ("block_fp", "width", 2, 16, {}),
    ("block_fp", "exponent_width", 1, 8, {}),
    ("block_log", "width", 2, 8, {}),
    ("block_log", "exponent_bias_width", 2, 8, {}),
    ("block_minifloat", "width", 3, 16, {"exponent_width": 1}),
    ("block_minifloat", "exponent_bias_width", 2, 8, {}),
    ("log", "width", 2, 8, {}),
    ("minifloat_denorm", "width", 3, 24, {"exponent_width": 1}),
    ("minifloat_ieee", "width", 4, 24, {"exponent_width": 2}),
    ("binary_residual", "levels", 1, 8, {}),
)


@pytest.mark.parametrize(("name", "field", "least", "most", "others"), LIMITS)
def test_a_field_has_its_bounds(name, field, least, most, others):
    for value in (least, most):
        found = make_format({"name": name, **others, field: value})
        assert getattr(found, field) == value
    for value in (least - 1, most + 1):
        with pytest.raises(FormatError, match=rf"{field} is {value}; allowed: .*{least} to {most}"):
            make_format({"name": name, **others, field: value})


@pytest.mark.parametrize(
    ("name", "width", "least", "most"),
    [("block_minifloat", 8, 1, 6), ("minifloat_denorm", 8, 1, 6), ("minifloat_ieee", 8, 2, 6)],
)
def test_an_exponent_fits_beside_sign_and_mantissa(name, width, least, most):
    for value in (least, most):
        assert make_format({"name": name, "width": width, "exponent_width": value})
    for value in (least - 1, most + 1):
        with pytest.raises(FormatError, match=rf"exponent_width is {value}; allowed"):
            make_format({"name": name, "width": width, "exponent_width": value})
