"""Writes sampler_vectors.tsv: what Python's DistributedSampler yields for 200 random settings.

usage: sampler_vectors.py > sampler_vectors.tsv     (needs torch; the result is committed, so tests need no Python)
Columns: samples, ranks, rank, seed, epoch, shuffle, drop_last, how many indices, the first five (comma-separated,
"-" for none), and FNV-1a (64 bits) over all indices as little-endian 64-bit numbers.
"""
import random
import struct

from torch.utils.data.distributed import DistributedSampler


def fnv1a(indices):
    value = 0xCBF29CE484222325
    for byte in b"".join(struct.pack("<q", index) for index in indices):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


draw = random.Random(20)
for _ in range(200):
    samples = draw.choice([1, 2, 3, 7, 10, 64, 100, 1797, 4000, draw.randrange(1, 6000)])
    ranks = draw.choice([1, 2, 3, 4, 7, 8, 64])
    rank = draw.randrange(ranks)
    seed = draw.choice([0, 1, 42, 2**31, draw.randrange(2**40)])
    epoch = draw.randrange(50)
    shuffle = draw.random() < 0.8
    drop_last = draw.random() < 0.4
    sampler = DistributedSampler(range(samples), ranks, rank, shuffle, seed, drop_last)
    sampler.set_epoch(epoch)
    try:
        indices = list(sampler)
    except AssertionError:  # Python's own check fails when every rank gets nothing
        indices = []
    first = ",".join(map(str, indices[:5])) or "-"
    print(samples, ranks, rank, seed, epoch, int(shuffle), int(drop_last), len(indices), first, f"{fnv1a(indices):016x}", sep="\t")
