"""Draws small pictures of three shapes, a folder each: something to try the examples on.

python examples/make_pictures.py FOLDER [NUMBER OF EACH]
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

SIZE = 48


def draw(shape: str, random: np.random.Generator) -> Image.Image:
    """One shape of any colour, place and size on a noisy ground."""
    noise = random.integers(0, 96, (SIZE, SIZE, 3), dtype=np.uint8)
    picture = Image.fromarray(noise)
    colour = tuple(int(part) for part in random.integers(96, 256, 3))
    x, y = random.integers(14, SIZE - 14, 2).tolist()
    r = int(random.integers(7, 13))
    corners = (x - r, y - r, x + r, y + r)
    pen = ImageDraw.Draw(picture)
    if shape == "circle":
        pen.ellipse(corners, fill=colour)
    elif shape == "square":
        pen.rectangle(corners, fill=colour)
    else:
        pen.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=colour)
    return picture


def main(folder: str, number: str = "200") -> None:
    random = np.random.default_rng(1)
    for shape in ("circle", "square", "triangle"):
        place = Path(folder, shape)
        place.mkdir(parents=True, exist_ok=True)
        for n in range(int(number)):
            draw(shape, random).save(place / f"{n:04d}.png")
    print(f"{3 * int(number)} pictures in {folder}")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
