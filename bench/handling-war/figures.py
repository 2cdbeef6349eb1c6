"""The paper's figures as SVG, with nothing but text: lines with standard errors over hours, seconds on a log scale."""

import math

COLOURS = {
    "weir": "#1b7837", "nfdump": "#d95f02", "MariaDB": "#2b5c8a", "MariaDB w/ index": "#7aa6cf",
    "MariaDB w/o indexes": "#0b2239", "DuckDB": "#7b3294", "DuckDB on Parquet": "#c2a5cf",
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 460, 70, 250, 48, 52


def colour(name):
    return next((COLOURS[known] for known in sorted(COLOURS, key=len, reverse=True) if name.startswith(known)), "#555555")


def text(x, y, words, size=13, anchor="start", extra=""):
    words = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" {extra}>{words}</text>'


class Plane:
    """Hours across, seconds upward in decades."""

    def __init__(self, hours, seconds):
        self.hours = max(hours)
        self.low = 10 ** math.floor(math.log10(max(min(seconds), 1e-3)))
        self.high = 10 ** math.ceil(math.log10(max(seconds) * 1.0001))

    def x(self, hour):
        return LEFT + (WIDTH - LEFT - RIGHT) * hour / self.hours

    def y(self, seconds):
        part = math.log10(max(seconds, self.low) / self.low) / math.log10(self.high / self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part

    def axes(self):
        parts = []
        value = self.low
        while value <= self.high * 1.0001:
            y = self.y(value)
            parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
            parts.append(text(LEFT - 8, y + 4, f"{value:g}", anchor="end"))
            value *= 10
        for hour in range(0, self.hours + 1, 4 if self.hours <= 24 else 8):
            parts.append(text(self.x(hour), HEIGHT - BOTTOM + 18, str(hour), anchor="middle"))
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(text(middle, HEIGHT - 12, "hours of data", anchor="middle"))
        turned = f'transform="rotate(-90 18 {HEIGHT / 2})"'
        parts.append(text(18, HEIGHT / 2, "seconds, log scale", anchor="middle", extra=turned))
        return parts


def line(plane, name, points, row, dashed=False):
    """One system: points are (hour, mean, standard error)."""
    parts, stroke = [], colour(name)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    # of one system over two sizes of the data the smaller is paler
    dash += ' stroke-opacity="0.45"' if ", 24 h" in name else ""
    path = " ".join(f"{plane.x(hour):.1f},{plane.y(mean):.1f}" for hour, mean, _ in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="{stroke}" stroke-width="2"{dash}/>')
    for hour, mean, error in points:
        x = plane.x(hour)
        if error:
            low, high = plane.y(mean - error), plane.y(mean + error)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{stroke}"/>')
        if not dashed:
            parts.append(f'<circle cx="{x:.1f}" cy="{plane.y(mean):.1f}" r="2.6" fill="{stroke}"/>')
    y = TOP + 14 + 20 * row
    parts.append(f'<line x1="{WIDTH - RIGHT + 14}" x2="{WIDTH - RIGHT + 40}" y1="{y - 4}" y2="{y - 4}" stroke="{stroke}" '
                 f'stroke-width="2"{dash}/>')
    parts.append(text(WIDTH - RIGHT + 46, y, name, size=12))
    return parts


def figure(title, lines, dashed=()):
    """An SVG text; `lines` maps names to points (hour, mean, standard error)."""
    lines = {name: sorted(points) for name, points in lines.items() if points}
    if not lines:
        return None
    everything = [point for points in lines.values() for point in points]
    plane = Plane([hour for hour, _, _ in everything], [max(mean, 1e-3) for _, mean, _ in everything])
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
             text(LEFT, 26, title, size=15)]
    parts += plane.axes()
    for row, (name, points) in enumerate(lines.items()):
        parts += line(plane, name, points, row, dashed=name in dashed)
    return "\n".join([*parts, "</svg>", ""])


def regression(points, until):
    """The straight line through points by least squares, hour by hour: on a log scale it bends."""
    n = len(points)
    if n < 2:
        return []
    mean_x = sum(hour for hour, _, _ in points) / n
    mean_y = sum(mean for _, mean, _ in points) / n
    spread = sum((hour - mean_x) ** 2 for hour, _, _ in points)
    slope = sum((hour - mean_x) * (mean - mean_y) for hour, mean, _ in points) / spread
    line_points = [(hour, mean_y + slope * (hour - mean_x), 0) for hour in range(1, until + 1)]
    # what a log scale can show
    return [point for point in line_points if point[1] >= min(mean for _, mean, _ in points) / 10]
