"""A figure of a paper with what was measured here, as SVG with nothing but text: points joined by lines, and the paper's numbers as
hollow diamonds, with a bar where the paper gives a range. What a paper says without a number is a note, and no mark."""

import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 470, 84, 290, 48, 52
COLOURS = ["#1b7837", "#2b5c8a", "#d95f02", "#7b3294", "#0b2239", "#a6761d", "#e7298a", "#66a61e", "#8c8c8c", "#1f9e9e"]
PAPER = "#b2182b"


def text(x, y, words, size=13, anchor="start", extra=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" {extra}>{words}</text>'


def short(value):
    """A number of an axis: 1M and not 1000000."""
    for size, ending in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{ending}"
    return f"{value:g}"


class Axis:
    """Numbers along a line of pixels: decades, or even steps from 0."""

    def __init__(self, values, first, last, decades):
        self.first, self.last, self.decades = first, last, decades
        positive = [value for value in values if value > 0] or [1]
        if decades:
            self.low = 10 ** math.floor(math.log10(min(positive)))
            self.high = 10 ** max(math.ceil(math.log10(max(positive) * 1.0001)), math.floor(math.log10(min(positive))) + 1)
            self.marks = [self.low * 10**n for n in range(round(math.log10(self.high / self.low)) + 1)]
        else:
            step = 10 ** math.floor(math.log10(max(positive)))
            step = next(step * part for part in (0.1, 0.2, 0.5, 1, 2) if max(positive) <= 8 * step * part)
            self.low, self.high = 0, step * math.ceil(max(positive) / step)
            self.marks = [step * n for n in range(round(self.high / step) + 1)]

    def at(self, value):
        if self.decades:
            part = math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.first + (self.last - self.first) * part


def diamond(x, y):
    corners = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
    return f'<polygon points="{corners}" fill="white" stroke="{PAPER}" stroke-width="2"/>'


def figure(title, axes, measured, paper=(), notes=(), decades=(True, True)):
    """An SVG text. `axes` are the words of both; `measured` maps names to points (x, y); `paper` has (name, (from x, to x), y)."""
    places = [point for points in measured.values() for point in points]
    places += [(x, y) for _, ends, y in paper for x in ends]
    x_axis = Axis([x for x, _ in places], LEFT, WIDTH - RIGHT, decades[0])
    y_axis = Axis([y for _, y in places], HEIGHT - BOTTOM, TOP, decades[1])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 26, title, size=15)]
    for mark in y_axis.marks:
        y = y_axis.at(mark)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(text(LEFT - 8, y + 4, short(mark), anchor="end"))
    for mark in x_axis.marks:
        x = x_axis.at(mark)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 5}" stroke="#555555"/>')
        parts.append(text(x, HEIGHT - BOTTOM + 18, short(mark), anchor="middle"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, axes[0], anchor="middle"))
    parts.append(text(20, HEIGHT / 2, axes[1], anchor="middle", extra=f'transform="rotate(-90 20 {HEIGHT / 2})"'))
    legend, row = WIDTH - RIGHT + 18, TOP + 14
    for number, (name, points) in enumerate(measured.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in sorted(points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        # a point each where they can be told apart
        for x, y in points if len(points) <= 40 else []:
            parts.append(f'<circle cx="{x_axis.at(x):.1f}" cy="{y_axis.at(y):.1f}" r="3.2" fill="{colour}"/>')
        parts.append(f'<circle cx="{legend}" cy="{row - 4}" r="4" fill="{colour}"/>')
        parts.append(text(legend + 14, row, name, size=12))
        row += 20
    for name, (first, last), y in paper:
        middle = (x_axis.at(first) + x_axis.at(last)) / 2
        parts.append(f'<line x1="{x_axis.at(first):.1f}" x2="{x_axis.at(last):.1f}" y1="{y_axis.at(y):.1f}" y2="{y_axis.at(y):.1f}" '
                     f'stroke="{PAPER}" stroke-width="3"/>')
        parts.append(diamond(middle, y_axis.at(y)))
        parts.append(diamond(legend, row - 4))
        parts.append(text(legend + 14, row, name, size=12))
        row += 20
    for note in notes:
        parts.append(text(legend - 6, row + 6, note, size=11, extra='fill="#555555"'))
        row += 16
    return "\n".join([*parts, "</svg>", ""])
