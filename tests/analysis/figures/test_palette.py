"""How far colours are from each other, as people with and without all cones see them."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fedgrid.analysis.figures.common.emphasis import Emphasis
from fedgrid.analysis.figures.common.palette import COLOURS, MUTED, colours_of_classes, line_style, line_styles
from fedgrid.analysis.figures.tsne import look

TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
SEEN_BY = {
    "all": np.eye(3),
    "protanopes": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopes": [[0.3673, 0.8607, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
}
"""Linear RGB as it is → as it is seen (Machado, Oliveira and Fernandes, 2009, severity 1)."""


def lab(colour, reader="all"):
    """CIELAB coordinates, with D65 as white."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(SEEN_BY[reader] @ linear, 0, 1) / (0.9505, 1, 1.089)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return 116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])


def distance(one, other):
    """CIEDE2000, the difference of two colours in CIELAB."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(chroma**7 / (chroma**7 + 25**7))
    c1, c2 = np.hypot(a1 * stretch, b1), np.hypot(a2 * stretch, b2)
    h1, h2 = np.arctan2(b1, a1 * stretch), np.arctan2(b2, a2 * stretch)
    turn = (h2 - h1 + np.pi) % (2 * np.pi) - np.pi if c1 * c2 else 0.0
    hue, mean, light = h1 + turn / 2 if c1 * c2 else h1 + h2, (c1 + c2) / 2, ((l1 + l2) / 2 - 50) ** 2
    t = 1 - 0.17 * np.cos(hue - np.pi / 6) + 0.24 * np.cos(2 * hue)
    t += 0.32 * np.cos(3 * hue + np.pi / 30) - 0.2 * np.cos(4 * hue - np.radians(63))
    twist = np.radians(60) * np.exp(-((((np.degrees(hue) % 360) - 275) / 25) ** 2))
    dl = (l2 - l1) / (1 + 0.015 * light / np.sqrt(20 + light))
    dc = (c2 - c1) / (1 + 0.045 * mean)
    dh = 2 * np.sqrt(c1 * c2) * np.sin(turn / 2) / (1 + 0.015 * mean * t)
    return np.sqrt(dl**2 + dc**2 + dh**2 - 2 * np.sqrt(mean**7 / (mean**7 + 25**7)) * np.sin(twist) * dc * dh)


def smallest(colours, reader="all"):
    return min(distance(lab(one, reader), lab(other, reader)) for one, other in combinations(colours, 2))


def test_the_distance_is_that_of_its_authors():
    """Pairs 1, 7 and 25 of the data of Sharma, Wu and Dalal (2005)."""
    for one, other, expected in (
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 0, 0), (50, -1, 2), 2.3669),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
    ):
        assert distance(one, other) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("reader", "least"), [("all", 20), ("protanopes", 12), ("deuteranopes", 12)])
def test_the_first_eight_lines_differ_in_colour(reader, least):
    assert smallest([line_style(i)["color"] for i in range(8)], reader) >= least


def test_any_two_lines_differ_in_colour_or_in_dashes_and_marks():
    for one, other in combinations(map(line_style, range(32)), 2):
        if distance(lab(one["color"]), lab(other["color"])) < 20:
            assert one["linestyle"] != other["linestyle"] and one.get("marker") != other.get("marker")


def test_a_line_in_colour_is_not_taken_for_a_grey_one():
    assert min(distance(lab(MUTED), lab(colour)) for colour in COLOURS) >= 20


def test_ten_classes_have_ten_colours():
    for colours in (colours_of_classes(10), [look(group)["color"] for group in range(10)]):
        assert smallest(colours) >= 20
    looks = {tuple(look(group).items()) for group in range(30)}
    assert len(looks) == 30 and len(np.unique(colours_of_classes(20), axis=0)) == 20


def test_few_lines_in_colour_never_share_one():
    names = [f"m{i}" for i in range(12)]
    in_colour = line_styles(names)
    same = next(name for name in names[8:] if in_colour[name]["color"] == in_colour["m1"]["color"])
    styles = Emphasis([same], "m1", muted=True).styles(names)
    coloured = {label: style["color"] for label, style in styles.items() if style["color"] != MUTED}
    assert coloured.keys() == {same, "m1"} and smallest(coloured.values()) >= 20
    assert styles[same]["color"] == in_colour[same]["color"]


def test_a_row_keeps_its_colour_whatever_rows_come_behind_it():
    names = [f"m{i}" for i in range(20)]
    styles = line_styles(names)
    assert all(styles[name] == line_styles(names[:number])[name] for number in range(1, 20) for name in names[:number])
    assert len({style["color"] for style in list(styles.values())[:8]}) == 8
    assert len({(style["color"], style["linestyle"]) for style in styles.values()}) == 20
    looks = {name: line_styles([name])[name] for name in ("fedavg", "fedcosr", "fedprox, mu = 0.1")}
    assert (
        len({look["color"] for look in looks.values()}) == 3
        and looks["fedavg"] == line_styles(["fedavg", "x"])["fedavg"]
    )
