"""Rows -> sorted cumulative points (q, rank) -> slots that share a value -> fronts of each rank.

Only the constraints "a point with the label inside <= a point with it outside, if below it" bind:
given the values of the points outside, a point inside wants the least value of those above it, and
the function that gives it so is isotonic. Two consequences make the problem small. A point with
nothing of label 0 above it has value 1, and one with nothing of label 1 below it has value 0. And
two points of one rank and label act as one if no point of the other label tells them apart.
"""

from __future__ import annotations

import numpy as np

from calibrant.numba_kernels.jit import kernel
from calibrant.numba_kernels.maximal_upper_set import insert, next_member, remove

NEVER = 2.0
"""Threshold that no cumulative probability reaches."""

DIGIT = 8
"""Bits a pass of the radix sort looks at."""


@kernel
def accumulate_rows(rows, own, first, last):
    """Turn rows in increasing order into sums of their r largest entries, in place.

    ``first`` and ``last`` get the ranks that the label may have: more than one if it is tied.
    """
    n_rows, n_classes = rows.shape
    for i in range(n_rows):
        row = rows[i]
        for j in range(n_classes // 2):
            row[j], row[n_classes - 1 - j] = row[n_classes - 1 - j], row[j]
        ahead = 0
        tied = 0
        total = 0.0
        for j in range(n_classes):
            value = row[j]
            if value > own[i]:
                ahead += 1
            elif value == own[i]:
                tied += 1
            total += value
            row[j] = min(total, 1.0)
        first[i] = ahead + 1
        last[i] = ahead + tied


@kernel
def find_trims(cumulative, first, last, n_ranks):
    """Per rank, the largest q with label 0 at or above it, and the least with 1 at or below.

    Along a row both coordinates grow and the label only rises, so one point of each kind per row
    is enough.
    """
    n_rows, n_classes = cumulative.shape
    largest_zero = np.full(n_ranks + 2, -1.0)
    least_one = np.full(n_ranks + 2, NEVER)
    for i in range(n_rows):
        if last[i] > 1:
            r = min(last[i] - 1, n_ranks)
            largest_zero[r] = max(largest_zero[r], cumulative[i, last[i] - 2])
        if first[i] < n_classes:
            r = min(first[i], n_ranks)
            least_one[r] = min(least_one[r], cumulative[i, first[i] - 1])
    for r in range(n_ranks, 0, -1):
        largest_zero[r] = max(largest_zero[r], largest_zero[r + 1])
    for r in range(1, n_ranks + 1):
        least_one[r] = min(least_one[r], least_one[r - 1])
    return largest_zero, least_one


@kernel
def trim_rows(cumulative, largest_zero, least_one, n_ranks, begin, end):
    """Find the ranks ``begin .. end - 1`` of each row whose value is neither surely 0 nor 1.

    Returns where the value is surely 1, per rank, and the number of points left and of zeros.
    """
    n_rows, n_classes = cumulative.shape
    sure = np.full(n_ranks + 1, NEVER)
    n_points = 0
    n_zeros = 0
    for i in range(n_rows):
        low = 1
        while low < n_classes and cumulative[i, low - 1] < least_one[min(low, n_ranks)]:
            low += 1
        high = n_classes
        while high > low and cumulative[i, high - 2] > largest_zero[min(high - 1, n_ranks)]:
            high -= 1
        if high < n_classes:
            r = min(high, n_ranks)
            sure[r] = min(sure[r], cumulative[i, high - 1])
        begin[i] = low
        end[i] = high
        n_points += high - low
        n_zeros += low - 1
    return sure, n_points, n_zeros


@kernel
def cut_rows(bits, begin, end, bound, cut):
    """Find the ranks ``begin .. cut - 1`` of each row whose q is below ``bound``; count them."""
    n_points = 0
    for i in range(bits.shape[0]):
        r = begin[i]
        while r < end[i] and bits[i, r - 1] < bound:
            r += 1
        cut[i] = r
        n_points += r - begin[i]
    return n_points


@kernel
def list_points(bits, begin, end, row_bits, keys, origin):
    """Write the bits of q of every point, and its rank and row packed into one number."""
    n = 0
    for i in range(bits.shape[0]):
        for r in range(begin[i], end[i]):
            keys[n] = bits[i, r - 1]
            origin[n] = (r << row_bits) | i
            n += 1


@kernel
def sort_points(keys, origin, spare_keys, spare_origin, row_bits, n_classes):
    """Sort by q, then rank: radix sort of the bits of q, which have the order of the doubles."""
    n = keys.shape[0]
    low = keys[0]
    high = keys[0]
    for i in range(n):
        low = min(low, keys[i])
        high = max(high, keys[i])
    mask = (1 << DIGIT) - 1
    begins = np.empty(mask + 1, dtype=np.int64)
    shift = 0
    while (high - low) >> shift:
        begins[:] = 0
        for i in range(n):
            begins[((keys[i] - low) >> shift) & mask] += 1
        total = 0
        for digit in range(mask + 1):
            count = begins[digit]
            begins[digit] = total
            total += count
        for i in range(n):
            digit = ((keys[i] - low) >> shift) & mask
            spare_keys[begins[digit]] = keys[i]
            spare_origin[begins[digit]] = origin[i]
            begins[digit] += 1
        keys, spare_keys = spare_keys, keys
        origin, spare_origin = spare_origin, origin
        shift += DIGIT
    counts = np.empty(n_classes, dtype=np.int64)
    start = 0
    for i in range(1, n + 1):
        if i == n or keys[i] != keys[start]:
            if i - start > 1:
                sort_run(origin, spare_origin, start, i, row_bits, counts)
            start = i
    return keys, origin


@kernel
def sort_run(origin, spare, start, stop, row_bits, counts):
    """Sort points of equal q by rank: a few by insertion, many by counting."""
    n = stop - start
    if n * n < 8 * (n + counts.shape[0]):
        for i in range(start + 1, stop):
            value = origin[i]
            j = i
            while j > start and origin[j - 1] > value:
                origin[j] = origin[j - 1]
                j -= 1
            origin[j] = value
        return
    counts[:] = 0
    for i in range(start, stop):
        counts[origin[i] >> row_bits] += 1
    total = start
    for r in range(counts.shape[0]):
        count = counts[r]
        counts[r] = total
        total += count
    for i in range(start, stop):
        r = origin[i] >> row_bits
        spare[counts[r]] = origin[i]
        counts[r] += 1
    for i in range(start, stop):
        origin[i] = spare[i]


@kernel
def merge_points(
    keys, origin, row_bits, first, last, units, slots, n_slots, opened, gathered, sets
):
    """Merge equal points, and those of one rank that nothing tells apart; returns their number.

    A slot stands where its leftmost point is; ``units`` are the weights of the rows. A label tied
    with others is shared among them: it is inside in equal steps. Carried from one call to the
    next, per label and rank: the slot that further points may join, or -1, in ``opened``, its
    weight so far in ``gathered``, and the ranks with such a slot in ``sets``.
    """
    rank, labels, weight, where = slots
    n_ranks = opened.shape[1] - 1
    row_mask = (1 << row_bits) - 1
    zeros, ones = sets
    n = keys.shape[0]
    i = 0
    while i < n:
        key = keys[i]
        r = min(np.int64(origin[i]) >> row_bits, n_ranks)
        inside = np.int64(0)
        mass = np.int64(0)
        while i < n and keys[i] == key:
            own = np.int64(origin[i]) >> row_bits
            if min(own, n_ranks) != r:
                break
            row = np.int64(origin[i]) & row_mask
            mass += units[row]
            if own >= last[row]:
                inside += units[row]
            elif own >= first[row]:
                inside += units[row] * (own - first[row] + 1) // (last[row] - first[row] + 1)
            i += 1
        if inside < mass:  # tells apart points of label 1 to its left, up to its rank
            j = next_member(ones, 0)
            while 0 <= j <= r:
                close_slot(1, j, labels, weight, opened, gathered, ones)
                j = next_member(ones, j + 1)
        if inside > 0:  # and this one points of label 0, from its rank on
            j = next_member(zeros, r)
            while j >= 0:
                close_slot(0, j, labels, weight, opened, gathered, zeros)
                j = next_member(zeros, j + 1)
        label = 1 if inside == mass else 0
        pure = inside in (0, mass)
        if pure and opened[label, r] >= 0:
            gathered[label, r] += mass
            continue
        rank[n_slots] = r
        labels[n_slots] = inside
        weight[n_slots] = mass
        where[n_slots] = key
        if pure:
            opened[label, r] = n_slots
            gathered[label, r] = mass
            insert(ones if label == 1 else zeros, r)
        n_slots += 1
    return n_slots


@kernel
def close_slot(label, r, labels, weight, opened, gathered, members):
    """Write the weight that an open slot has gathered; it stays as it is from now on."""
    slot = opened[label, r]
    weight[slot] = gathered[label, r]
    labels[slot] = label * gathered[label, r]
    opened[label, r] = -1
    remove(members, r)


@kernel
def close_slots(labels, weight, opened, gathered):
    """Write the weights of all slots that are still open."""
    for label in range(2):
        for r in range(opened.shape[1]):
            slot = opened[label, r]
            if slot >= 0:
                weight[slot] = gathered[label, r]
                labels[slot] = label * gathered[label, r]


@kernel
def risers(rank, where, value, n_ranks):
    """Slots that exceed all before them of the same rank, by rank; and where each rank starts."""
    n = rank.shape[0]
    starts = np.zeros(n_ranks + 2, dtype=np.int64)
    best = np.full(n_ranks + 1, -1.0)
    for i in range(n):
        if value[i] > best[rank[i]]:
            best[rank[i]] = value[i]
            starts[rank[i] + 1] += 1
    for r in range(n_ranks + 1):
        starts[r + 1] += starts[r]
    fill = starts.copy()
    best[:] = -1.0
    q = np.empty(starts[n_ranks + 1])
    v = np.empty(starts[n_ranks + 1])
    for i in range(n):
        r = rank[i]
        if value[i] > best[r]:
            best[r] = value[i]
            q[fill[r]] = where[i]
            v[fill[r]] = value[i]
            fill[r] += 1
    return q, v, starts


@kernel
def enlarged(array, n, room):
    """Copy the first ``n`` entries to a longer array."""
    new = np.empty(room)
    for i in range(n):
        new[i] = array[i]
    return new


@kernel
def rank_fronts(rank, where, value, sure, lowest, n_ranks):
    """Per rank, the jumps of the maximum over dominated slots; ``lowest`` where there is none.

    Sweeps the ranks upwards: the front of a rank is that of the rank below it, merged with the
    slots of the rank by q, keeping what exceeds all before it. Value 1 starts at ``sure``.
    """
    slot_q, slot_v, starts = risers(rank, where, value, n_ranks)
    room = n_ranks + slot_q.shape[0] + 1
    thresholds = np.zeros(room)
    values = np.full(room, lowest)
    offsets = np.zeros(n_ranks + 1, dtype=np.int64)
    old, old_end = 0, 1  # the front below: at first the lowest value from 0 on
    n = 1
    for r in range(1, n_ranks + 1):
        new, new_end = starts[r], starts[r + 1]
        needed = n + (old_end - old) + (new_end - new) + 1
        if needed > room:
            room = 2 * needed
            thresholds = enlarged(thresholds, n, room)
            values = enlarged(values, n, room)
        begin = n
        while old < old_end or new < new_end:
            if new == new_end or (old < old_end and thresholds[old] <= slot_q[new]):
                q, v = thresholds[old], values[old]
                old += 1
            else:
                q, v = slot_q[new], slot_v[new]
                new += 1
            if n > begin and v <= values[n - 1]:
                continue
            if n == begin or q > thresholds[n - 1]:
                n += 1
            thresholds[n - 1] = q
            values[n - 1] = v
        while n > begin and thresholds[n - 1] >= sure[r]:
            n -= 1
        if sure[r] < NEVER and (n == begin or values[n - 1] < 1.0):
            thresholds[n] = sure[r]
            values[n] = 1.0
            n += 1
        offsets[r] = n - 1
        old, old_end = begin, n
    return thresholds[1:n].copy(), values[1:n].copy(), offsets
