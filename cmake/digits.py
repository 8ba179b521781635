"""Writes the pinned digits as IDX files, the format of MNIST: train-* (4,000) and t10k-* (1,000).

usage: digits.py mnist_5k.csv.gz FOLDER
The source has 500 rows of each digit, sorted by digit: every fifth row goes to the test set, so both sets are
balanced, and the same on every machine.
"""
import gzip
import pathlib
import struct
import sys

source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
sets = {"train": ([], []), "t10k": ([], [])}
with gzip.open(source, "rt") as rows:
    for number, row in enumerate(rows):
        *pixels, label = (int(float(value)) for value in row.split(","))
        if len(pixels) != 28 * 28:
            sys.exit(f"{source}: row {number + 1} has {len(pixels)} pixels instead of 784")
        images, labels = sets["t10k" if number % 5 == 4 else "train"]
        images.append(bytes(pixels))
        labels.append(label)
for name, (images, labels) in sets.items():
    (folder / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, len(images), 28, 28) + b"".join(images))
    (folder / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(labels)) + bytes(labels))
