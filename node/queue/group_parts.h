/* What a table of groups is made of: growing arrays, ranges in order, a heap, and an index by number. For the module
 * in C beside this file. A function that may need memory returns 0 with an exception where there is none. */

#ifndef QUORATE_GROUP_PARTS_H
#define QUORATE_GROUP_PARTS_H

#include "../ranges/columns.h"

/* Make room for `wanted` items in an array. */
static inline int reserve(void **at, Py_ssize_t *room, Py_ssize_t wanted, size_t size) {
    if (wanted <= *room) return 1;
    Py_ssize_t more = *room * 2 > wanted ? *room * 2 : wanted;
    void *moved = PyMem_Realloc(*at, (size_t)more * size);
    if (moved == NULL) {
        PyErr_NoMemory();
        return 0;
    }
    *at = moved;
    *room = more;
    return 1;
}

#define RESERVE(array, wanted) reserve((void **)&(array).at, &(array).room, (wanted), sizeof *(array).at)

/* -- ranges in order -------------------------------------------------------------------------------------- */

typedef struct {
    Range *at;
    Py_ssize_t head, behind, room; /* the ranges are those from `head` to before `behind` */
    uint64_t count;                /* of numbers */
} Parked;

static inline int any_parked(const Parked *parked) { return parked->head < parked->behind; }

