"""Charts of dots over time on a logarithmic axis, as SVG text. Series differ in lightness and shape."""

import math

WIDTH, LEFT, RIGHT, TOP, PANEL, GAP = 760, 66, 20, 64, 190, 62
INK, FAINT = "#222222", "#dddddd"
STYLES = [("#0b3c5d", "full"), ("#c8501e", "hollow")]


def text(x, y, anchor, words):
    return '<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>' % (x, y, anchor, words)


def line(x1, y1, x2, y2, color):
    return '<path d="M%.1f %.1fL%.1f %.1f" stroke="%s"/>' % (x1, y1, x2, y2, color)


def dot(x, y, style):
    color, shape = STYLES[style]
    if shape == "full":
        return '<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>' % (x, y, color)
    return '<circle cx="%.1f" cy="%.1f" r="2.6" fill="none" stroke="%s"/>' % (x, y, color)


def dots(title, names, panels, labels, powers):
    """Panels one below the other, each (title, series); a series is pairs of places on the axes that `labels`
    names. Axes are the same in all; the vertical one goes from and to these powers of ten."""
    x_label, y_label = labels
    height = TOP + len(panels) * (PANEL + GAP)
    latest = max(x for _, series in panels for points in series for x, _ in points)
    distance = next(step for step in (0.5, 1, 2, 5, 10, 20, 60) if latest / step <= 12)
    end = math.ceil(latest / distance) * distance
    across = lambda x: LEFT + 8 + x / end * (WIDTH - LEFT - RIGHT - 16)
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
        'font-family="sans-serif" font-size="13" fill="%s">' % (WIDTH, height, WIDTH, height, INK),
        "<title>%s</title>" % title,
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for style, name in enumerate(names):
        parts += [dot(LEFT + 10 + 310 * style, 17, style), text(LEFT + 22 + 310 * style, 21.5, "start", name)]
    for number, (label, series) in enumerate(panels):
        top = TOP + number * (PANEL + GAP)
        low, high = powers
        up = lambda y: top + PANEL - (min(max(math.log10(y), low), high) - low) / (high - low) * PANEL
        parts.append(text(LEFT, top - 10, "start", label))
        for power in range(low, high + 1):
            parts.append(line(LEFT, up(10**power), WIDTH - RIGHT, up(10**power), FAINT))
            parts.append(text(LEFT - 7, up(10**power) + 4.5, "end", "%g" % 10**power))
        for mark in range(round(end / distance) + 1):
            x = across(mark * distance)
            parts.append(line(x, top + PANEL, x, top + PANEL + 4, INK))
            parts.append(text(x, top + PANEL + 18, "middle", "%g" % (mark * distance)))
        parts.append(line(LEFT, top + PANEL, WIDTH - RIGHT, top + PANEL, INK))
        parts.append(
            '<text transform="translate(16 %.1f) rotate(-90)" text-anchor="middle">%s</text>'
            % (top + PANEL / 2, y_label)
        )
        # What matters most is drawn last.
        for style in reversed(range(len(series))):
            parts += [dot(across(x), up(y), style) for x, y in series[style]]
    parts += [text((LEFT + WIDTH - RIGHT) / 2, height - 12, "middle", x_label), "</svg>"]
    return "\n".join(parts) + "\n"