/* The index of the first range that ends at or behind the number. */
static inline Py_ssize_t position(const Parked *parked, uint64_t number) {
    Py_ssize_t low = parked->head, high = parked->behind;
    if (low < high && parked->at[low].last >= number) return low;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (parked->at[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline int insert_range(Parked *parked, Py_ssize_t index, Range range) {
    if (index == parked->head && parked->head > 0) {
        parked->at[--parked->head] = range;
        return 1;
    }
    if (parked->behind == parked->room && parked->head > parked->room / 2) {
        memmove(parked->at, parked->at + parked->head, (size_t)(parked->behind - parked->head) * sizeof(Range));
        index -= parked->head;
        parked->behind -= parked->head;
        parked->head = 0;
    }
    if (!RESERVE(*parked, parked->behind + 1)) return 0;
    memmove(parked->at + index + 1, parked->at + index, (size_t)(parked->behind - index) * sizeof(Range));
    parked->at[index] = range;
    parked->behind++;
    return 1;
}

static inline void delete_range(Parked *parked, Py_ssize_t index) {
    if (index == parked->head) {
        if (++parked->head == parked->behind) parked->head = parked->behind = 0;
        return;
    }
    memmove(parked->at + index, parked->at + index + 1, (size_t)(parked->behind - index - 1) * sizeof(Range));
    parked->behind--;
}

/* Add numbers that are not there. */
static inline int add_parked(Parked *parked, uint64_t first, uint64_t last) {
    Py_ssize_t index = parked->behind;
    if (any_parked(parked) && parked->at[index - 1].last > first) index = position(parked, first);
    int joins_before = index > parked->head && parked->at[index - 1].last + 1 == first;
    int joins_behind = index < parked->behind && last + 1 == parked->at[index].first;
    parked->count += last - first + 1;
    if (joins_before && joins_behind) {
        parked->at[index - 1].last = parked->at[index].last;
        delete_range(parked, index);
    } else if (joins_before) {
        parked->at[index - 1].last = last;
    } else if (joins_behind) {
        parked->at[index].first = first;
    } else {
        return insert_range(parked, index, (Range){first, last});
    }
    return 1;
}

/* Remove numbers; returns how many were there, or -1 with an exception. */
static inline int64_t remove_parked(Parked *parked, uint64_t first, uint64_t last) {
    uint64_t before = parked->count;
    Py_ssize_t index = position(parked, first);
    while (index < parked->behind && parked->at[index].first <= last) {
        Range range = parked->at[index];
        uint64_t from = range.first > first ? range.first : first, to = range.last < last ? range.last : last;
        if (from > range.first && to < range.last && !insert_range(parked, index, (Range){range.first, from - 1}))
            return -1;
        parked->count -= to - from + 1;
        index = position(parked, from);
        if (to < range.last) {
            parked->at[index].first = to + 1;
            break;
        }
        if (from > range.first) {
            parked->at[index++].last = from - 1;
        } else {
            delete_range(parked, index);
            index = position(parked, first);
        }
    }
    return (int64_t)(before - parked->count);
}

/* -- a heap of groups by their first parked messages ------------------------------------------------------ */

typedef struct {
    uint64_t first;
    Py_ssize_t slot, index; /* the group, and where the range stands among its parked ones */
} Head;

typedef struct {
    Head *at;
    Py_ssize_t count, room;
} Heap;

static inline int push_head(Heap *heap, Head head) {
    if (!RESERVE(*heap, heap->count + 1)) return 0;
    Py_ssize_t at = heap->count++;
    for (; at && heap->at[(at - 1) / 2].first > head.first; at = (at - 1) / 2) heap->at[at] = heap->at[(at - 1) / 2];
    heap->at[at] = head;
    return 1;
}

static inline void pop_head(Heap *heap) {
    Head moved = heap->at[--heap->count];
    Py_ssize_t at = 0;
    for (Py_ssize_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && heap->at[child + 1].first < heap->at[child].first) child++;
        if (heap->at[child].first >= moved.first) break;
        heap->at[at] = heap->at[child];
    }
    heap->at[at] = moved;
}

/* -- an index of slots by number -------------------------------------------------------------------------- */

typedef struct {
    uint64_t number;
    Py_ssize_t slot; /* counted from 1; 0: none */
} Entry;

typedef struct {
    Entry *at;
    Py_ssize_t count, room; /* `room` is a power of two, or 0 */
} Index;

enum { FIRST_ROOM = 16 };

static inline Py_ssize_t home(const Index *index, uint64_t number) {
    return (Py_ssize_t)((number * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (index->room - 1);
}

/* The slot of the number; -1 where there is none. */
static inline Py_ssize_t slot_of(const Index *index, uint64_t number) {
    if (!index->room) return -1;
    Py_ssize_t at = home(index, number);
    while (index->at[at].slot && index->at[at].number != number) at = (at + 1) & (index->room - 1);
    return index->at[at].slot - 1;
}

static inline void put_entry(Index *index, Entry entry) {
    Py_ssize_t at = home(index, entry.number);
    while (index->at[at].slot) at = (at + 1) & (index->room - 1);
    index->at[at] = entry;
}

/* Add a number that is not there. */
static inline int add_number(Index *index, uint64_t number, Py_ssize_t slot) {
    if (index->count * 2 >= index->room) {
        Index larger = {NULL, index->count, index->room ? index->room * 2 : FIRST_ROOM};
        larger.at = PyMem_Calloc((size_t)larger.room, sizeof(Entry));
        if (larger.at == NULL) {
            PyErr_NoMemory();
            return 0;
        }
        for (Py_ssize_t at = 0; at < index->room; at++)
            if (index->at[at].slot) put_entry(&larger, index->at[at]);
        PyMem_Free(index->at);
        *index = larger;
    }
    put_entry(index, (Entry){number, slot + 1});
    index->count++;
    return 1;
}

/* Remove a number that is there: entries behind it move up, so that none is lost behind a gap. */
static inline void drop_number(Index *index, uint64_t number) {
    Py_ssize_t mask = index->room - 1, gap = home(index, number);
    while (index->at[gap].number != number || !index->at[gap].slot) gap = (gap + 1) & mask;
    for (Py_ssize_t at = (gap + 1) & mask; index->at[at].slot; at = (at + 1) & mask) {
        if (((at - home(index, index->at[at].number)) & mask) >= ((at - gap) & mask)) {
            index->at[gap] = index->at[at];
            gap = at;
        }
    }
    index->at[gap].slot = 0;
    index->count--;
}

#endif
